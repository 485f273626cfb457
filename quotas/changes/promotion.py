"""The promotion of a change: whom it cuts, who accepted that, and how it becomes what is enforced for all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final, Unpack, cast

from django.utils import timezone

from quotas.changes.approval import check_approved
from quotas.changes.commit import judge
from quotas.changes.draft import Permits, Proposal, draft
from quotas.changes.grandfathering import ALL_HURT, spare
from quotas.changes.guard import can_keep, check_accepted, check_below, check_cuts
from quotas.changes.impact import Impact, WorstCut, worst_of
from quotas.changes.restore import end_change, move_tenants, restore
from quotas.changes.snapshot import (
    CHANGE,
    ENDPOINT,
    POLICY,
    TENANT,
    TIER,
    Draft,
    State,
    key_of,
    present_states,
    snapshots,
    split_key,
)
from quotas.changes.trial_policies import check_base, find_active
from quotas.changes.turn import turn
from quotas.errors import Refused, refuse
from quotas.lookups import find_active_tenants, find_tenant, find_tier
from quotas.models import Change, Limit
from quotas.models.change import ChangeState
from quotas.policies.carry_over import hand_over_tier
from quotas.policies.limit_codec import row_stored
from quotas.policies.limit_names import rename_as_filed
from quotas.policies.spec import Carry
from quotas.policies.tier import DeclaredTier
from quotas.tenants import write_tier
from quotas.tenants.tiers import retire_tier
from tenants.models import Tier

MOST_DAYS: Final = 366  # that a promotion leaves a tenant as it is


def change_impact(
    *, change: int, author: str, grandfather: Sequence[str] = (), grandfather_days: int | None = None
) -> Impact:
    """Whom promoting it now would hurt; nothing is written."""
    spared = spared_tenants(grandfather)
    row = find_active(change)
    found = judged_promotion(row, author=author, reason="to see whom it hurts", spared=spared, days=grandfather_days)
    return impact_without(found.impact, spared, grandfather_days, dearer_endpoints(row))


def change_promote(
    *,
    change: int,
    author: str,
    reason: str,
    grandfather: Sequence[str] | None = None,
    grandfather_days: int | None = None,
    accept: Collection[str] = (),
    cuts: Sequence[WorstCut] | None = None,
    **permits: Unpack[Permits],
) -> Change:
    """Enforces the change for all.

    `accept`: tenants that may be cut below their peak; `*`: all of them. Force alone does not cover those. `cuts`: the
    cuts that were seen and accepted; unlike force, they cover no deeper ones. What was accepted when the change was
    scheduled, or when its recommendation was approved, needs neither.
    `grandfather`: tenants that keep their limits, for `grandfather_days` or without end.
    """
    force, emergency = permits.get("force", False), permits.get("emergency", False)
    with turn():
        row = find_active(change)
        check_approved(row, emergency=emergency)
        spared, days = row.grandfather, row.grandfather_days
        if grandfather is not None:
            spared, days = spared_tenants(grandfather), grandfather_days
        found = judged_promotion(
            row, author=author, reason=reason, spared=spared, days=days, emergency=emergency, to_write=True
        )
        impact = impact_without(found.impact, spared, days, dearer_endpoints(row))
        _check_consent(row, impact, force=force, accept=accept, cuts=cuts)
        return _promote(
            row.pk, author=author, reason=reason, spared=spared, days=days, judged=found, emergency=emergency
        )


def _check_consent(
    row: Change, impact: Impact, *, force: bool, accept: Collection[str], cuts: Sequence[WorstCut] | None
) -> None:
    """Refused with names if it cuts more than was accepted, now or earlier."""
    if cuts is None and row.force and not force:
        cuts = [WorstCut(**worst) for worst in row.impact["worst"]]
        force = bool(row.impact.get("unenforced"))
    if cuts is None:
        check_cuts(impact, force=force)
    else:
        check_accepted(impact, cuts)
        check_cuts(replace(impact, cuts=(), cut_count=0), force=force)  # enforcement that is lost
    check_below(impact, {*row.accepted, *accept}, dearer_endpoints(row))


def judged_promotion(
    row: Change,
    *,
    author: str,
    reason: str,
    spared: Sequence[str],
    days: int | None = None,
    emergency: bool = False,
    to_write: bool = False,
) -> Proposal:
    """What promoting it would do. `to_write`: it is promoted next."""
    _check_days(days)
    promotion = partial(_promote, row.pk, author=author, reason=reason, spared=spared, days=days, emergency=emergency)
    proposal = judge(promotion, to_write=to_write)
    if proposal is None:
        raise _nothing_to_promote(row.pk)
    return proposal


def dearer_endpoints(row: Change) -> frozenset[str]:
    """Endpoints whose requests the change makes cost more."""
    costs = dict(present_states(row.after, ENDPOINT))
    were = dict(present_states(row.before, ENDPOINT))
    return frozenset(name for name in costs.keys() & were if costs[name]["default_cost"] > were[name]["default_cost"])


def impact_without(
    impact: Impact, spared: Collection[str], days: int | None, dearer: Collection[str] = frozenset()
) -> Impact:
    """Tenants that keep their limits for some days are not cut now, although the guard sees what comes after.

    `dearer`: endpoints whose requests cost more; a limit that is kept does not make up for that.
    """
    if days is None or not spared:
        return impact

    def is_cut(tenant: str) -> bool:
        return bool(tenant) and ALL_HURT not in spared and tenant not in spared

    cuts = tuple(cut for cut in impact.cuts if not cut.tenant or is_cut(cut.tenant) or cut.endpoint in dearer)
    below = tuple(row for row in impact.below if is_cut(row.tenant) or not can_keep(row, dearer))
    return replace(
        impact,
        cuts=cuts,
        cut_count=impact.cut_count - len(impact.cuts) + len(cuts),
        worst=worst_of(cuts),
        below=below,
        # Those that are not listed keep theirs too if all do, and can.
        below_count=len(below) + (0 if ALL_HURT in spared and not dearer else impact.below_count - len(impact.below)),
    )


def spared_tenants(names: Sequence[str]) -> list[str]:
    for name in names:
        if name != ALL_HURT:
            find_tenant(name)
    return sorted(set(names))


def _check_days(days: int | None) -> None:
    if days is not None and not 0 < days <= MOST_DAYS:
        raise refuse("grandfather_days", "range", f"grandfather_days must be from 1 to {MOST_DAYS}")


def _promote(
    number: int,
    *,
    author: str,
    reason: str,
    spared: Sequence[str],
    days: int | None = None,
    judged: Proposal | None = None,
    emergency: bool = False,
) -> Change:
    """Writes the change for all, whatever it cuts: the caller has checked its approval and its impact.

    `judged`: what a dry run of it found. Without, it is such a dry run.
    """
    row = find_active(number)
    check_base(row)
    permits: Permits = {"force": True, "emergency": emergency}
    carry = cast("Carry", row.carry)
    with draft(
        action="change_promote",
        author=author,
        reason=reason,
        carry=carry,
        is_approved=True,
        judged=judged,
        **permits,
    ) as opened:
        opened.touch(key_of(CHANGE, row.pk))
        opened.touch(*row.after)
        if row.action == "limit_rename":
            rename_as_filed(opened, _policies(row.before), _policies(row.after))
        _apply_states(opened, row.after)
        spare(opened, spared, timezone.now() + timedelta(days=days) if days else None)
        row.impact, row.grandfather = asdict(judged.impact if judged else Impact()), list(spared)
        row.grandfather_days = days
        end_change(opened, row, ChangeState.PROMOTED)
    if opened.revision is None:
        raise _nothing_to_promote(number)
    return row


def _nothing_to_promote(number: int) -> Refused:
    return refuse("change", "nothing", f"change {number} would change nothing any more; drop it")


def _apply_states(opened: Draft, states: Mapping[str, State]) -> None:
    """Creates and retires tiers and moves tenants too.

    A limit that becomes its candidate takes over the candidate's live state.
    """
    opened.touch(*states)
    now = snapshots(states)
    for key, state in states.items():
        if split_key(key)[0] == TIER and state is not None and now[key] is None:
            write_tier(opened, DeclaredTier(split_key(key)[1]))  # `restore` writes the rest of its state
    candidates = _candidates(states)
    going = [split_key(key)[1] for key, state in states.items() if split_key(key)[0] == TIER and state is None]
    if going:
        # First, because what tenants have used is handed over from limits that go with their tier.
        move_tenants(opened, {name: state["tier"] for name, state in present_states(states, TENANT)})
    restore(opened, states)
    if not going:
        _move(opened, states)
    for tier in Tier.objects.filter(name__in=going, retired=False):
        retire_tier(opened, tier)
    _adopt(opened, candidates)


def _policies(states: Mapping[str, State]) -> dict[str, State]:
    return {split_key(key)[1]: state for key, state in states.items() if split_key(key)[0] == POLICY}


def _move(opened: Draft, states: Mapping[str, State]) -> None:
    wanted: dict[str, list[str]] = defaultdict(list)
    for key, state in states.items():
        if split_key(key)[0] == TENANT and state is not None:
            wanted[state["tier"]].append(split_key(key)[1])
    for tier, names in sorted(wanted.items()):
        target = find_tier(tier)
        hand_over_tier(opened, [row for row in find_active_tenants(names) if row.tier_id != target.pk], target)


def _candidates(states: Mapping[str, State]) -> dict[int, Any]:
    names = [split_key(key)[1] for key in states if split_key(key)[0] == POLICY]
    rows = Limit.objects.filter(policy__name__in=names).exclude(candidate=None)
    return dict(rows.values_list("pk", "candidate"))


def _adopt(opened: Draft, candidates: Mapping[int, Any]) -> None:
    for row in Limit.objects.filter(pk__in=candidates, changed_revision_id=opened.number):
        if candidates[row.pk] == row_stored(row):
            row.adopts_candidate = True
            row.save(update_fields=["adopts_candidate"])
