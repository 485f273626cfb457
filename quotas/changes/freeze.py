"""Change freezes: while one is active, the configuration stays as it is, except for those who may pass.

Every write closes a draft, and a draft asks `pass_freezes`. Proposing is possible, because it changes nothing. What
stops harm at once passes: suspending a tenant, and dropping a trial. So does an emergency. The audit has all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from quotas.changes.emergency import check_may_declare
from quotas.changes.turn import turn
from quotas.errors import LONGEST_REASON, Refused, author_and_reason, check_moment, one_line, refuse
from quotas.lookups import find_numbered
from quotas.models import AuditEvent, Freeze
from quotas.policies.problems import Problem
from tenants.history import acting
from tenants.identity import acting_principal, actor_of, person_of
from tenants.models import Role
from tenants.scope import principal_of_user

FreezeState = Literal["upcoming", "active", "lifted", "over"]
UPCOMING, ACTIVE, LIFTED, OVER = STATES = ("upcoming", "active", "lifted", "over")
PASSING_ROLES: Final = (Role.OPERATOR.value, Role.APPROVER.value, Role.OWNER.value)
STOPS_HARM: Final = frozenset({"tenant_suspend", "change_drop"})
LONGEST: Final = timedelta(days=366)
LATEST_START: Final = timedelta(days=1)  # in the past, for clocks that go wrong
MOST_MEMBERS: Final = 100


class Frozen(Refused):
    """The configuration is frozen for this author."""

    def __init__(self, freeze: Freeze, may_pass: str) -> None:
        self.freeze, self.may_pass = freeze, may_pass
        message = (
            f"the configuration is frozen until {freeze.end:%Y-%m-%d %H:%M} UTC ({freeze.reason}); "
            f"wait, propose it as a change, or ask somebody who may pass: {may_pass}"
        )
        super().__init__([Problem("", "frozen", message)])


@dataclass(frozen=True, slots=True)
class FreezePass:
    """The active freezes that an edit passes."""

    freezes: Sequence[Freeze] = ()
    by_emergency: bool = False

    def record(self, *, action: str, author: str, reason: str, what: str) -> None:
        for freeze in self.freezes:
            detail = {"freeze": freeze.pk, "action": action, "author": author, "reason": reason, "what": what}
            AuditEvent.objects.create(kind="freeze_passed", detail={**detail, "emergency": self.by_emergency})


NO_FREEZE: Final = FreezePass()


def freeze_state(row: Freeze, now: datetime) -> FreezeState:
    if row.lifted_at is not None:
        return "lifted"
    return "upcoming" if row.start > now else "active" if row.end > now else "over"


def freezes_in(state: str, now: datetime) -> Q:
    """The rows for which `freeze_state` returns this state."""
    if state == LIFTED:
        return Q(lifted_at__isnull=False)
    times = {UPCOMING: Q(start__gt=now), ACTIVE: Q(start__lte=now, end__gt=now), OVER: Q(end__lte=now)}
    return Q(lifted_at=None) & times[state]


def freezes_active(now: datetime | None = None) -> QuerySet[Freeze]:
    """The one that ends last comes first."""
    return Freeze.objects.filter(freezes_in(ACTIVE, now or timezone.now())).order_by("-end", "-pk")


def pass_freezes(*, author: str, action: str = "", emergency: bool = False) -> FreezePass:
    """Refused with `Frozen` if a freeze is active that the author may not pass."""
    active = list(freezes_active())
    if not active or action in STOPS_HARM:
        return FreezePass(active)
    closed = next((freeze for freeze in active if not may_pass(freeze, author)), None)
    if closed is None:
        return FreezePass(active)
    if not emergency:
        raise Frozen(closed, passers(closed))
    check_may_declare()
    return FreezePass(active, by_emergency=True)


def may_pass(freeze: Freeze, author: str) -> bool:
    """A token passes by its own role, or because whoever issued it may."""
    person = person_of(actor_of(author))
    if person is not None and person.number in freeze.members:
        return True
    principal = acting_principal()
    if principal is None or principal.actor != author:
        user = User.objects.filter(pk=person.number).first() if person and person.number else None
        principal = principal_of_user(user)
    return principal is not None and principal.role in freeze.roles


def passers(freeze: Freeze) -> str:
    """In words: `the role owner, ann`."""
    names = list(User.objects.filter(pk__in=freeze.members).order_by("username").values_list("username", flat=True))
    return ", ".join([*(f"the role {role}" for role in freeze.roles), *names]) or "nobody, except in an emergency"


def freeze_set(
    *,
    end: datetime,
    author: str,
    reason: str,
    start: datetime | None = None,
    roles: Collection[str] = (),
    members: Collection[str] = (),
) -> Freeze:
    """`start` None: at once. `roles` and `members` (accounts) may pass. Freezes may overlap; each one holds."""
    author, reason = author_and_reason(author, reason)
    # Every refusal repeats it within its sentence.
    reason = one_line("reason", reason, LONGEST_REASON)
    now = timezone.now()
    _check_window(start or now, end, now)
    unknown = sorted(set(roles) - set(PASSING_ROLES))
    if unknown:
        raise refuse("roles", "unknown", f"roles must be of {', '.join(PASSING_ROLES)}, not {unknown[0]}")
    # In a turn, so that whoever is writing now ends first, and nothing is written after this returns.
    with turn(), acting(author=author, action="freeze_set"):
        row = Freeze.objects.create(
            start=start or now,
            end=end,
            reason=reason,
            roles=[role for role in PASSING_ROLES if role in roles],
            members=_numbers(members),
            author=author,
            author_identity=actor_of(author).identity,
        )
        _record("freeze_set", row, author, reason)
    return row


def freeze_lift(*, freeze: int, author: str, reason: str) -> Freeze:
    """Ends a freeze before its time, or before it begins."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="freeze_lift"), transaction.atomic():
        row = find_numbered(Freeze.objects.select_for_update(), freeze, "freeze")
        now = timezone.now()
        if (state := freeze_state(row, now)) in (LIFTED, OVER):
            ended = "has already been lifted" if state == LIFTED else "is already over"
            raise refuse("freeze", "over", f"{row} {ended}; there is nothing to lift")
        row.lifted_at, row.lifted_author, row.lifted_reason = now, author, reason
        row.save()
        _record("freeze_lifted", row, author, reason)
    return row


def _check_window(start: datetime, end: datetime, now: datetime) -> None:
    check_moment("start", start)
    check_moment("end", end)
    if start < now - LATEST_START:
        raise refuse("start", "past", "start is more than a day in the past; leave it out to start now")
    if end <= max(start, now):
        raise refuse("end", "order", "a freeze must end after it starts, and in the future; choose a later time")
    if end - start > LONGEST:
        raise refuse("end", "too_long", f"a freeze lasts at most {LONGEST.days} days; choose an earlier end")


def _numbers(names: Collection[str]) -> list[int]:
    if len(names) > MOST_MEMBERS:
        raise refuse("members", "too_many", f"name at most {MOST_MEMBERS} members; use a role")
    found = dict(User.objects.filter(username__in=names).values_list("username", "pk"))
    for name in names:
        if name not in found:
            raise refuse("members", "unknown", f"there is no account {name}; correct the name")
    return sorted(found.values())


def _record(kind: str, row: Freeze, author: str, reason: str) -> None:
    window = {"start": row.start.isoformat(), "end": row.end.isoformat()}
    # Accounts by their numbers, which outlive their names.
    passing = {"roles": row.roles, "members": row.members}
    detail = {"freeze": row.pk, **window, **passing, "author": author, "reason": reason}
    AuditEvent.objects.create(kind=kind, detail=detail)
