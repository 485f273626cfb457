"""Overrides: other limits for one tenant, for a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import gcd
from typing import Any, Literal, Unpack

from django.db.models import Max, Q
from django.utils import timezone

from headroom_edge.algorithms.base import shown
from headroom_edge.algorithms.bucket import RATE
from quotas.changes.draft import Permits, draft
from quotas.changes.snapshot import OVERRIDE, Draft, key_of, split_key
from quotas.changes.snapshot import override_state as stored_override
from quotas.errors import check_moment, read, refuse
from quotas.lookups import find_active_tenant, find_endpoint
from quotas.models import Override, Revision
from quotas.models.policy import MULTIPLIER_MAX
from quotas.policies.limit_rows import limit_name
from quotas.policies.problems import fault_in
from quotas.policies.spec import EVERYWHERE, Carry
from quotas.policies.validate import read_name

OverrideState = Literal["upcoming", "active", "ended"]
UPCOMING, ACTIVE, ENDED = STATES = ("upcoming", "active", "ended")

MOST_AT_ONCE = 500
LATEST_START = timedelta(days=1)  # for clocks that go wrong, and what was typed a while ago


def override_state(row: Override, now: datetime) -> OverrideState:
    if row.cancelled_at or (row.end and row.end <= now):
        return "ended"
    return "upcoming" if row.start > now else "active"


def overrides_in(state: str, now: datetime) -> Q:
    """The rows for which `override_state` returns this state."""
    ended = Q(cancelled_at__isnull=False) | Q(end__lte=now)
    if state == ENDED:
        return ended
    return ~ended & (Q(start__gt=now) if state == UPCOMING else Q(start__lte=now))


Limits = Mapping[str, Mapping[str, Any]]


def override_create(
    *,
    tenant: str,
    author: str,
    reason: str,
    endpoint: str = EVERYWHERE,
    start: datetime | None = None,
    end: datetime | None = None,
    limits: Limits | None = None,
    multiplier: tuple[int, int] | None = None,
    carry: Carry = "keep",
    **permits: Unpack[Permits],
) -> Override:
    """Other values for limits by name, or all of them times numerator ÷ denominator; `start` None: at once.

    On an endpoint, a limit it has from `*` becomes its own; a multiplier changes its own limits only. On
    `*`, a name changes the limit of `*`, a multiplier every limit of the tenant. A new name adds a limit.
    """
    change = OverrideChange(endpoint, start, end, limits or {}, multiplier)
    return overrides_create(tenants=[tenant], change=change, author=author, reason=reason, carry=carry, **permits)[0]


@dataclass(frozen=True, slots=True)
class OverrideChange:
    """What an override changes, and when; as `override_create` describes it."""

    endpoint: str = EVERYWHERE
    start: datetime | None = None
    end: datetime | None = None
    limits: Limits = field(default_factory=dict)
    multiplier: tuple[int, int] | None = None


def overrides_create(
    *,
    tenants: Sequence[str],
    change: OverrideChange,
    author: str,
    reason: str,
    carry: Carry = "keep",
    **permits: Unpack[Permits],
) -> list[Override]:
    """The same override for each of these tenants, all in one revision, or none."""
    names = list(dict.fromkeys(tenants))
    _check_many("tenants", names)
    with draft(action="override_create", author=author, reason=reason, carry=carry, **permits) as opened:
        now = timezone.now()
        check_times(change.start or now, change.end, now)
        endpoint = None if change.endpoint == EVERYWHERE else find_endpoint(change.endpoint)
        found = []
        for name in names:
            row = Override(
                tenant=find_active_tenant(name),
                endpoint=endpoint,
                start=change.start or now,
                end=change.end,
                carry=opened.carry,
                reason=opened.reason,
                author=opened.author,
            )
            set_change(row, change.limits, change.multiplier)
            found.append(add_override(opened, row))
        return found


def override_cancel(*, override: int, author: str, reason: str, **permits: Unpack[Permits]) -> Revision | None:
    """Ends an override now; the tenant's other limits apply again at once."""
    return overrides_cancel(overrides=[override], author=author, reason=reason, **permits)


def overrides_cancel(
    *, overrides: Sequence[int], author: str, reason: str, **permits: Unpack[Permits]
) -> Revision | None:
    """Ends all of them now, in one revision, or none."""
    with draft(action="override_cancel", author=author, reason=reason, **permits) as opened:
        for row in live_overrides(overrides, "there is nothing to cancel"):
            cancel_override(opened, row)
    return opened.revision


def live_overrides(numbers: Sequence[int], otherwise: str) -> list[Override]:
    """Active and upcoming ones, in the order of their numbers. `otherwise`: what to do about one that has ended."""
    wanted = sorted(set(numbers))
    _check_many("overrides", wanted)
    rows = Override.objects.select_related("tenant", "endpoint").in_bulk(wanted)
    now = timezone.now()
    for number in wanted:
        if number not in rows:
            raise refuse("override", "unknown", f"there is no override {number}; correct the number")
        if override_state(rows[number], now) == ENDED:
            raise refuse("override", "over", f"override {number} has already ended; {otherwise}")
    return [rows[number] for number in wanted]


def _check_many(what: str, given: Sequence[object]) -> None:
    if not given:
        raise refuse(what, "none", f"choose {what} first")
    if len(given) > MOST_AT_ONCE:
        raise refuse(what, "many", f"{len(given):,} {what} are too many at once; choose at most {MOST_AT_ONCE}")


def add_override(opened: Draft, row: Override) -> Override:
    for name in row.limits:
        limit_name(name)
    if opened.is_dry_run:
        _foresee(opened, row)
        return row
    row.created_revision_id = opened.number
    row.save()
    opened.created(key_of(OVERRIDE, row.pk))
    return row


def _foresee(opened: Draft, row: Override) -> None:
    """Saving the row would use up its number, which a rollback does not give back."""
    newest = Override.objects.aggregate(newest=Max("pk"))["newest"] or 0
    row.pk = newest + 1 + sum(split_key(key)[0] == OVERRIDE for key in opened.foreseen)
    opened.foresee({key_of(OVERRIDE, row.pk): stored_override(row)})


def set_end(opened: Draft, row: Override, end: datetime | None) -> None:
    opened.touch(key_of(OVERRIDE, row.pk))
    row.end = end
    row.save(update_fields=["end"])


def cancel_override(opened: Draft, row: Override) -> None:
    opened.touch(key_of(OVERRIDE, row.pk))
    row.cancelled_at, row.cancelled_revision_id = timezone.now(), opened.number
    row.save(update_fields=["cancelled_at", "cancelled_revision"])


def check_times(start: datetime, end: datetime | None, now: datetime) -> None:
    for name, moment in (("start", start), ("end", end)):
        if moment is not None:
            check_moment(name, moment)
    if start < now - LATEST_START:
        raise refuse("start", "past", "start is more than a day in the past; leave it out to start now")
    if end is not None and end <= start:
        raise refuse("end", "order", "end must be later than start; move one of them")
    if end is not None and end <= now:
        raise refuse("end", "past", "end is in the past, so the override would never hold; choose a later one")


def set_change(row: Override, limits: Limits, multiplier: tuple[int, int] | None) -> None:
    if bool(limits) == (multiplier is not None):
        raise refuse("limits", "either", "an override changes limits by name or has a multiplier; give one of the two")
    if multiplier is not None:
        row.multiplier_numerator, row.multiplier_denominator = _fraction(*multiplier)
    row.limits = {read(_limit_name, name): _patch(name, fields) for name, fields in limits.items()}


def _limit_name(name: str) -> str:
    return read_name({"name": name}, "limit")


def _patch(name: str, fields: object) -> dict[str, Any]:
    if not isinstance(fields, Mapping) or not fields:
        raise refuse(f"limits.{name}", "type", f"give the fields of {name} that change, not {shown(fields)}")
    if fault := fault_in(fields):
        raise refuse(f"limits.{name}", "value", f"limits.{name}: {fault}")
    patch = dict(fields)
    if isinstance(patch.get("rate"), str):
        read(RATE.split, patch)  # 4.2/10s names the time too, in place of the limit's own
    return patch


def _fraction(numerator: int, denominator: int) -> tuple[int, int]:
    if not all(isinstance(part, int) and 0 < part <= MULTIPLIER_MAX for part in (numerator, denominator)):
        message = f"multiplier must be two whole numbers from 1 to {MULTIPLIER_MAX:,}, such as 3 and 2 for 1.5"
        raise refuse("multiplier", "range", message)
    common = gcd(numerator, denominator)
    return numerator // common, denominator // common
