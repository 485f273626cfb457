"""Bypasses: limits in shadow for a limited time, for emergencies. Redis holds the switch, the audit who and why."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from headroom_edge.algorithms.base import DAY_US, parse_duration_us
from quotas.changes.emergency import check_may_declare, note_skipped
from quotas.changes.freeze import NO_FREEZE, FreezePass, pass_freezes
from quotas.errors import author_and_reason, refuse
from quotas.lookups import find_endpoint, find_tenant
from quotas.models import AuditEvent, LimitName
from quotas.publishing import store
from quotas.publishing.bypass_switches import BypassSwitch, Scope, switch_off, switch_on, switch_words, switches_read

LONGEST_US = 7 * DAY_US


def bypasses_read() -> list[BypassSwitch]:
    with store.connect(settings.REDIS_URL) as client:
        return switches_read(client, settings.HEADROOM_SHARDS)


def bypass_plan(*, scope: Scope, name: str, duration: str, author: str, reason: str) -> BypassSwitch:
    """The switch that `bypass_set` would set."""
    _, reason = author_and_reason(author, reason)
    if scope == "all":
        check_may_declare("a bypass of everything", "scope")
    span_us = _span_us(duration)
    check_there(scope, name)
    with store.connect(settings.REDIS_URL) as client:
        return BypassSwitch(scope, name, store.now_us(client) + span_us, reason)


def bypass_set(*, scope: Scope, name: str, duration: str, author: str, reason: str) -> BypassSwitch:
    switch = bypass_plan(scope=scope, name=name, duration=duration, author=author, reason=reason)
    # A bypass is for emergencies, so it passes a freeze as one.
    passed = pass_freezes(author=author, action="bypass_set", emergency=True)
    with transaction.atomic():
        bypass_record(switch, author, passed)
        with store.connect(settings.REDIS_URL) as client:
            store.prepare(client)
            switch_on(client, settings.HEADROOM_SHARDS, switch)
    return switch


def bypass_record(switch: BypassSwitch, author: str, passed: FreezePass = NO_FREEZE) -> None:
    """A bypass waits for no approval, and one of everything has to be looked at by somebody else in any case."""
    with transaction.atomic():
        passed.record(action="bypass_set", author=author, reason=switch.reason, what=f"bypass of {switch}")
        _record("bypass_set", switch, author, switch.reason)
        note_skipped(
            action="bypass_set",
            author=author.strip(),
            reason=switch.reason,
            what=f"bypass of {switch}",
            is_grave=switch.scope == "all" or passed.by_emergency,
        )


def bypass_clear(*, scope: Scope, name: str, author: str, reason: str) -> BypassSwitch:
    author, reason = author_and_reason(author, reason)
    about = (scope, name)
    switch = next((switch for switch in bypasses_read() if switch.about == about), None)
    if switch is None:
        raise refuse("bypass", "over", f"no bypass of {switch_words(scope, name)} is on; there is nothing to end")
    with transaction.atomic():
        _record("bypass_cleared", switch, author, reason)
        with store.connect(settings.REDIS_URL) as client:
            switch_off(client, settings.HEADROOM_SHARDS, about)
    return switch


def _span_us(duration: str) -> int:
    try:
        span_us = parse_duration_us(duration)
    except ValueError as error:
        raise refuse("duration", "duration", f"duration: {error}") from None
    if span_us > LONGEST_US:
        raise refuse("duration", "too_long", "duration is at most 7d; a bypass is for emergencies, so set it again")
    return span_us


def check_there(scope: Scope, name: str) -> None:
    """Refuses what PostgreSQL does not know."""
    if scope == "all" and name:
        raise refuse("name", "needless", "scope all has no name; leave it out")
    if scope != "all" and not name:
        field = "name" if scope == "limit" else scope
        raise refuse(field, "unknown", f"name is missing; enter the name of the {scope}")
    if scope == "tenant":
        find_tenant(name)
    if scope == "endpoint":
        find_endpoint(name)
    if scope == "limit" and not LimitName.objects.filter(name=name).exists():
        raise refuse("name", "unknown", f"there is no limit {name}; correct the name")


def _record(kind: str, switch: BypassSwitch, author: str, reason: str) -> None:
    detail = {"scope": switch.scope, "name": switch.name, "until_us": switch.until_us}
    AuditEvent.objects.create(kind=kind, detail=detail | {"author": author.strip(), "reason": reason.strip()})
