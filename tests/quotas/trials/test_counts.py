"""Real traffic through the limiter, drained and folded: the trial counts what an independent count finds."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
import redis
from django.core.management import call_command
from django.utils import timezone

from headroom_edge import Limiter
from quotas.changes.rollout import change_propose, change_start
from quotas.models import Change, FoldState, GapRecord
from quotas.policies.edit import limit_set, policy_create, policy_update
from quotas.tenants import NewTenant, tenants_create
from quotas.trials.counts import period_of, points_read, series_read, worst_hours_read, worst_minutes_read
from quotas.trials.report import trial_of
from quotas.usage.drain import drain
from quotas.usage.fold import fold_all
from tests.quotas.trials.traffic import counted
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket, make_world

pytestmark = pytest.mark.django_db(transaction=True)


def slow(size: int, name: str = "burst") -> dict[str, object]:
    """Nothing flows back while a test runs."""
    return {"name": name, "algorithm": "token_bucket", "rate": 1, "per": "1d", "burst": size}


def test_what_the_limiter_let_pass_and_the_candidate_would_not_is_counted_to_the_unit(
    valkey: redis.Redis, valkey_url: str
) -> None:
    make_world()
    tenants_create(tenants=[NewTenant("calm", "pro"), NewTenant("own", "pro")], **SAID)
    policy_update(name="pro-all", limits=[slow(20)], **FORCED)
    policy_create(name="own", tenant="own", limits=[slow(500)], **FORCED)
    change = change_propose(limit_set, policy="pro-all", limit=slow(5), **SAID)
    change_start(change=change.pk, mode="shadow", **SAID)
    call_command("publish", verbosity=0)
    asked = {"acme": 30, "calm": 4, "own": 50, "bolt": 12}
    answers: Counter[tuple[str, bool]] = Counter()
    with Limiter.from_url(valkey_url, fail="closed", budget_ms=60_000) as limiter:
        for tenant, times in asked.items():
            for _ in range(times):
                answers[tenant, limiter.check(tenant=tenant, endpoint=GET).allowed] += 1
    drain(valkey)
    fold_all()
    counts = trial_of(change).counts
    assert counts is not None
    seen = {one.tenant: (one.asked, one.would_deny, one.denied) for one in counts.tenants}
    # Of the 20 that the live limit lets pass, the candidate of 5 would deny 15. `own` has a limit of its own, and
    # `bolt` is on another tier.
    assert seen == {"acme": (30, 15, 10), "calm": (4, 0, 0)}
    assert (answers["acme", True], answers["acme", False]) == (20, 10)
    assert (counts.total.asked, counts.total.would_deny, counts.hit) == (34, 15, 1)


@pytest.fixture
def change(world: None) -> int:
    number = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID).pk
    return change_start(change=number, mode="shadow", **SAID).pk


def test_hours_and_minutes_are_added_without_counting_anything_twice(change: int) -> None:
    row = Change.objects.get(pk=change)
    start = timezone.now().replace(second=0, microsecond=0)
    for minutes in (0, 61, 125, 182):
        counted(start + timedelta(minutes=minutes), "acme", allowed=100, would=3)
    later = start + timedelta(hours=4)
    for folded in (start, start + timedelta(hours=3), later):
        FoldState.objects.update_or_create(name="hours", defaults={"until": folded})
        FoldState.objects.update_or_create(name="minutes", defaults={"until": later})
        counts = trial_of(row, later).counts
        assert counts is not None
        assert (counts.total.asked, counts.total.would_deny) == (400, 12), folded


def test_the_worst_minute_the_series_and_the_worst_hour_are_told(change: int) -> None:
    row = Change.objects.get(pk=change)
    start = timezone.now().replace(second=0, microsecond=0)
    counted(start + timedelta(minutes=3), "acme", allowed=50, would=5, denied=7, passes=2)
    counted(start + timedelta(minutes=9), "acme", allowed=40, would=20)
    counted(start + timedelta(minutes=9), "acme", allowed=10, endpoint=PAY)
    later = start + timedelta(minutes=30)
    for name in ("minutes", "hours"):
        FoldState.objects.update_or_create(name=name, defaults={"until": later})
    trial = trial_of(row, later)
    assert trial.counts is not None
    (acme,) = trial.counts.tenants
    worst_minutes_read(trial.scope, trial.counts, [acme])
    assert (acme.worst_at, acme.worst_would, acme.worst_asked) == (start + timedelta(minutes=9), 20, 50)
    assert (acme.asked, acme.would_deny, acme.would_allow, acme.denied) == (107, 25, 2, 7)
    period = period_of(trial.counts, later)
    series_read(trial.scope, trial.counts, [acme], period)
    points = points_read(trial.scope, period)
    assert sum(acme.series) == sum(point.would_deny for point in points) == 25
    assert sum(point.asked for point in points) == 107
    busiest = (start + timedelta(minutes=9)).replace(minute=0)  # the test may run shortly before the hour
    begun_before = worst_hours_read(trial.scope, busiest + timedelta(minutes=1), later)
    assert begun_before == (None, None)
    of_all, of_one = worst_hours_read(trial.scope, busiest, later)
    assert of_all is not None
    assert of_one is not None
    assert of_one.tenant == "acme"
    assert of_all.share == pytest.approx(of_one.share)


def test_a_gap_shortens_the_time_measured(change: int) -> None:
    row = Change.objects.get(pk=change)
    start = timezone.now().replace(second=0, microsecond=0)
    later = start + timedelta(hours=10)
    FoldState.objects.create(name="minutes", until=later)
    GapRecord.objects.create(start=start + timedelta(hours=1), end=start + timedelta(hours=3), reason="Redis was away")
    counts = trial_of(row, later).counts
    assert counts is not None
    assert counts.hours == pytest.approx(8, abs=0.02)
