"""Calibrated targets: measured from the latency rollups, and published without a revision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from headroom_edge.observations import bucket_of
from quotas.adaptive.targets import target_of, targets_measure
from quotas.errors import Refused
from quotas.models import Endpoint, EndpointTarget, Outbox, Revision
from quotas.observations.histogram import Histogram
from quotas.observations.latency import LatencyCounts
from quotas.policies.configuration import configuration_load
from quotas.policies.edit import policy_create
from quotas.usage.latency import add_latency
from quotas.usage.queries.latency import LatencyAtLoad
from tests.quotas.world import FORCED, GET

HOUR = datetime(2031, 3, 5, 14, tzinfo=UTC)
NOW = HOUR + timedelta(hours=3)


def at_load(load: int, answers: int, mean_us: int) -> LatencyAtLoad:
    return LatencyAtLoad(load, 1, answers, 0, answers * mean_us, Histogram.unpack([], []))


def test_it_is_one_and_a_half_times_the_latency_at_low_load() -> None:
    loads = [at_load(10, 1_500, 20_000), at_load(50, 1_500, 30_000), at_load(100, 3_000, 400_000)]
    assert target_of(loads) == 30_000
    assert target_of([at_load(10, 999, 20_000)]) is None
    assert target_of([at_load(10, 600, 20_000), at_load(20, 600, 40_000)]) == 45_000
    assert target_of([]) is None
    assert target_of([at_load(10, 5_000, 1)]) == 1_000


def adaptive(**fields: Any) -> dict[str, Any]:
    limit = {"name": "backend", "algorithm": "adaptive_concurrency", "min": 5, "max": 200, "hold": "30s"}
    return {**limit, "target": "calibrated", **fields}


def observe(us: int, count: int = 2_000) -> None:
    number = Endpoint.objects.get(name=GET).number
    with transaction.atomic():
        add_latency(LatencyCounts.of([(int(HOUR.timestamp()), number, 0, bucket_of(us), count)]), NOW)


def test_a_new_target_is_published_without_a_revision(world: None) -> None:
    policy_create(name="backend", endpoint=GET, limits=[adaptive()], **FORCED)
    Outbox.objects.all().delete()
    revisions = Revision.objects.count()
    assert targets_measure(NOW) == 0
    assert configuration_load().endpoints[GET].target_us is None
    observe(40_000)
    assert targets_measure(NOW) == 1
    target_us = configuration_load().endpoints[GET].target_us
    assert target_us == pytest.approx(60_000, rel=0.1)
    assert [row.touched for row in Outbox.objects.all()] == [["common"]]
    assert Revision.objects.count() == revisions
    assert targets_measure(NOW) == 0  # nothing has moved by more than a tenth
    observe(80_000, count=20_000)
    assert targets_measure(NOW) == 1
    assert EndpointTarget.objects.get().target_us > 1.5 * (target_us or 0)


def test_only_endpoints_with_a_calibrated_limit_are_measured(world: None) -> None:
    policy_create(name="backend", endpoint=GET, limits=[adaptive(target="50ms")], **FORCED)
    observe(40_000)
    assert targets_measure(NOW) == 0


def test_a_calibrated_target_needs_one_endpoint(world: None) -> None:
    with pytest.raises(Refused, match="cannot be calibrated"):
        policy_create(name="backend", endpoint="*", limits=[adaptive()], **FORCED)
