"""What middlewares observed is kept once, against the load of its second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.db import transaction

from headroom_edge.lua_library import ensure_loaded
from headroom_edge.observations import ENDS, bucket_of
from quotas.models import Endpoint
from quotas.models.usage_rates import FoldName, FoldState, LatencyHour, UsageLog
from quotas.observations.latency import LatencyCounts
from quotas.usage.drain import drain
from quotas.usage.fold import delete_folded_log, fold_all
from quotas.usage.latency import add_latency, fold_latency
from quotas.usage.queries.latency import latency_read, latency_samples

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = datetime(2031, 3, 5, 14, tzinfo=UTC)
START = int(HOUR.timestamp())
NOW = HOUR + timedelta(hours=3)


def add(*rows: tuple[int, int, int, int]) -> None:
    """Second, 1 for an error, microseconds, count; of endpoint 1."""
    with transaction.atomic():
        add_latency(LatencyCounts.of((START + s, 1, error, bucket_of(us), count) for s, error, us, count in rows), NOW)


def test_seconds_of_one_load_are_kept_together() -> None:
    add((0, 0, 900, 4), (0, 1, 5_000, 1), (7, 0, 900, 5), (8, 0, 70_000, 80))
    add((3_700, 0, 900, 5))
    rows = {(row.start, ENDS[row.load]): row for row in LatencyHour.objects.all()}
    busy = ENDS[bucket_of(80)]
    assert {(start.hour, load) for start, load in rows} == {(14, 5), (14, busy), (15, 5)}
    calm = rows[HOUR, 5]
    assert (calm.seconds, calm.answers, calm.errors) == (2, 10, 1)
    again = latency_read(1, HOUR, NOW)
    assert [(one.load, one.answers) for one in again] == [(5, 15), (busy, 80)]
    assert again[-1].quantile_ms(0.99) == pytest.approx(70, rel=0.05)
    assert again[-1].mean_ms == pytest.approx(70, rel=0.05)


def test_the_same_hour_may_be_added_to() -> None:
    add((0, 0, 900, 5))
    add((1, 0, 2_000, 5))
    (row,) = LatencyHour.objects.all()
    assert (row.seconds, row.answers) == (2, 10)
    assert [sample.load for sample in latency_samples(1, HOUR, NOW)] == [5]


def observe(valkey: redis.Redis, *items: str) -> None:
    ensure_loaded(valkey)
    words = [word for item in items for word in item.split()]
    valkey.fcall("hr_observe", 1, "hr:{all}", *words)


def test_observations_are_drained_once_and_wait_until_their_second_is_over(valkey: redis.Redis) -> None:
    Endpoint.objects.create(number=4, name="rides:get", method="GET", path="/rides")
    observe(valkey, "60000 2 100:3,101:1 rides:get", "60000 5 150:1 rides:get", "0 2 100:7 rides:get")
    drain(valkey)
    drain(valkey)
    now = datetime.fromtimestamp(valkey.time()[0], UTC)
    fold_latency(now)
    assert [(row.endpoint_number, row.answers, row.errors) for row in LatencyHour.objects.all()] == [(4, 5, 1)]
    fold_latency(now + timedelta(minutes=1))
    assert sum(row.answers for row in LatencyHour.objects.all()) == 12
    assert not FoldState.objects.get(name=FoldName.LATENCY).rest
    fold_all()
    assert delete_folded_log() == 0
    assert not UsageLog.objects.exists()


def test_what_cannot_be_read_is_said_and_the_rest_is_kept(
    valkey: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    observe(valkey, "60000 2 100:3 unheard:of")
    valkey.rpush("hr:{all}:a", "nonsense")
    drain(valkey)
    fold_latency(datetime.fromtimestamp(valkey.time()[0], UTC))
    assert LatencyHour.objects.get().endpoint_number == 0
    assert "nonsense" in caplog.text
