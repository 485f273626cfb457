"""How a change ends: written, proposed or unchanged; each mode, and that nothing else stays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import transaction

from quotas.changes import draft as drafts
from quotas.changes.commit import Proposed, Unchanged, Written, commit
from quotas.errors import Refused
from quotas.models import AuditEvent, Change, LimitName, Outbox, Revision
from quotas.policies.edit import limit_set
from quotas.tenants import tenant_create, tenant_move
from tenants.models import Tenant
from tests.quotas.world import FORCED, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")


@pytest.fixture
def four_eyes(world: None, settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The drafts that were checked, by action."""
    found: list[str] = []
    check = drafts._proposal

    def counted(opened: Any, action: str, *rest: Any) -> Any:
        found.append(action)
        return check(opened, action, *rest)

    monkeypatch.setattr(drafts, "_proposal", counted)
    return found


def rows() -> tuple[int, ...]:
    return tuple(model._default_manager.count() for model in (Revision, Outbox, Change, AuditEvent, LimitName, Tenant))


def raised(limit: str = "burst") -> Revision | None:
    return limit_set(policy="pro-all", limit=bucket(150, limit), **FORCED)


def then_fails(edit: Callable[[], object]) -> object:
    edit()
    raise AssertionError("nothing may run after a draft that is not written")


def refused() -> None:
    limit_set(policy="nobody", limit=bucket(1), **FORCED)


class TestRefusalsThatAnEditCatches:
    def test_what_they_rolled_back_is_not_called_written(self) -> None:
        def edit() -> None:
            raised()
            with suppress(Refused):
                refused()

        before = rows()
        with pytest.raises(RuntimeError, match="went on after a refusal"):
            commit(edit)
        assert rows() == before

    def test_nor_what_was_rolled_back_with_them_in_a_block_of_the_edit(self) -> None:
        def edit() -> None:
            with suppress(Refused), transaction.atomic():
                raised()
                refused()

        before = rows()
        with pytest.raises(RuntimeError, match="went on after a refusal"):
            commit(edit)
        assert rows() == before

    def test_in_a_block_of_their_own_they_leave_the_rest_written(self) -> None:
        def edit() -> None:
            raised()
            with suppress(Refused), transaction.atomic():
                refused()

        outcome = commit(edit)
        assert isinstance(outcome, Written)
        assert outcome.revision == newest()
        assert limit_of("pro-all").parameters["rate"] == 150


class TestWriting:
    def test_it_ends_with_the_revision_and_the_result(self, runs: list[str]) -> None:
        outcome = commit(raised)
        assert isinstance(outcome, Written)
        assert outcome.revision == outcome.result == newest()
        assert (limit_of("pro-all").parameters["rate"], runs) == (150, ["limit_set"])

    def test_its_effect_and_impact_are_at_hand(self) -> None:
        outcome = commit(lambda: limit_set(policy="pro-all", limit=bucket(50), **FORCED))
        assert [change.object for change in outcome.effect.changes] == ["policy:pro-all"]
        assert outcome.effect.tenants.names == outcome.impact.hurt == ("acme",)
        assert outcome.impact.needs_force

    def test_what_is_so_already_makes_no_revision(self) -> None:
        before = rows()
        outcome = commit(lambda: limit_set(policy="pro-all", limit=bucket(100), **SAID))
        assert isinstance(outcome, Unchanged)
        assert (outcome.result, outcome.effect.changes, outcome.impact.cut_count) == (None, (), 0)
        assert rows() == before

    def test_the_last_of_several_revisions_is_told(self) -> None:
        outcome = commit(lambda: (raised(), tenant_create(name="cabs", tier="free", **SAID)))
        assert isinstance(outcome, Written)
        assert (outcome.revision.action, outcome.revision) == ("tenant_create", newest())

    def test_a_refusal_leaves_nothing(self) -> None:
        before = rows()

        def edit() -> object:
            tenant_create(name="cabs", tier="free", **SAID)
            return limit_set(policy="pro-all", limit=bucket(50), **SAID)

        with pytest.raises(Refused):
            commit(edit)
        assert rows() == before


class TestADryRun:
    def test_it_says_what_would_happen_and_leaves_nothing(self, runs: list[str]) -> None:
        before = rows()
        outcome = commit(lambda: raised("new"), "dry_run")
        assert isinstance(outcome, Proposed)
        assert (outcome.change, outcome.proposal.action) == (None, "limit_set")
        assert outcome.effect.tenants.names == ("acme",)
        assert (rows(), runs) == (before, ["limit_set"])

    def test_it_counts_a_tenant_that_it_would_create(self) -> None:
        outcome = commit(lambda: tenant_create(name="aaa", tier="free", **SAID), "dry_run")
        assert (outcome.effect.tenants.count, outcome.effect.tenants.names) == (1, ("aaa",))
        assert not Tenant.objects.filter(name="aaa").exists()

    def test_nothing_runs_after_its_draft(self) -> None:
        assert isinstance(commit(lambda: then_fails(raised), "dry_run"), Proposed)

    def test_what_was_written_beside_no_draft_goes_too(self) -> None:
        before = rows()
        outcome = commit(lambda: AuditEvent.objects.create(kind="tried"), "dry_run")
        assert isinstance(outcome, Unchanged)
        assert rows() == before


class TestProposing:
    def test_the_change_is_filed_and_nothing_else_stays(self, runs: list[str]) -> None:
        revision, outbox, changes, audit, names, tenants = rows()
        outcome = commit(lambda: then_fails(lambda: raised("new")), "propose")
        assert isinstance(outcome, Proposed)
        assert outcome.change == Change.objects.get()
        assert (outcome.change.touched, outcome.change.force) == (["policy:pro-all"], True)
        assert (rows(), runs) == ((revision, outbox, changes + 1, audit, names, tenants), ["limit_set"])

    def test_what_is_so_already_files_nothing(self) -> None:
        outcome = commit(lambda: limit_set(policy="pro-all", limit=bucket(100), **SAID), "propose")
        assert isinstance(outcome, Unchanged)
        assert not Change.objects.exists()

    def test_an_edit_inside_another_one_is_undone_alone(self) -> None:
        def edit() -> Revision | None:
            assert isinstance(commit(lambda: raised("new"), "propose"), Proposed)
            return limit_set(policy="free-all", limit=bucket(20), **SAID)

        outcome = commit(edit)
        assert isinstance(outcome, Written)
        assert outcome.revision.touched == ["policy:free-all"]
        assert Change.objects.get().touched == ["policy:pro-all"]


@pytest.mark.usefixtures("four_eyes")
class TestFourEyes:
    def test_an_edit_that_needs_an_approver_is_filed_whole(self) -> None:
        before = newest()
        revision, outbox, changes, audit, names, tenants = rows()

        def edit() -> object:
            tenant_create(name="cabs", tier="free", **SAID)  # waits for nobody, and goes with the rest
            return then_fails(lambda: tenant_move(name="bolt", tier="pro", **FORCED))

        outcome = commit(edit)
        assert isinstance(outcome, Proposed)
        assert outcome.change
        assert (outcome.change.action, newest()) == ("tenant_move", before)
        assert rows() == (revision, outbox, changes + 1, audit, names, tenants)

    def test_a_dry_run_files_nothing(self) -> None:
        assert isinstance(commit(raised, "dry_run"), Proposed)
        assert not Change.objects.exists()

    def test_without_a_commit_it_is_refused(self) -> None:
        before = rows()
        with pytest.raises(Refused, match="needs an approver"):
            raised()
        assert rows() == before
