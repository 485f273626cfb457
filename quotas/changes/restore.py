"""Makes things again what a revision says they were, inside an open draft."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from quotas.changes.draft import Draft
from quotas.changes.snapshot import CHANGE, ENDPOINT, OVERRIDE, POLICY, TENANT, State, key_of, snapshots, split_key
from quotas.changes.trial import end_change, remember_canary, resume_change
from quotas.endpoints import retire_endpoint, write_endpoint
from quotas.errors import accepted
from quotas.lookups import find_endpoint, find_tenant
from quotas.models import Change, Override, Policy
from quotas.models.change import ChangeState
from quotas.overrides import add_override, cancel_override
from quotas.policies.endpoint import parse_endpoint
from quotas.policies.limit_codec import CANDIDATE, fields_of_stored, limit_list
from quotas.policies.limit_rows import delete_policy, set_candidate, write_policy
from quotas.policies.spec import EVERYWHERE
from quotas.policies.validate import parse_policy
from tenants.models import Tenant


def restore(opened: Draft, states: Mapping[str, State]) -> None:
    """In an order in which nothing is missing or in the way. Memberships and suspensions stay."""
    now = snapshots(states)
    wanted = {key: state for key, state in states.items() if state != now[key]}
    endpoints = dict(_of_kind(wanted, ENDPOINT))
    for name, state in endpoints.items():
        if state is not None:
            write_endpoint(opened, accepted(parse_endpoint({"name": name, **state})))
    _restore_policies(opened, dict(_of_kind(wanted, POLICY)))
    for name, state in _of_kind(wanted, TENANT):
        _restore_tenant(opened, name, state)
    for name, state in _of_kind(wanted, OVERRIDE):
        _restore_override(opened, int(name), state)
    for name, state in endpoints.items():
        if state is None:
            retire_endpoint(opened, find_endpoint(name))
    for name, state in _of_kind(wanted, CHANGE):
        _restore_change(opened, int(name), state)


def _of_kind(states: Mapping[str, State], kind: str) -> Iterator[tuple[str, State]]:
    for key, state in sorted(states.items()):
        if split_key(key)[0] == kind:
            yield split_key(key)[1], state


def _restore_policies(opened: Draft, states: Mapping[str, State]) -> None:
    present = snapshots(key_of(POLICY, name) for name in states)
    for name, state in states.items():
        before = present[key_of(POLICY, name)]
        if before is not None and (state is None or _place(before) != _place(state)):
            delete_policy(opened, Policy.objects.get(name=name))
    for name, state in states.items():
        if state is not None:
            _restore_policy(opened, name, state)


def _place(state: Mapping[str, Any]) -> tuple[Any, ...]:
    return state["tier"], state["tenant"], state["endpoint"]


def _restore_policy(opened: Draft, name: str, state: Mapping[str, Any]) -> None:
    wanted = accepted(parse_policy({**state, "name": name, "limits": limit_list(state["limits"])}))
    for limit in write_policy(opened, wanted).limits.select_related("name"):
        candidate = state["limits"][limit.name.name].get(CANDIDATE)
        if limit.candidate != candidate:
            set_candidate(limit, fields_of_stored(candidate) if candidate else None)


def _restore_tenant(opened: Draft, name: str, state: State) -> None:
    if state is not None:
        opened.touch(key_of(TENANT, name))
        Tenant.objects.filter(name=name).update(label=state["label"], timezone=state["timezone"])


def _restore_change(opened: Draft, number: int, state: State) -> None:
    """A trial that did not run then ends; one that did goes on."""
    row = Change.objects.get(pk=number)
    if row.state == ChangeState.CANARY:
        remember_canary(opened, row)
    if state is None:
        end_change(opened, row, ChangeState.DROPPED)
    else:
        resume_change(opened, row, state)


def _restore_override(opened: Draft, number: int, state: State) -> None:
    """One that was cancelled comes back as a new one: between the two, it did not hold."""
    now = timezone.now()
    end = datetime.fromisoformat(state["end"]) if state and state["end"] else None
    if state is None:
        row = Override.objects.get(pk=number)
        if row.end is None or row.end > now:
            cancel_override(opened, row)
    elif end is None or end > now:
        numerator, denominator = state["multiplier"] or (None, None)
        add_override(
            opened,
            Override(
                tenant=find_tenant(state["tenant"]),
                endpoint=None if state["endpoint"] == EVERYWHERE else find_endpoint(state["endpoint"]),
                start=max(now, datetime.fromisoformat(state["start"])),
                end=end,
                limits=state["limits"],
                multiplier_numerator=numerator,
                multiplier_denominator=denominator,
                carry=state["carry"],
                reason=state["reason"],
                author=state["author"],
            ),
        )
