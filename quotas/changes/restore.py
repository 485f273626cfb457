"""Restores objects to the states that a revision or a change recorded, inside an open draft."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone

from quotas.changes.foresight import with_candidates_of
from quotas.changes.recommended import follow
from quotas.changes.rehearsal import FORESEEN, foresee
from quotas.changes.snapshot import (
    CHANGE,
    ENDPOINT,
    OVERRIDE,
    POLICY,
    TENANT,
    TIER,
    Draft,
    State,
    key_of,
    snapshots,
    split_key,
    tenant_state,
)
from quotas.endpoints import retire_endpoints, write_endpoints
from quotas.errors import accepted
from quotas.lookups import find_endpoint, find_tenant, find_tier
from quotas.models import Change, Endpoint, Limit, Override, Policy, Recommendation
from quotas.models.change import ChangeState
from quotas.models.recommendation import OPEN
from quotas.overrides import ENDED, add_override, cancel_override, overrides_in, set_end
from quotas.policies import spec
from quotas.policies.bulk import delete_policies, write_policies
from quotas.policies.carry_over import hand_over_tier
from quotas.policies.diff import ObjectDiff, differences
from quotas.policies.endpoint import DeclaredEndpoint, parse_endpoint
from quotas.policies.export import endpoint_state, policy_state
from quotas.policies.former_names import take_back_names
from quotas.policies.limit_codec import CANDIDATE, fields_of_stored, limit_list, row_stored, stored_of_fields
from quotas.policies.limit_rows import set_candidate
from quotas.policies.spec import EVERYWHERE, PAST_GENERATIONS
from quotas.policies.validate import parse_policy
from tenants.models import Tenant, Tier

SHORTEST_TRIAL: Final = timedelta(hours=1)  # of one that is resumed


def restore(
    opened: Draft, states: Mapping[str, State], *, reverts_tenants: bool = False, undone: int | None = None
) -> None:
    """In an order in which nothing is missing or in the way. A retired tier comes back; suspensions stay as they are.

    `reverts_tenants`: tenants go back to the tiers that they were on, and those that were not archived come back, with
    their overrides and without their keys. Otherwise their tiers stay as they are, those that are archived stay so, and
    what they had does not come back. `undone`: the first of the revisions that are undone.
    """
    now = snapshots(states)
    wanted = {key: state for key, state in states.items() if state != now[key]}
    overrides = {int(name): state for name, state in _of_kind(wanted, OVERRIDE)}
    _end_overrides(opened, overrides)  # first, because a limit does not get its name back from one that is in force
    _restore_tiers(opened, dict(_of_kind(wanted, TIER)))
    endpoints = dict(_of_kind(wanted, ENDPOINT))
    write_endpoints(opened, [_declared(name, state) for name, state in endpoints.items() if state is not None])
    _restore_policies(opened, dict(_of_kind(wanted, POLICY)), undone)
    if reverts_tenants:
        move_tenants(opened, _moved(wanted, now))
    for name, state in _of_kind(wanted, TENANT):
        _restore_tenant(opened, name, state, reverts_tenants)
    for number, override in overrides.items():
        _restore_override(opened, number, override)
    gone = [name for name, state in endpoints.items() if state is None]
    retire_endpoints(opened, list(Endpoint.objects.filter(name__in=gone, retired=False)) if gone else [])
    for name, state in _of_kind(wanted, CHANGE):
        _restore_change(opened, int(name), state)


def restore_foreseen(opened: Draft, states: Mapping[str, State], *, reverts_tenants: bool = False) -> bool:
    """`restore` for a rehearsal, without writing. False: some objects must be written to know what they become."""
    now = snapshots(states)
    wanted = {key: state for key, state in states.items() if state != now[key]}
    if not all(split_key(key)[0] in FORESEEN for key in wanted):
        return False
    opened.before |= {key: now[key] for key in wanted if key not in opened.before}
    if reverts_tenants:
        for tier in {*_moved(wanted, now).values()} - {
            name for name, state in _of_kind(wanted, TIER) if state is not None
        }:
            find_tier(tier)
    foresee(opened, dict(_foreseen(wanted, now, reverts_tenants)), may_move=True)
    return True


def restored(states: Mapping[str, State], *, reverts_tenants: bool = False) -> tuple[ObjectDiff, ...]:
    """What `restore` would change of objects that can be foreseen, without the checks that a write makes."""
    now = snapshots(states)
    wanted = {key: state for key, state in states.items() if state != now[key]}
    return differences(now, dict(_foreseen(wanted, now, reverts_tenants)))


def _foreseen(
    wanted: Mapping[str, State], now: Mapping[str, State], reverts_tenants: bool
) -> Iterator[tuple[str, State]]:
    """No tier and no tenant goes, and a tenant's suspension stays."""
    for key, state in wanted.items():
        kind, name = split_key(key)
        if kind == ENDPOINT:
            yield key, endpoint_state(_declared(name, state)) if state is not None else None
        elif kind == POLICY:
            yield key, with_candidates_of(state, policy_state(_policy(name, state))) if state is not None else None
        elif kind == TIER and state is not None:
            yield key, state
        elif kind == TENANT and state is not None:
            yield key, _tenant_after(now[key] or {}, state, reverts_tenants)


def _tenant_after(now: Mapping[str, Any], state: Mapping[str, Any], reverts_tenants: bool) -> dict[str, Any]:
    texts = {"label": state["label"], "timezone": state["timezone"]}
    given = {"tags": state.get("tags", ()), "contacts": state.get("contacts", ())}
    priority = {"priority": state.get("priority", "")}
    lifted = {"archived": ""} if _is_lifted(state, reverts_tenants) else {}
    moved = {"tier": state["tier"]} if reverts_tenants else {}
    return tenant_state(**{**now, **texts, **given, **priority, **lifted, **moved})


def _moved(wanted: Mapping[str, State], now: Mapping[str, State]) -> dict[str, str]:
    """Tenant → the tier it was on, of those that are on another one now."""
    were = {name: state["tier"] for name, state in _of_kind(wanted, TENANT) if state is not None}
    are = {name: state["tier"] for name, state in _of_kind(now, TENANT) if state is not None}
    return {name: tier for name, tier in were.items() if are.get(name, tier) != tier}


def move_tenants(opened: Draft, places: Mapping[str, str]) -> None:
    """Tenant → its new tier. Archived ones go along."""
    by_tier: dict[str, list[str]] = defaultdict(list)
    for name, tier in places.items():
        by_tier[tier].append(name)
    for tier, names in sorted(by_tier.items()):
        rows = Tenant.objects.select_related("tier").filter(name__in=names).exclude(tier__name=tier).order_by("name")
        opened.touch(*(key_of(TENANT, name) for name in names))
        hand_over_tier(opened, list(rows), find_tier(tier))


def _is_lifted(state: Mapping[str, Any], reverts_tenants: bool) -> bool:
    return reverts_tenants and not state.get("archived")


def _of_kind(states: Mapping[str, State], kind: str) -> Iterator[tuple[str, State]]:
    for key, state in sorted(states.items()):
        if split_key(key)[0] == kind:
            yield split_key(key)[1], state


def _restore_tiers(opened: Draft, states: Mapping[str, State]) -> None:
    for name, state in states.items():
        if state is not None:
            opened.touch(key_of(TIER, name))
            texts = {field: state.get(field, "") for field in ("label", "description", "priority")}
            Tier.objects.filter(name=name).update(retired=False, **texts)


def _restore_policies(opened: Draft, states: Mapping[str, State], undone: int | None) -> None:
    opened.touch(*(key_of(POLICY, name) for name in states))
    take_back_names(opened, states, undone)
    present = snapshots(key_of(POLICY, name) for name in states)
    gone = []
    for name, state in states.items():
        before = present[key_of(POLICY, name)]
        if before is not None and (state is None or _place(before) != _place(state)):
            gone.append(name)
    _follow_renamed_policies(states, present)
    delete_policies(opened, Policy.objects.filter(name__in=gone))
    wanted = {name: state for name, state in states.items() if state is not None}
    write_policies(opened, [_policy(name, state) for name, state in wanted.items()])
    for limit in Limit.objects.filter(policy__name__in=wanted).select_related("name", "policy"):
        candidate = wanted[limit.policy.name]["limits"][limit.name.name].get(CANDIDATE)
        if limit.candidate != candidate:
            set_candidate(limit, fields_of_stored(candidate) if candidate else None)


def _follow_renamed_policies(states: Mapping[str, State], present: Mapping[str, State]) -> None:
    """Open recommendations go along with a policy that gets back its name: the one that is at the same place now."""
    gone = {_place(before): name for name, before in _of_kind(present, POLICY) if before and states[name] is None}
    for name, state in states.items():
        if state is not None and present[key_of(POLICY, name)] is None and (now := gone.get(_place(state))):
            Recommendation.objects.filter(stage__in=OPEN, policy=now).update(policy=name)


def _place(state: Mapping[str, Any]) -> tuple[Any, ...]:
    return state["tier"], state["tenant"], state["endpoint"]


def _policy(name: str, state: Mapping[str, Any]) -> spec.Policy:
    return accepted(parse_policy({**state, "name": name, "limits": limit_list(state["limits"])}))


def _declared(name: str, state: Mapping[str, Any]) -> DeclaredEndpoint:
    return accepted(parse_endpoint({"name": name, **state}))


def _restore_tenant(opened: Draft, name: str, state: State, reverts_tenants: bool) -> None:
    if state is not None:
        opened.touch(key_of(TENANT, name))
        lifted = {"archived_at": None} if _is_lifted(state, reverts_tenants) else {}
        Tenant.objects.filter(name=name).update(
            label=state["label"],
            timezone=state["timezone"],
            tags=state.get("tags", []),
            contacts=state.get("contacts", []),
            priority=state.get("priority", ""),
            **lifted,
        )


def _restore_change(opened: Draft, number: int, state: State) -> None:
    """A trial that was not running then is dropped, or promoted if it was then; one that was running goes on."""
    row = Change.objects.get(pk=number)
    if row.state == ChangeState.CANARY:
        remember_canary(opened, row)
    if state is None:
        is_enforced = snapshots(row.after) == row.after  # all else is restored already
        end_change(opened, row, ChangeState.PROMOTED if is_enforced else ChangeState.DROPPED)
    else:
        _resume_change(opened, row, state)


def _end_overrides(opened: Draft, states: Mapping[int, State]) -> None:
    """Those that were not there, or would be over by now."""
    now = timezone.now()
    for number, row in sorted(_live_overrides(states, now).items()):
        if (state := states[number]) is None or _is_over(state, now):
            cancel_override(opened, row)


def _restore_override(opened: Draft, number: int, state: State) -> None:
    """A cancelled override comes back as a new one, because it did not apply in between. One that still applies keeps
    its number: only its end can have changed."""
    now = timezone.now()
    if state is None or _is_over(state, now):
        return
    if (live := _live_overrides([number], now).get(number)) is not None:
        set_end(opened, live, _end(state))
    elif (tenant := find_tenant(state["tenant"])).archived_at is None:
        numerator, denominator = state["multiplier"] or (None, None)
        add_override(
            opened,
            Override(
                tenant=tenant,
                endpoint=None if state["endpoint"] == EVERYWHERE else find_endpoint(state["endpoint"]),
                start=max(now, datetime.fromisoformat(state["start"])),
                end=_end(state),
                limits=state["limits"],
                multiplier_numerator=numerator,
                multiplier_denominator=denominator,
                carry=state["carry"],
                reason=state["reason"],
                author=state["author"],
            ),
        )


def _live_overrides(numbers: Collection[int], now: datetime) -> dict[int, Override]:
    return Override.objects.filter(~overrides_in(ENDED, now)).in_bulk(list(numbers))


def _end(state: Mapping[str, Any]) -> datetime | None:
    return datetime.fromisoformat(state["end"]) if state["end"] else None


def _is_over(state: Mapping[str, Any], now: datetime) -> bool:
    return (end := _end(state)) is not None and end <= now


def end_change(opened: Draft, row: Change, state: ChangeState) -> None:
    """Marks a change as promoted or dropped; the caller takes care of its policies."""
    opened.touch(key_of(CHANGE, row.pk))
    row.state, row.staged, row.problem = state, None, ""
    row.end_author, row.end_reason, row.end_revision_id = opened.author, opened.reason, opened.number
    row.save()
    follow(row)


def _resume_change(opened: Draft, row: Change, state: Mapping[str, Any]) -> None:
    """A rollback resumes the trial, after the policies. A change that was scheduled has to be scheduled again.

    A trial that starts anew lasts as long as it was planned to, from now on.
    """
    opened.touch(key_of(CHANGE, row.pk))
    if not (row.state == ChangeState.CANARY and "share" in state):  # otherwise only its share changes
        began = row.start_revision.created if row.start_revision else timezone.now()
        planned = row.trial_ends - began if row.trial_ends else timedelta(0)
        row.trial_ends = timezone.now() + max(planned, SHORTEST_TRIAL)
    if "share" in state:
        row.state, row.share = ChangeState.CANARY, state["share"]
    else:
        row.state, row.staged = ChangeState.SHADOW, snapshots(key_of(POLICY, name) for name in row.policies)
    row.end_author = row.end_reason = ""
    row.end_revision_id = row.revert_revision_id = None
    if row.state == ChangeState.SHADOW:
        row.start_revision_id = opened.number  # it did not count in between
    row.save()
    follow(row)


def remember_canary(opened: Draft, row: Change) -> None:
    """The canary's tenants go back to the live limits, which need its parameters to carry the live state over."""
    for name, state in row.policies.items():
        for limit in Limit.objects.filter(policy__name=name).select_related("name"):
            fields = state["limits"].get(limit.name.name) if state else None
            if fields is not None:
                tried = {**stored_of_fields(fields), "revision": row.start_revision_id, "carry": row.carry}
                _remember(opened, limit, tried)


def _remember(opened: Draft, limit: Limit, tried: Mapping[str, Any]) -> None:
    live = row_stored(limit)
    if all(tried[field] == value for field, value in live.items()):
        return
    former = {**live, "revision": limit.changed_revision_id, "carry": limit.carry}
    limit.past = [tried, former, *limit.past][:PAST_GENERATIONS]
    limit.changed_revision_id, limit.carry = opened.number, "keep"
    limit.save(update_fields=["past", "changed_revision", "carry"])
