from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from quotas.changes.grandfathering import MOST_SPARED
from quotas.changes.promotion import change_impact, change_promote
from quotas.changes.queries import OVERDUE_AFTER, changes_overdue
from quotas.changes.rollout import change_drop, change_propose, change_start, changes_apply_due
from quotas.endpoints import endpoint_update
from quotas.errors import Refused
from quotas.models import AuditEvent, Change, Override, Revision
from quotas.models.change import ChangeState
from quotas.overrides import override_create
from quotas.policies.edit import limit_set, policy_create, policy_update
from quotas.policies.explain import explain
from quotas.tasks import apply_due_changes
from quotas.tenants import NewTenant, tenants_create
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")

SOON = timedelta(hours=1)


def soon() -> datetime:
    return timezone.now() + SOON


def scheduled(rate: int = 50, **arguments: Any) -> int:
    number = change_propose(limit_set, policy="pro-all", limit=bucket(rate), **SAID).pk
    change_start(change=number, mode="scheduled", **{"at": soon(), **FORCED, **arguments})
    return number


def at_due() -> datetime:
    return soon() + timedelta(seconds=1)


def refusal(edit: Callable[[], object]) -> str:
    with pytest.raises(Refused) as refused:
        edit()
    return str(refused.value)


def rate(tenant: str, limit: str = "burst", endpoint: str = GET, at: datetime | None = None) -> int | None:
    """What is enforced on it; None: nothing is."""
    found = explain(tenant=tenant, endpoint=endpoint, at=at).limits
    effective = {one.effective.limit.name: one.effective.limit for one in found}
    if limit not in effective or effective[limit].mode != "enforce":
        return None
    return int(effective[limit].algorithm.describe()["rate"])


class TestAScheduledChange:
    def test_it_is_written_when_it_is_due_and_not_before(self) -> None:
        number = scheduled()
        assert changes_apply_due(timezone.now()) == 0
        assert limit_of("pro-all").parameters["rate"] == 100
        assert changes_apply_due(at_due()) == 1
        assert limit_of("pro-all").parameters["rate"] == 50
        change = Change.objects.get(pk=number)
        assert (change.state, change.end_author, change.end_revision_id) == (
            ChangeState.PROMOTED,
            "ann",
            newest().number,
        )
        assert changes_apply_due(at_due()) == 0

    def test_the_task_does_it(self) -> None:
        number = scheduled()
        Change.objects.filter(pk=number).update(at=timezone.now())
        apply_due_changes()
        assert Change.objects.get(pk=number).state == ChangeState.PROMOTED

    def test_a_cut_takes_force_and_lists_whom_it_will_hurt(self) -> None:
        assert "a cut of 50 %" in refusal(lambda: scheduled(force=False))
        change = Change.objects.get(pk=scheduled())
        assert (change.impact["hurt"], change.impact["hurt_count"]) == (["acme"], 1)
        assert change.force

    def test_what_was_forced_may_not_have_become_worse(self) -> None:
        number = change_propose(endpoint_update, name=PAY, default_cost=20, **SAID).pk
        change_start(change=number, mode="scheduled", at=soon(), **SAID)
        limit_set(policy="pro-all", limit=bucket(100, unit="cost"), **FORCED)
        changes_apply_due(at_due())
        change = Change.objects.get(pk=number)
        assert change.state == ChangeState.BLOCKED
        assert "a cut of 50 %" in change.problem
        event = AuditEvent.objects.get(kind="change_blocked")
        assert event.detail == {"change": number, "problem": change.problem}

    def test_nor_more_than_what_was_accepted(self) -> None:
        limit_set(policy="pro-all", limit=bucket(100, unit="cost"), **FORCED)
        number = change_propose(endpoint_update, name=PAY, default_cost=20, **SAID).pk
        change_start(change=number, mode="scheduled", at=soon(), **FORCED)
        limit_set(policy="free-all", limit=bucket(10, unit="cost"), **FORCED)
        changes_apply_due(at_due())
        assert Change.objects.get(pk=number).state == ChangeState.PROMOTED

    def test_blocked_it_can_be_started_again(self) -> None:
        number = scheduled()
        policy_update(name="pro-all", limits=[bucket(100), bucket(100, "minute")], **FORCED)
        changes_apply_due(at_due())
        assert "was changed since" in Change.objects.get(pk=number).problem
        assert Change.objects.get(pk=number).state == ChangeState.BLOCKED
        assert change_drop(change=number, **SAID).state == ChangeState.DROPPED

    def test_one_that_is_blocked_holds_up_no_other(self) -> None:
        blocked = scheduled()
        limit_set(policy="pro-all", limit=bucket(400), **SAID)
        other = change_propose(limit_set, policy="free-all", limit=bucket(20), **SAID).pk
        change_start(change=other, mode="scheduled", at=soon(), **SAID)
        assert changes_apply_due(at_due()) == 2
        states = dict(Change.objects.values_list("pk", "state"))
        assert states == {blocked: ChangeState.BLOCKED, other: ChangeState.PROMOTED}

    def test_it_can_be_moved_dropped_and_promoted_early(self) -> None:
        number = scheduled()
        change_start(change=number, mode="scheduled", at=soon() + SOON, **FORCED)
        assert changes_apply_due(at_due()) == 0
        change_drop(change=number, **SAID)
        assert changes_apply_due(at_due() + SOON) == 0
        assert change_promote(change=scheduled(), **SAID).state == ChangeState.PROMOTED

    def test_in_shadow_meanwhile_it_takes_its_state_along(self) -> None:
        number = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID).pk
        change_start(change=number, mode="shadow", **SAID)
        change_start(change=number, mode="scheduled", at=soon(), **FORCED)
        assert "is on trial" in refusal(lambda: limit_set(policy="pro-all", limit=bucket(400), **SAID))
        changes_apply_due(at_due())
        assert limit_of("pro-all").adopts_candidate

    @pytest.mark.parametrize(
        ("at", "says"),
        [
            (None, "at is missing"),
            (datetime(2100, 1, 1), "no time zone"),  # noqa: DTZ001
            (timezone.now() - SOON, "in the past"),
        ],
    )
    def test_a_bad_time_is_refused(self, at: datetime | None, says: str) -> None:
        assert says in refusal(lambda: scheduled(at=at))

    def test_a_dead_scheduler_shows(self) -> None:
        number = scheduled()
        due = Change.objects.get(pk=number).at
        assert due
        assert not changes_overdue(due + OVERDUE_AFTER).exists()
        overdue = changes_overdue(due + OVERDUE_AFTER + timedelta(seconds=1))
        assert [change.pk for change in overdue] == [number]


class TestGrandfathering:
    @pytest.fixture(autouse=True)
    def others(self, world: None) -> None:
        tenants_create(tenants=[NewTenant(name, "pro") for name in ("city", "dart")], **SAID)

    def test_those_named_stay_as_they_are_in_the_same_revision(self) -> None:
        number = scheduled(grandfather=["acme", "bolt"])
        assert Change.objects.get(pk=number).impact["hurt"] == ["city", "dart"]
        before = Revision.objects.count()
        changes_apply_due(at_due())
        assert Revision.objects.count() == before + 1
        override = Override.objects.get()
        assert (override.tenant.name, override.end, override.created_revision_id) == ("acme", None, newest().number)
        assert [rate(name) for name in ("acme", "city", "dart", "bolt")] == [100, 50, 50, 10]

    def test_all_that_are_hurt_stay_and_nothing_takes_force(self) -> None:
        scheduled(grandfather=["*"], force=False)
        changes_apply_due(at_due())
        assert [rate(name) for name in ("acme", "city", "dart")] == [100, 100, 100]
        assert set(Override.objects.values_list("tenant__name", flat=True)) == {"acme", "city", "dart"}

    def test_what_is_new_is_off_for_them(self) -> None:
        number = change_propose(limit_set, policy="pro-all", limit=bucket(5, "other", per="1m"), **SAID).pk
        change_promote(change=number, grandfather=["acme"], **FORCED)
        assert [rate(name, "other") for name in ("acme", "city")] == [None, 5]

    def test_on_an_endpoint_too(self) -> None:
        arguments: dict[str, Any] = {"name": "pro-get", "tier": "pro", "endpoint": GET, "limits": [bucket(7)]}
        change_promote(change=change_propose(policy_create, **arguments, **SAID).pk, grandfather=["acme"], **FORCED)
        assert [rate("acme"), rate("city"), rate("acme", endpoint=PAY)] == [100, 7, 100]

    def test_an_override_they_have_ends_as_it_would_have(self) -> None:
        override_create(tenant="acme", multiplier=(3, 1), end=soon(), **SAID)
        scheduled(grandfather=["acme"], at=soon() + SOON)
        Change.objects.update(at=timezone.now())
        changes_apply_due()
        assert [rate("acme"), rate("acme", at=at_due()), rate("city")] == [300, 100, 50]

    def test_what_they_gain_reaches_them(self) -> None:
        arguments: dict[str, Any] = {"name": "pro-all", "limits": [bucket(50), bucket(5_000, "minute", per="1m")]}
        change_promote(change=change_propose(policy_update, **arguments, **SAID).pk, grandfather=["acme"], **FORCED)
        assert [rate("acme"), rate("acme", "minute")] == [100, 5_000]

    def test_whom_it_would_hurt_is_known_beforehand(self) -> None:
        number = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID).pk
        assert change_impact(change=number, author="ann").hurt == ("acme", "city", "dart")
        assert change_impact(change=number, author="ann", grandfather=["city"]).hurt == ("acme", "dart")
        assert not Override.objects.exists()

    def test_a_tenant_that_is_not_there_is_refused(self) -> None:
        assert "there is no tenant nobody" in refusal(lambda: scheduled(grandfather=["nobody"]))

    def test_a_whole_tier_is_too_many(self) -> None:
        tenants_create(tenants=[NewTenant(f"t-{n}", "pro") for n in range(MOST_SPARED)], **SAID)
        assert "make them a tier of their own" in refusal(lambda: scheduled(grandfather=["*"]))
        assert not Override.objects.exists()
