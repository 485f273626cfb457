"""A change freeze holds every way to change the configuration, except for those who may pass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from io import StringIO
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command
from django.utils import timezone

from quotas.bypass import bypass_set
from quotas.changes.approval import change_approve
from quotas.changes.commit import Proposed, commit
from quotas.changes.freeze import Frozen, freeze_lift, freeze_set
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import change_drop, change_propose, change_start, changes_apply_due
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.endpoints import endpoint_create
from quotas.errors import Refused
from quotas.models import AuditEvent, Change, Emergency, Freeze, Revision
from quotas.models.change import ChangeState
from quotas.overrides import override_create
from quotas.policies.apply import document_apply, document_export
from quotas.policies.document import Document, read_document
from quotas.policies.edit import limit_set, policy_create
from quotas.tenants import tenant_create, tenant_move, tenant_resume, tenant_suspend, tier_create
from quotas.tokens import token_issue
from tenants.identity import acting_as
from tenants.scope import Principal, principal_of_text, principal_of_user
from tests.access.people import person
from tests.quotas.world import FORCED, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")
HOUR = timedelta(hours=1)


def freeze(**fields: Any) -> Freeze:
    until = timezone.now() + 2 * HOUR
    return freeze_set(**{"end": until, "author": "olga", "reason": "the holidays", **fields})


def account(name: str, role: str) -> Principal:
    who = principal_of_user(person(name, role))
    assert who is not None
    return who


def cut(author: str = "ann", **permits: Any) -> object:
    return limit_set(policy="pro-all", limit=bucket(50), force=True, author=author, reason="because", **permits)


def passed() -> list[tuple[str, bool]]:
    rows = AuditEvent.objects.filter(kind="freeze_passed").order_by("id")
    return [(row.detail["action"], row.detail["emergency"]) for row in rows]


def document() -> Document:
    read = read_document(document_export().replace("rate: 10\n", "rate: 12\n"))
    assert isinstance(read, Document)
    return read


@pytest.mark.parametrize(
    "edit",
    [
        cut,
        lambda: policy_create(name="acme-all", tenant="acme", limits=[bucket(500)], **SAID),
        lambda: override_create(tenant="acme", multiplier=(2, 1), **SAID),
        lambda: tenant_create(name="city", tier="pro", **SAID),
        lambda: tenant_move(name="bolt", tier="pro", **SAID),
        lambda: tier_create(name="gold", **SAID),
        lambda: endpoint_create(name="rides:list", **SAID),
        lambda: document_apply(document=document(), **FORCED),
        lambda: revision_rollback(number=1, **FORCED),
        lambda: revision_revert(number=newest().number, **FORCED),
    ],
)
def test_nothing_is_written_until_it_ends(edit: Callable[[], object]) -> None:
    limit_set(policy="pro-all", limit=bucket(60), **FORCED)
    row, before = freeze(roles=["owner"]), newest().number
    for attempt in (edit, partial(commit, edit)):
        with pytest.raises(Frozen) as refused:
            attempt()
        said = str(refused.value)
        assert f"frozen until {row.end:%Y-%m-%d %H:%M} UTC (the holidays)" in said
        assert "the role owner" in said
    assert newest().number == before
    freeze_lift(freeze=row.pk, author="olga", reason="done")
    edit()
    assert newest().number > before


@pytest.mark.parametrize(
    "edit",
    [
        lambda: limit_set(policy="pro-all", limit=bucket(50), **SAID),
        lambda: tenant_move(name="acme", tier="free", **SAID),
        lambda: revision_rollback(number=newest().number - 1, author="bea", reason="too much"),
    ],
)
def test_it_is_told_before_a_cut_that_would_need_force(edit: Callable[[], object]) -> None:
    limit_set(policy="pro-all", limit=bucket(300), **FORCED)
    with pytest.raises(Refused, match="a cut of"):
        edit()
    freeze()
    for attempt in (edit, partial(commit, edit), partial(commit, edit, rehearsal=edit)):
        with pytest.raises(Frozen):
            attempt()
    assert isinstance(commit(edit, "propose"), Proposed)


def test_it_is_told_before_the_cut_of_a_promotion() -> None:
    number = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID).pk
    freeze()
    with pytest.raises(Frozen):
        change_promote(change=number, **SAID)
    with pytest.raises(Refused, match="a cut of"):
        change_promote(change=number, emergency=True, **SAID)


def test_it_can_be_proposed_but_neither_approved_nor_started(settings: Any) -> None:
    row = freeze()
    outcome = commit(cut, "propose")
    assert isinstance(outcome, Proposed)
    assert outcome.change
    number = outcome.change.pk
    for step in (
        lambda: change_approve(change=number, approver="bob", reason="I agree"),
        lambda: change_start(change=number, mode="shadow", **SAID),
        lambda: change_start(change=number, mode="canary", share_percent=5, **FORCED),
        lambda: change_start(change=number, mode="scheduled", at=timezone.now() + HOUR, **FORCED),
        lambda: change_promote(change=number, **FORCED),
    ):
        with pytest.raises(Frozen):
            step()
    settings.HEADROOM_FOUR_EYES = True
    with pytest.raises(Frozen):
        commit(cut)
    freeze_lift(freeze=row.pk, author="olga", reason="done")
    change_approve(change=number, approver="bob", reason="I agree")
    assert change_promote(change=number, **FORCED).state == ChangeState.PROMOTED


def test_what_is_due_waits_for_its_end() -> None:
    number = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID).pk
    due = timezone.now() + HOUR
    change_start(change=number, mode="scheduled", at=due, **FORCED)
    row = freeze(roles=["operator", "approver", "owner"])
    assert changes_apply_due(due) == 0
    assert Change.objects.get(pk=number).state == ChangeState.SCHEDULED
    Freeze.objects.filter(pk=row.pk).update(end=timezone.now())
    assert changes_apply_due(due) == 1
    assert Change.objects.get(pk=number).state == ChangeState.PROMOTED


def test_what_stops_harm_passes_and_is_recorded() -> None:
    number = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID).pk
    change_start(change=number, mode="canary", share_percent=5, **FORCED)
    freeze()
    tenant_suspend(name="acme", **SAID)
    change_drop(change=number, **SAID)
    assert passed() == [("tenant_suspend", False), ("change_drop", False)]
    with pytest.raises(Frozen):
        tenant_resume(name="acme", **SAID)


def test_roles_and_members_may_pass_and_their_tokens() -> None:
    otto, ann, bob = account("otto", "operator"), account("ann", "operator"), account("bob", "owner")
    row = freeze(roles=["owner"], members=["ann"])
    issued = token_issue(label="ci", role="operator", scopes=["write"], author="ann", reason="x")
    machine = principal_of_text(str(issued.text))
    assert machine is not None
    with acting_as(otto), pytest.raises(Frozen, match="the role owner, ann"):
        cut("otto")
    for rate, who in ((90, ann), (80, bob), (70, machine)):
        with acting_as(who):
            limit_set(policy="pro-all", limit=bucket(rate), force=True, author=who.actor, reason="because")
    assert limit_of("pro-all").parameters["rate"] == 70
    assert passed() == [("limit_set", False)] * 3
    assert not Emergency.objects.exists()
    freeze(end=row.end - HOUR)
    with acting_as(ann), pytest.raises(Frozen, match="nobody, except in an emergency"):
        cut("ann")


def test_an_emergency_passes_and_somebody_else_has_to_look() -> None:
    freeze()
    with acting_as(account("otto", "operator")), pytest.raises(Refused, match="belongs to approvers and owners"):
        cut("otto", emergency=True)
    with acting_as(account("eve", "approver")):
        cut("eve", emergency=True)
    assert passed() == [("limit_set", True)]
    assert Emergency.objects.get().author == "eve"


def test_a_bypass_passes_as_an_emergency(valkey: redis.Redis) -> None:
    freeze()
    with acting_as(account("otto", "operator")), pytest.raises(Refused, match="belongs to approvers and owners"):
        bypass_set(scope="tenant", name="acme", duration="1m", author="otto", reason="x")
    with acting_as(account("eve", "approver")):
        bypass_set(scope="tenant", name="acme", duration="1m", author="eve", reason="x")
    assert (passed(), Emergency.objects.get().what) == ([("bypass_set", True)], "bypass of tenant acme")


def test_it_holds_in_its_window_only_and_stays_in_the_history() -> None:
    soon = timezone.now() + HOUR
    row = freeze(start=soon, end=soon + HOUR)
    cut()
    Freeze.objects.update(start=timezone.now() - HOUR, end=timezone.now() - timedelta(seconds=1))
    limit_set(policy="pro-all", limit=bucket(40), **FORCED)
    with pytest.raises(Refused, match="is already over"):
        freeze_lift(freeze=row.pk, **SAID)
    assert Freeze.objects.get() == row
    assert [event.kind for event in AuditEvent.objects.filter(kind__startswith="freeze")] == ["freeze_set"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"end": timezone.now() - HOUR}, "a freeze must end after it starts"),
        ({"start": timezone.now() - timedelta(days=2)}, "start is more than a day in the past"),
        ({"end": timezone.now() + timedelta(days=400)}, "lasts at most 366 days"),
        ({"end": timezone.now().replace(tzinfo=None)}, "has no time zone"),
        ({"roles": ["viewer"]}, "roles must be of operator, approver, owner, not viewer"),
        ({"members": ["nobody"]}, "there is no account nobody"),
        ({"reason": " "}, "reason is missing"),
        ({"reason": "one\ntwo"}, "write it in one line"),
    ],
)
def test_a_wrong_one_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        freeze(**fields)
    assert not Freeze.objects.exists()


def test_the_command_sets_lists_and_lifts() -> None:
    out, none = StringIO(), StringIO()
    call_command("freeze", "list", stdout=none)
    assert none.getvalue() == "no freeze has been set\n"
    call_command(
        "freeze", "set", "--until", "2199-01-01T00:00Z", "--from", "2198-12-01T00:00Z", "--reason", "x", stdout=out
    )
    call_command("freeze", "list", stdout=out)
    row = Freeze.objects.get()
    call_command("freeze", "lift", str(row.pk), "--reason", "done", stdout=out)
    assert [line.split("  ")[1] for line in out.getvalue().splitlines()] == ["upcoming", "upcoming", "lifted"]
    with pytest.raises(CommandError, match="is not a time; write it like"):
        call_command("freeze", "set", "--until", "tomorrow", "--reason", "x")
    with pytest.raises(CommandError, match=r"^--until: a freeze must end after it starts, and in the future; .*\.$"):
        call_command("freeze", "set", "--until", "2020-01-01T00:00Z", "--reason", "x")
    with pytest.raises(CommandError, match=f"^freeze {row.pk} has already been lifted; there is nothing to lift.$"):
        call_command("freeze", "lift", str(row.pk), "--reason", "done")


def test_the_policy_command_respects_it(tmp_path: Any) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(document_export().replace("rate: 10\n", "rate: 12\n"))
    freeze()
    before = Revision.objects.count()
    with pytest.raises(CommandError, match="the configuration is frozen until"):
        call_command("policy", "apply", str(file), "--reason", "x")
    call_command("policy", "plan", str(file), stdout=StringIO())
    call_command("policy", "apply", str(file), "--reason", "x", "--emergency", stdout=StringIO())
    assert Revision.objects.count() == before + 1
    assert Emergency.objects.exists()
