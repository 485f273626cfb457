"""The demo's endpoint whose backend slows down every hour, with the limit that follows it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import redis
from django.utils import timezone

from quotas.demo.adaptive_history import state_at
from quotas.demo.latency import backend_of
from quotas.demo.slow_backend import BURST, ETA, LIMIT, RATE, SLOWDOWN, adapted_spans
from quotas.demo.story import WORLD
from quotas.demo.traffic_history import NameNumbers, record_flow
from quotas.demo.traffic_patterns import flows
from quotas.errors import accepted
from quotas.models import AdaptiveReading
from quotas.models.usage import Outcome
from quotas.policies.adapt import Adapt
from quotas.policies.document import read_document
from tests.quotas.demo.world import make_demo

HOUR_S = 3_600
BEGAN_S = 500_000 * HOUR_S
SLOW_S = BEGAN_S + SLOWDOWN.minutes.start * 60


def median_ms(load: float, at_s: int) -> float:
    backend, draw = backend_of(ETA), np.random.default_rng(1)
    return 1_000 * float(np.median(backend.seconds(np.full(500, load), np.full(500, at_s), draw)))


def test_it_is_slow_for_some_minutes_of_every_hour_unless_less_is_let_through() -> None:
    assert median_ms(5, SLOW_S - 1) < 100
    assert median_ms(5, SLOW_S) > 500
    assert median_ms(5, SLOW_S + 24 * HOUR_S) > 500
    assert median_ms(SLOWDOWN.knee, SLOW_S) < 100
    assert median_ms(5, BEGAN_S + SLOWDOWN.minutes.stop * 60) < 100


def test_in_the_past_its_limit_followed_down_and_back_in_every_hour() -> None:
    spans = adapted_spans(range(BEGAN_S, BEGAN_S + 2 * HOUR_S))
    assert [span.rate for span in spans] == [RATE, *(2 * [SLOWDOWN.knee * 0.95, RATE])]
    assert [span.since_s for span in spans] == sorted(span.since_s for span in spans)


def test_its_past_was_denied_in_those_minutes_alone() -> None:
    (flow,) = (flow for flow in flows(BEGAN_S) if flow.endpoint == ETA)
    numbers = NameNumbers({flow.tenant: 1}, {flow.tenant: "enterprise"}, {ETA: 2}, {ETA: 1}, {LIMIT: 3})
    found = record_flow(flow, numbers, BEGAN_S, range(BEGAN_S, BEGAN_S + HOUR_S), np.random.default_rng(1))
    by_outcome = {series.outcome: series.counts.reshape(60, 60).sum(axis=1) for series in found}
    denied = np.flatnonzero(by_outcome[Outcome.DENIED])
    assert set(denied.tolist()) >= set(SLOWDOWN.minutes)
    assert set(denied.tolist()) <= {*SLOWDOWN.minutes, SLOWDOWN.minutes.stop, SLOWDOWN.minutes.stop + 1}
    assert by_outcome[Outcome.ALLOWED][SLOWDOWN.minutes.start + 2] < 60 * SLOWDOWN.knee


def test_its_timeline_has_a_dip_in_every_hour_with_its_reason() -> None:
    adapt = Adapt.parse({"floor": "25%", "slow": "300ms"})
    values = [state_at(adapt, BEGAN_S + second).factor for second in range(0, HOUR_S, 10)]
    assert (values[0], min(values), values[-1]) == (1_000, 250, 1_000)
    slow = range(SLOWDOWN.minutes.start * 6 + 1, SLOWDOWN.minutes.stop * 6)
    assert all(values[place] < 1_000 for place in slow)
    modes = [state_at(adapt, BEGAN_S + second).mode for second in range(0, HOUR_S, 10)]
    assert list(dict.fromkeys(modes)) == ["free", "drain", "cruise"]


@pytest.mark.django_db(transaction=True)
def test_the_seed_writes_the_timeline_up_to_its_end(valkey: redis.Redis) -> None:
    make_demo()
    rows = AdaptiveReading.objects.order_by("at")
    assert {row.policy for row in rows} == {"protect-eta"}
    assert rows[0].at < timezone.now() - timedelta(hours=23)
    assert any(row.is_at_floor for row in rows)
    assert any(row.reason.startswith("held just below what the backend could answer") for row in rows)


def test_the_limit_of_its_past_is_the_one_that_the_world_writes() -> None:
    document = accepted(read_document(Path(WORLD).read_text()))
    (policy,) = (policy for policy in document.policies if policy.endpoint == ETA)
    (limit,) = policy.limits
    assert limit.name == LIMIT
    assert limit.algorithm.describe() == {"rate": RATE, "per": "1s", "burst": BURST}
