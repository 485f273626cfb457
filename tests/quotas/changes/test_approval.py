from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from quotas.changes.approval import change_approve
from quotas.changes.commit import Proposed, commit
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import change_drop, change_start, changes_apply_due
from quotas.changes.undo import revision_rollback
from quotas.endpoints import endpoint_create
from quotas.errors import Refused
from quotas.models import Approval, AuditEvent, Change, Revision
from quotas.models.change import ChangeState
from quotas.overrides import override_create
from quotas.policies.edit import candidate_promote, candidate_set, limit_set, policy_create
from quotas.tenants import tenant_create, tenant_move, tenant_resume, tenant_suspend, tier_create
from tests.quotas.world import FORCED, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world", "four_eyes")


@pytest.fixture
def four_eyes(world: None, settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True


def filed(edit: Callable[..., object], **arguments: Any) -> int:
    """An edit that has to wait, kept as a change."""
    before = Revision.objects.count()
    outcome = commit(partial(edit, **arguments, **FORCED))
    assert isinstance(outcome, Proposed)
    assert outcome.change
    assert Revision.objects.count() == before
    return outcome.change.pk


def cut() -> int:
    return filed(limit_set, policy="pro-all", limit=bucket(50))


def refusal(edit: Callable[[], object]) -> str:
    with pytest.raises(Refused) as refused:
        edit()
    return str(refused.value)


@pytest.mark.parametrize(
    ("edit", "arguments"),
    [
        (limit_set, {"policy": "pro-all", "limit": bucket(50)}),
        (policy_create, {"name": "acme-all", "tenant": "acme", "limits": [bucket(500)]}),
        (override_create, {"tenant": "acme", "multiplier": (2, 1)}),
        (tenant_move, {"name": "bolt", "tier": "pro"}),
        (endpoint_create, {"name": "rides:list"}),
        (revision_rollback, {"number": 1}),
    ],
)
def test_what_is_enforced_waits_and_is_written_as_it_was_asked(
    edit: Callable[..., object], arguments: dict[str, Any], settings: Any
) -> None:
    if edit is revision_rollback:
        limit_set(policy="pro-all", limit=bucket(500), emergency=True, **FORCED)
    number = filed(edit, **arguments)
    change_approve(change=number, approver="bob", reason="I agree")
    change_promote(change=number, **SAID)
    before = newest()
    settings.HEADROOM_FOUR_EYES = False
    edit(**arguments, **FORCED) if edit is revision_rollback else None
    assert newest() == before


@pytest.mark.parametrize(
    "edit",
    [
        lambda: tier_create(name="gold", **SAID),
        lambda: tenant_create(name="city", tier="pro", **SAID),
        lambda: tenant_suspend(name="acme", **SAID),
        lambda: tenant_resume(name="acme", **SAID),
        lambda: candidate_set(policy="pro-all", limit="burst", candidate={"algorithm": "gcra", "rate": 1}, **SAID),
    ],
)
def test_what_takes_nothing_away_or_must_not_wait_does_not(edit: Callable[[], object]) -> None:
    edit()


def test_the_author_cannot_approve() -> None:
    number = cut()
    for name in ("ann", " ann ", "Ann"):
        said = refusal(partial(change_approve, change=number, approver=name, reason="mine"))
        assert "somebody else has to approve it" in said
    assert not Approval.objects.exists()


def test_without_an_approver_it_is_neither_promoted_nor_started() -> None:
    number = cut()
    soon = timezone.now() + timedelta(hours=1)
    for start in (
        lambda: change_promote(change=number, **FORCED),
        lambda: change_start(change=number, mode="canary", share_percent=5, **FORCED),
        lambda: change_start(change=number, mode="scheduled", at=soon, **FORCED),
    ):
        assert "waits for an approver other than ann" in refusal(start)
    assert limit_of("pro-all").parameters["rate"] == 100


def test_in_shadow_it_may_be_and_dropped_too() -> None:
    number = cut()
    change_start(change=number, mode="shadow", **SAID)
    assert change_drop(change=number, **SAID).state == ChangeState.DROPPED


def test_approved_it_is_promoted_with_what_was_forced() -> None:
    number = cut()
    approval = change_approve(change=number, approver="bob", reason="I agree")
    assert (approval.approver, approval.reason) == ("bob", "I agree")
    assert change_promote(change=number, **SAID).state == ChangeState.PROMOTED
    assert limit_of("pro-all").parameters["rate"] == 50


def test_a_candidate_that_is_promoted_so_keeps_its_state() -> None:
    candidate = {"algorithm": "token_bucket", "rate": 50, "burst": 100}
    candidate_set(policy="pro-all", limit="burst", candidate=candidate, **SAID)
    number = filed(candidate_promote, policy="pro-all", limit="burst")
    change_approve(change=number, approver="bob", reason="I agree")
    change_promote(change=number, **SAID)
    row = limit_of("pro-all")
    assert (row.parameters["rate"], row.candidate, row.adopts_candidate) == (50, None, True)


def test_approval_is_given_once_and_in_time() -> None:
    number = cut()
    change_approve(change=number, approver="bob", reason="I agree")
    assert "once is enough" in refusal(lambda: change_approve(change=number, approver="bob", reason="again"))
    change_drop(change=number, **SAID)
    assert "was already dropped" in refusal(lambda: change_approve(change=number, approver="carol", reason="late"))
    assert "there is no change" in refusal(lambda: change_approve(change=number + 1, approver="bob", reason="what"))


class TestAnEmergency:
    def noted(self) -> list[dict[str, str]]:
        return list(AuditEvent.objects.filter(kind="approval_skipped").values_list("detail", flat=True))

    def test_an_edit_waits_for_nobody_and_is_noted(self) -> None:
        limit_set(policy="pro-all", limit=bucket(50), emergency=True, **FORCED)
        assert limit_of("pro-all").parameters["rate"] == 50
        about = {"action": "limit_set", "author": "ann", "reason": "because", "what": str(newest())}
        assert self.noted() == [about]

    def test_it_is_no_force(self) -> None:
        assert "a cut of 50 %" in refusal(lambda: limit_set(policy="pro-all", limit=bucket(50), emergency=True, **SAID))

    def test_a_change_that_waits_is_promoted(self) -> None:
        change_promote(change=cut(), emergency=True, **SAID)
        assert [note["action"] for note in self.noted()] == ["change_promote"]

    def test_a_schedule_of_one_holds_when_it_is_due(self) -> None:
        number, soon = cut(), timezone.now() + timedelta(hours=1)
        change_start(change=number, mode="scheduled", at=soon, emergency=True, **FORCED)
        changes_apply_due(soon)
        assert Change.objects.get(pk=number).state == ChangeState.PROMOTED
        assert [note["action"] for note in self.noted()] == ["change_schedule"]

    def test_where_two_eyes_are_enough_there_is_nothing_to_note(self, settings: Any) -> None:
        settings.HEADROOM_FOUR_EYES = False
        limit_set(policy="pro-all", limit=bucket(50), emergency=True, **FORCED)
        assert self.noted() == []


def test_who_did_what_stands_in_the_history_of_the_change() -> None:
    number = cut()
    change_approve(change=number, approver="bob", reason="I agree")
    change_promote(change=number, author="carol", reason="now")
    events = Change.objects.get(pk=number).events.order_by("pgh_id")  # type: ignore[attr-defined]
    assert [(event.state, event.pgh_context["author"], event.pgh_context["action"]) for event in events] == [
        ("pending", "ann", "change_file"),
        ("promoted", "carol", "change_promote"),
    ]
