from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from quotas.changes import impact as impacts
from quotas.changes.commit import Proposed, commit
from quotas.changes.draft import Proposal
from quotas.changes.guard import check_below
from quotas.changes.impact import MOST_NAMES, Impact, revision_impact
from quotas.changes.peaks import TenantBelow
from quotas.changes.promotion import change_impact, change_promote, impact_without
from quotas.changes.rollout import change_propose
from quotas.changes.undo import is_own_undo, revision_revert, revision_rollback
from quotas.endpoints import endpoint_update
from quotas.errors import Refused, accepted
from quotas.models import Policy, Revision
from quotas.overrides import override_cancel, override_create
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.policies.edit import limit_remove, limit_set, policy_create, policy_delete, policy_update
from quotas.tenants import NewTenant, tenant_move, tenant_resume, tenant_suspend, tenants_create, tier_create
from tests.quotas.changes.test_peaks import asked
from tests.quotas.world import DOCUMENT, FORCED, GET, PAY, SAID, bucket, newest

pytestmark = pytest.mark.usefixtures("world")


def refusal(edit: Callable[[], object]) -> list[str]:
    """What the guard says; and nothing was written."""
    before = Revision.objects.count()
    with pytest.raises(Refused) as refused:
        edit()
    assert {problem.code for problem in refused.value.problems} == {"cut"}
    assert Revision.objects.count() == before
    return [str(problem) for problem in refused.value.problems]


def proposed(edit: Callable[[], object]) -> Proposal:
    outcome = commit(edit, "propose")
    assert isinstance(outcome, Proposed)
    return outcome.proposal


class TestACutOfATier:
    def test_it_is_refused_with_before_and_after(self) -> None:
        assert refusal(lambda: limit_set(policy="pro-all", limit=bucket(50), **SAID))[0] == (
            "tier pro: limit burst on *: 100/s sustained, up to 200 at once → 50/s sustained, up to 100 at once, "
            "a cut of 50 %; make the cut smaller, or apply it anyway (force)"
        )

    def test_what_to_do_about_several_is_said_once(self) -> None:
        limits = [bucket(50), {**bucket(50), "name": "minute"}]
        first, last = refusal(lambda: policy_update(name="pro-all", limits=limits, **SAID))
        assert first.endswith("a cut of 95 %")
        assert last.endswith("; make the cuts smaller, or apply them anyway (force)")

    def test_forced_it_is_written(self) -> None:
        assert limit_set(policy="pro-all", limit=bucket(50), **FORCED)

    def test_a_tenth_passes(self) -> None:
        assert limit_set(policy="pro-all", limit=bucket(90), **SAID)

    def test_a_limit_that_is_new_says_so(self) -> None:
        daily = {"name": "daily", "algorithm": "calendar_quota", "limit": 1_000, "period": "day"}
        assert refusal(lambda: limit_set(policy="free-all", limit=daily, **SAID))[0] == (
            "tier free: limit daily on *: not enforced → 1,000 each day, midnight in the tenant's own time zone; "
            "make the cut smaller, or apply it anyway (force)"
        )

    def test_a_tier_without_tenants_hurts_nobody(self) -> None:
        tier_create(name="gold", **SAID)
        policy_create(name="gold-all", tier="gold", limits=[bucket(10)], **SAID)
        assert limit_set(policy="gold-all", limit=bucket(1), **SAID)

    def test_tenants_with_more_of_their_own_are_not_hurt(self) -> None:
        policy_create(name="acme-all", tenant="acme", limits=[bucket(500)], **SAID)
        assert limit_set(policy="pro-all", limit=bucket(50), **SAID)

    def test_those_whom_the_tier_still_reaches_are(self) -> None:
        policy_create(name="acme-get", tenant="acme", endpoint=GET, limits=[bucket(500, "own", mode="shadow")], **SAID)
        assert refusal(lambda: limit_set(policy="pro-all", limit=bucket(50), **SAID))[0].startswith("tenant acme: ")

    def test_a_document_is_one_change(self) -> None:
        text = """
policies:
  - {name: free-all, tier: free, endpoint: "*", limits: [{name: burst, algorithm: token_bucket, rate: 1, burst: 2}]}
  - {name: pro-all, tier: pro, endpoint: "*", limits: [{name: burst, algorithm: token_bucket, rate: 1, burst: 2}]}
"""
        said = refusal(lambda: document_apply(document=accepted(read_document(text)), **SAID))
        assert [line.partition(":")[0] for line in said] == ["tier free", "tier pro"]


class TestACutOfATenant:
    def test_a_move_to_less_is_refused_and_one_to_more_is_not(self) -> None:
        assert refusal(lambda: tenant_move(name="acme", tier="free", **SAID))[0].startswith("tenant acme: limit burst")
        assert tenant_move(name="bolt", tier="pro", **SAID)

    def test_a_policy_of_its_own_that_goes(self) -> None:
        policy_create(name="acme-all", tenant="acme", limits=[bucket(500)], **SAID)
        refusal(lambda: policy_delete(name="acme-all", **SAID))
        refusal(lambda: policy_update(name="acme-all", limits=[bucket(300)], **SAID))

    def test_an_override_that_lowers(self) -> None:
        refusal(lambda: override_create(tenant="acme", multiplier=(1, 2), **SAID))

    def test_one_that_starts_later_is_judged_at_its_start(self) -> None:
        start = timezone.now() + timedelta(days=1)
        refusal(lambda: override_create(tenant="acme", multiplier=(1, 2), start=start, **SAID))

    def test_one_that_raised_and_is_cancelled(self) -> None:
        row = override_create(tenant="acme", multiplier=(2, 1), **SAID)
        refusal(lambda: override_cancel(override=row.pk, **SAID))

    def test_one_that_was_never_in_force_and_is_cancelled(self) -> None:
        start = timezone.now() + timedelta(days=1)
        row = override_create(tenant="acme", multiplier=(1, 2), start=start, **FORCED)
        assert override_cancel(override=row.pk, **SAID)

    def test_a_raise_that_ends_as_it_should_holds_up_no_edit(self) -> None:
        override_create(tenant="acme", multiplier=(2, 1), end=timezone.now() + timedelta(days=1), **SAID)
        assert limit_set(policy="pro-all", limit=bucket(101), **SAID)

    def test_suspension_is_exempt(self) -> None:
        assert tenant_suspend(name="acme", **SAID)
        assert limit_set(policy="pro-all", limit=bucket(50), **SAID)
        assert tenant_resume(name="acme", **SAID)


class TestSmallSteps:
    def test_are_one_cut_within_a_day(self) -> None:
        assert limit_set(policy="pro-all", limit=bucket(92), **SAID)
        (said,) = refusal(lambda: limit_set(policy="pro-all", limit=bucket(85), **SAID))
        assert said == (
            "tier pro: limit burst on *: 100/s sustained, up to 200 at once within the last day → "
            "85/s sustained, up to 170 at once, a cut of 15 %; make the cut smaller, or apply it anyway (force)"
        )
        assert limit_set(policy="pro-all", limit=bucket(91), **SAID)
        assert limit_set(policy="pro-all", limit=bucket(85), force=True, **SAID)

    def test_are_measured_from_the_highest(self) -> None:
        assert limit_set(policy="pro-all", limit=bucket(200), **SAID)
        assert limit_set(policy="pro-all", limit=bucket(185), **SAID)
        assert "a cut of 15 %" in refusal(lambda: limit_set(policy="pro-all", limit=bucket(170), **SAID))[0]

    def test_of_overrides_count_too(self) -> None:
        first = override_create(tenant="acme", multiplier=(92, 100), **SAID)
        refusal(lambda: override_create(tenant="acme", multiplier=(85, 100), **SAID))
        override_cancel(override=first.pk, **SAID)
        assert override_create(tenant="acme", multiplier=(95, 100), **SAID)

    def test_what_goes_up_again_is_no_step_down(self) -> None:
        limit_set(policy="pro-all", limit=bucket(50), **FORCED)
        assert limit_set(policy="pro-all", limit=bucket(55), **SAID)

    def test_are_forgotten_after_a_day(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert limit_set(policy="pro-all", limit=bucket(92), **SAID)
        monkeypatch.setattr(impacts, "CUTS_SINCE", timedelta(0))
        assert limit_set(policy="pro-all", limit=bucket(85), **SAID)


class TestACutOfEveryone:
    def test_a_raised_cost(self) -> None:
        limit_set(policy="pro-all", limit=bucket(100, unit="cost"), **FORCED)
        said = refusal(lambda: endpoint_update(name=PAY, default_cost=40, **SAID))
        assert said[0].startswith(f"tier pro: limit burst on {PAY}: 100/s sustained")
        assert endpoint_update(name=PAY, default_cost=40, force=True, **SAID)

    def test_a_raised_cost_where_only_requests_count(self) -> None:
        assert endpoint_update(name=PAY, default_cost=40, **SAID)

    def test_a_global_limit(self) -> None:
        said = refusal(lambda: policy_create(name="all", endpoint="payments:*", limits=[bucket(9, "backend")], **SAID))
        assert said[0].startswith(f"everyone: limit backend on {PAY}: not enforced")


class TestTheWayBack:
    def test_a_rollback_that_cuts_needs_force(self) -> None:
        number = newest().number
        limit_set(policy="pro-all", limit=bucket(500), **SAID)
        refusal(lambda: revision_rollback(number=number, author="bea", reason="too much"))
        assert revision_rollback(number=number, author="bea", reason="too much", force=True)

    def test_and_a_revert(self) -> None:
        revision = limit_remove(policy="pro-all", limit="minute", **SAID)
        assert revision
        refusal(lambda: revision_revert(number=revision.number, author="bea", reason="it was needed"))
        assert revision_revert(number=revision.number, author="bea", reason="it was needed", force=True)

    def test_who_takes_back_what_they_just_wrote_need_not_force_it(self) -> None:
        number = newest().number
        limit_set(policy="pro-all", limit=bucket(500), **SAID)
        assert revision_revert(number=number + 1, **SAID)
        limit_set(policy="pro-all", limit=bucket(500), **SAID)
        assert revision_rollback(number=number, **SAID)

    def test_after_an_hour_or_with_the_work_of_others_between_it_is_a_cut_like_any_other(self) -> None:
        number = newest().number
        limit_set(policy="pro-all", limit=bucket(500), **SAID)
        soon, later = (timezone.now() + timedelta(minutes=minutes) for minutes in (59, 61))
        assert is_own_undo(number + 1, number + 1, "ann", soon)
        assert not is_own_undo(number + 1, number + 1, "ann", later)
        limit_set(policy="free-all", limit=bucket(500), author="bea", reason="more")
        refusal(lambda: revision_rollback(number=number, **SAID))


class TestEnforcementThatIsLost:
    @pytest.mark.parametrize("mode", ["shadow", "off"])
    def test_a_limit_that_only_counts_takes_force_and_says_for_how_many(self, mode: str) -> None:
        (said,) = refusal(lambda: limit_set(policy="pro-all", limit=bucket(100, mode=mode), **SAID))
        assert said.startswith("tier pro: limit burst on *: 100/s sustained")
        assert "is no longer enforced for 1 tenant" in said
        assert "try the change beside the live limit" in said
        assert limit_set(policy="pro-all", limit=bucket(100, mode=mode), **FORCED)
        assert revision_impact(newest()).unenforced_tenants == 1

    def test_a_new_limit_in_shadow_a_removed_one_and_one_that_was_not_enforced_are_none(self) -> None:
        assert limit_set(policy="pro-all", limit=bucket(5, "tried", mode="shadow"), **SAID)
        assert limit_set(policy="pro-all", limit=bucket(5, "tried", mode="off"), **SAID)
        assert limit_remove(policy="pro-all", limit="minute", **SAID)

    def test_a_document_loses_it_too(self) -> None:
        text = DOCUMENT.replace("rate: 10, burst: 20}", "rate: 10, burst: 20, mode: shadow}")
        (said,) = refusal(lambda: document_apply(document=accepted(read_document(text)), **SAID))
        assert "tier free: limit burst on *" in said


class TestProposing:
    def test_nothing_is_written_and_everything_is_told(self) -> None:
        before = newest().number
        proposal = proposed(lambda: limit_set(policy="pro-all", limit=bucket(50), **FORCED))
        assert newest().number == before
        assert Policy.objects.get(name="pro-all").limits.get(name__name="burst").parameters["rate"] == 100
        assert (proposal.action, proposal.author, proposal.reason) == ("limit_set", "ann", "because")
        assert proposal.touched == ("policy:pro-all",)
        before_state, after_state = proposal.before["policy:pro-all"], proposal.after["policy:pro-all"]
        assert before_state
        assert after_state
        assert (before_state["limits"]["burst"]["rate"], after_state["limits"]["burst"]["rate"]) == (100, 50)
        assert (proposal.impact.hurt, proposal.impact.hurt_count) == (("acme",), 1)

    def test_a_cut_needs_no_force_until_it_is_promoted(self) -> None:
        proposal = proposed(lambda: limit_set(policy="pro-all", limit=bucket(50), **SAID))
        assert (proposal.force, proposal.impact.hurt) == (False, ("acme",))


class TestTheImpact:
    def test_it_lists_the_first_and_counts_all(self) -> None:
        tenants_create(tenants=[NewTenant(f"t-{n:03}", "pro") for n in range(MOST_NAMES + 20)], **SAID)
        tenant_suspend(name="t-000", **SAID)
        policy_create(name="rich", tenant="t-001", limits=[bucket(500)], **SAID)
        limit_set(policy="pro-all", limit=bucket(50), **FORCED)
        impact = revision_impact(newest())
        assert impact.hurt_count == MOST_NAMES + 20 - 2 + 1
        assert len(impact.hurt) == MOST_NAMES
        assert impact.hurt[:3] == ("acme", "t-002", "t-003")
        assert (impact.cut_count, impact.cuts[0].owner) == (1, "tier pro")

    def test_of_what_hurts_nobody(self) -> None:
        limit_set(policy="pro-all", limit=bucket(500), **SAID)
        assert revision_impact(newest()) == Impact()


def test_the_number_of_tenants_of_a_tier_does_not_matter() -> None:
    def queries(rate: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            limit_set(policy="pro-all", limit=bucket(rate), **FORCED)
        return len(captured)

    few = queries(50)
    tenants_create(tenants=[NewTenant(f"t-{n}", "pro") for n in range(2_000)], **SAID)
    assert queries(25) == few


def test_all_who_keep_their_limits_need_no_acceptance_however_many_they_are() -> None:
    rows = [TenantBelow(f"t{at}", GET, "burst", "9 / s", "1 / s", "requests", 1, 9, 1.0) for at in range(MOST_NAMES)]
    impact = Impact(below=tuple(rows), below_count=MOST_NAMES + 50)
    check_below(impact_without(impact, ["*"], 30), ())
    with pytest.raises(Refused, match="and 50 more"):
        check_below(impact_without(impact, [row.tenant for row in rows], 30), ())


def test_a_limit_that_is_kept_does_not_make_up_for_requests_that_cost_more() -> None:
    policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(100, "units", unit="cost")], **FORCED)
    asked("acme", 25, cost=10, endpoint=PAY)
    number = change_propose(endpoint_update, name=PAY, default_cost=20, **SAID).pk
    kept: dict[str, Any] = {"grandfather": ["acme"], "grandfather_days": 30}
    with pytest.raises(Refused, match="keeping their limits does not help where requests cost more"):
        change_promote(change=number, **kept, **FORCED)
    assert change_impact(change=number, author="ann", **kept).below_count == 1
    change_promote(change=number, accept=["acme"], **FORCED)


def test_a_limit_that_is_kept_on_another_endpoint_than_the_dearer_one_helps() -> None:
    below = TenantBelow("acme", GET, "burst", "9 / s", "1 / s", "cost", 1, 9, 1.0)
    impact = Impact(below=(below,), below_count=1)
    assert impact_without(impact, ["acme"], 30, {PAY}).below_count == 0
    assert impact_without(impact, ["acme"], 30, {GET}).below_count == 1
    assert impact_without(impact, ["*"], 30, {GET}).below_count == 1
