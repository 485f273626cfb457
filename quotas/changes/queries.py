"""Changes and revisions as people ask for them: what is overdue, what differs, and what a revision did to the 429s."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from quotas.models import Change, Endpoint, Revision
from quotas.models.change import ChangeState
from quotas.models.usage import LET_THROUGH, REFUSED, slot_of
from quotas.models.usage_totals import EVERYONE, tier_total_number
from quotas.policies.diff import ObjectDiff, ObjectState, differences
from quotas.usage.queries.denial_causes import published_at
from tenants.models import Tenant, Tier

# The scheduler looks every second; past this, it is dead or cannot go on.
OVERDUE_AFTER = timedelta(seconds=10)

AROUND: Final = timedelta(hours=1)
SOON: Final = timedelta(minutes=10)  # until then, what came after it says nothing of an hour
FEWEST: Final = 20  # requests; a share of less says nothing
MOST_TENANTS: Final = 50  # that are looked at one by one; of more, their tiers
# One branch for each revision: with its times as constants, Postgres reads the partitions of those hours only.
_BRANCH: Final = """
    SELECT %s::bigint,
        coalesce(sum(count) FILTER (WHERE start < %s AND outcome = ANY(%s)), 0),
        coalesce(sum(count) FILTER (WHERE start < %s AND outcome = ANY(%s)), 0),
        coalesce(sum(count) FILTER (WHERE start >= %s AND outcome = ANY(%s)), 0),
        coalesce(sum(count) FILTER (WHERE start >= %s AND outcome = ANY(%s)), 0)
    FROM {table} WHERE start >= %s AND start < %s
"""


def changes_overdue(now: datetime | None = None) -> QuerySet[Change]:
    """Scheduled, due, and not yet promoted or blocked; the longest overdue first."""
    latest = (now or timezone.now()) - OVERDUE_AFTER
    return Change.objects.filter(state=ChangeState.SCHEDULED, at__lt=latest).order_by("at")


def newest_change(keys: Collection[str], *, also: int | None = None) -> Revision | None:
    """The newest revision that touched one of these objects. `also`: the number of one that counts in any case."""
    found = Revision.objects.filter(Q(touched__overlap=list(keys)) | Q(number=also))
    return found.only("number", "author", "created").order_by("-number").first()


def difference_between(*, since: int, until: int) -> tuple[ObjectDiff, ...]:
    """What the revisions after `since`, up to `until`, changed all together."""
    before: dict[str, ObjectState] = {}
    after: dict[str, ObjectState] = {}
    rows = Revision.objects.filter(number__gt=since, number__lte=until).order_by("number")
    for old, new in rows.values_list("before", "after").iterator():
        before = {**old, **before}  # the earliest change knows how it was
        after |= new
    return differences(before, after)


@dataclass(frozen=True, slots=True)
class Scope:
    endpoints: tuple[int, ...]  # numbers; none: all
    owners: tuple[int, ...]  # tenants, or as the totals number everyone and the tiers


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose requests are counted, by name, where one filter of the decision log can say it; empty: all."""

    tenant: str = ""
    tier: str = ""
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    begin: datetime
    end: datetime
    let: int
    denied: int

    @property
    def asked(self) -> int:
        return self.let + self.denied

    @property
    def share(self) -> float | None:
        """None: nobody asked."""
        return self.denied / self.asked if self.asked else None


@dataclass(frozen=True, slots=True)
class Aftermath:
    before: Side
    after: Side
    is_early: bool  # too little of the time after it was measured
    whose: Whose | None  # None: no filter of the decision log can say it

    @property
    def is_known(self) -> bool:
        return bool(self.before.asked or self.after.asked)

    @property
    def is_worse(self) -> bool:
        return self._change > 0.0005

    @property
    def is_better(self) -> bool:
        return self._change < -0.0005

    @property
    def _change(self) -> float:
        if self.is_early or min(self.before.asked, self.after.asked) < FEWEST:
            return 0.0
        return (self.after.share or 0) - (self.before.share or 0)


def aftermaths_read(revisions: Sequence[Revision], measured: datetime | None) -> dict[int, Aftermath]:
    """By number; those that were not published yet are left out. `measured`: until when counts are in."""
    published = {row.number: row for row in revisions if row.published_us}
    if not published:
        return {}
    touched = {number: _touched(row) for number, row in published.items()}
    scopes = _scopes(touched)
    branches = [_branch(row, scopes[row.number]) for row in published.values()]
    with connection.cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(sql for sql, _ in branches), [each for _, values in branches for each in values]
        )
        found = cursor.fetchall()
    minutes = {number: _minute(published_at(row)) for number, row in published.items()}
    return {
        number: Aftermath(
            Side(minutes[number] - AROUND, minutes[number], int(let_before), int(denied_before)),
            Side(minutes[number], minutes[number] + AROUND, int(let_after), int(denied_after)),
            measured is None or measured < published_at(published[number]) + SOON,
            _whose(touched[number]),
        )
        for number, let_before, denied_before, let_after, denied_after in found
    }


def _branch(row: Revision, scope: Scope) -> tuple[str, list[Any]]:
    at = _minute(published_at(row))
    let, refused = ([str(outcome) for outcome in outcomes] for outcomes in (LET_THROUGH, REFUSED))
    values: list[Any] = [row.number, at, let, at, refused, at, let, at, refused, at - AROUND, at + AROUND]
    sql = _BRANCH.format(table="quotas_total_1m" if min(scope.owners) < 0 else "quotas_usage_1m")
    # With every start named, the index finds an owner's rows one by one.
    sql += " AND start = ANY(%s) AND tenant_number = ANY(%s)"
    starts = [at + timedelta(minutes=i) for i in range(-60, 60)]
    values += [starts, list(scope.owners)]
    if min(scope.owners) >= 0:
        sql += " AND slot = ANY(%s)"
        values.append(sorted({slot_of(start) for start in starts}))
    if scope.endpoints:
        sql += " AND endpoint_number = ANY(%s)"
        values.append(list(scope.endpoints))
    return sql, values


def scope_of(revision: Revision) -> Scope:
    return _scopes({revision.number: _touched(revision)})[revision.number]


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class _Touched:
    """By name."""

    endpoints: frozenset[str]  # none: all
    tenants: frozenset[str]
    tiers: frozenset[str]
    is_everyone: bool


def _scopes(touched: Mapping[int, _Touched]) -> dict[int, Scope]:
    """By the number of the revision."""
    endpoints = _numbers(Endpoint, {name for each in touched.values() for name in each.endpoints})
    tiers = _numbers(Tier, {name for each in touched.values() for name in each.tiers})
    named = {name for each in touched.values() for name in each.tenants}
    rows = Tenant.objects.filter(name__in=named).values_list("name", "number", "tier_id") if named else ()
    tenants = {name: (number, tier) for name, number, tier in rows}
    return {
        number: Scope(
            tuple(sorted(endpoints[name] for name in each.endpoints if name in endpoints)),
            tuple(sorted(_owners(each, tenants, tiers))) or (EVERYONE,),
        )
        for number, each in touched.items()
    }


def _whose(touched: _Touched) -> Whose | None:
    tenants, tiers = ((), ()) if touched.is_everyone else (tuple(touched.tenants), tuple(touched.tiers))
    if len(tenants) + len(tiers) > 1 or len(touched.endpoints) > 1:
        return None
    return Whose("".join(tenants), "".join(tiers), "".join(touched.endpoints))


def _owners(touched: _Touched, tenants: Mapping[str, tuple[int, int]], tiers: Mapping[str, int]) -> set[int]:
    """None: all. Tenants are counted beside no tier, so that nobody is counted twice."""
    if touched.is_everyone:
        return set()
    known = [tenants[name] for name in touched.tenants if name in tenants]
    if not touched.tiers and len(known) <= MOST_TENANTS:
        return {number for number, _ in known}
    of_tenants, named = {tier for _, tier in known}, {tiers[name] for name in touched.tiers if name in tiers}
    return {tier_total_number(number) for number in of_tenants | named}


def _numbers(model: type[Model], names: Collection[str]) -> dict[str, int]:
    return dict(model._default_manager.filter(name__in=names).values_list("name", "number")) if names else {}


def _touched(revision: Revision) -> _Touched:
    """What it can have changed something for."""
    endpoints: set[str] = set()
    owners: dict[str, set[str]] = {"tenant": set(), "tier": set()}
    is_everywhere = is_everyone = False
    for key in revision.touched:
        kind, _, name = key.partition(":")
        state = revision.after.get(key) or revision.before.get(key) or {}
        if kind in ("change", "tier"):
            # What it tries out, or what the tier gives, stands beside it; but for the tiers of a canary.
            owners["tier"] |= set(state.get("tiers", ()))
            continue
        place = name if kind == "endpoint" else state.get("endpoint", "*")
        is_everywhere |= "*" in place
        endpoints.add(place)
        found = {kind: name} if kind in owners else {of: state[of] for of in owners if state.get(of)}
        is_everyone |= not found
        for of, owner in found.items():
            owners[of].add(owner)
    places = frozenset() if is_everywhere else frozenset(endpoints)
    return _Touched(places, frozenset(owners["tenant"]), frozenset(owners["tier"]), is_everyone)
