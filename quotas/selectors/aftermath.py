"""What revisions did to the 429s: the share of denied requests in the hour before and in the hour after.

Only where the revision can have changed something: on the endpoints and, if it names few, the tenants it touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from quotas.models import Endpoint, Revision
from quotas.models.usage import LET_THROUGH, REFUSED
from quotas.selectors.throttling import published_at
from tenants.models import Tenant

AROUND: Final = timedelta(hours=1)
MOST_TENANTS: Final = 50


@dataclass(frozen=True, slots=True)
class Scope:
    """Numbers; none: all."""

    endpoints: tuple[int, ...] = ()
    tenants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Aftermath:
    before: float | None  # share of requests that was denied; None: there were none
    after: float | None
    denied_before: int
    denied_after: int

    @property
    def is_worse(self) -> bool:
        return (self.after or 0) > (self.before or 0) + 0.0005

    @property
    def is_better(self) -> bool:
        return (self.after or 0) < (self.before or 0) - 0.0005


# One branch for each revision: with its times as constants, Postgres looks into the slices of those hours only.
_BRANCH: Final = """
    SELECT %s::bigint,
        coalesce(sum(count) FILTER (WHERE start < %s AND outcome = ANY(%s)), 0),
        coalesce(sum(count) FILTER (WHERE start < %s AND outcome = ANY(%s)), 0),
        coalesce(sum(count) FILTER (WHERE start >= %s AND outcome = ANY(%s)), 0),
        coalesce(sum(count) FILTER (WHERE start >= %s AND outcome = ANY(%s)), 0)
    FROM {table} WHERE start >= %s AND start < %s
"""


def aftermaths_read(revisions: Sequence[Revision]) -> dict[int, Aftermath]:
    """By number; those that were not published yet are left out."""
    published = [row for row in revisions if row.published_us]
    if not published:
        return {}
    scopes = _scopes(published)
    branches = [_branch(row, scopes[row.number]) for row in published]
    with connection.cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(sql for sql, _ in branches), [each for _, values in branches for each in values]
        )
        return {number: _aftermath(*(int(n) for n in counts)) for number, *counts in cursor.fetchall()}


def _branch(row: Revision, scope: Scope) -> tuple[str, list[Any]]:
    at = _minute(published_at(row))
    let, refused = ([str(outcome) for outcome in outcomes] for outcomes in (LET_THROUGH, REFUSED))
    values: list[Any] = [row.number, at, let, at, refused, at, let, at, refused, at - AROUND, at + AROUND]
    sql = _BRANCH.format(table="quotas_usage_1m" if scope.tenants else "quotas_total_1m")
    if scope.tenants:
        # With every start named, the index finds a tenant's rows one by one.
        sql += " AND start = ANY(%s) AND tenant_number = ANY(%s)"
        values += [[at + timedelta(minutes=i) for i in range(-60, 60)], list(scope.tenants)]
    if scope.endpoints:
        sql += " AND endpoint_number = ANY(%s)"
        values.append(list(scope.endpoints))
    return sql, values


def scope_of(revision: Revision) -> Scope:
    return _scopes([revision])[revision.number]


def _aftermath(let_before: int, denied_before: int, let_after: int, denied_after: int) -> Aftermath:
    return Aftermath(_share(denied_before, let_before), _share(denied_after, let_after), denied_before, denied_after)


def _share(denied: int, let: int) -> float | None:
    return denied / (denied + let) if denied + let else None


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _scopes(revisions: Sequence[Revision]) -> dict[int, Scope]:
    names = {row.number: _names(row) for row in revisions}
    endpoints = _numbers(Endpoint, (name for places in names.values() for name in places[0]))
    tenants = _numbers(Tenant, (name for places in names.values() for name in places[1]))
    return {
        number: Scope(
            tuple(sorted(endpoints[name] for name in own if name in endpoints)),
            tuple(sorted(tenants[name] for name in who if name in tenants)),
        )
        for number, (own, who) in names.items()
    }


def _numbers(model: type[Endpoint] | type[Tenant], names: Iterable[str]) -> dict[str, int]:
    wanted = set(names)
    return dict(model._default_manager.filter(name__in=wanted).values_list("name", "number")) if wanted else {}


def _names(revision: Revision) -> tuple[set[str], set[str]]:
    """Endpoints and tenants that it can have changed something for; an empty set: all of them."""
    endpoints: set[str] = set()
    tenants: set[str] = set()
    everywhere = everyone = False
    for key in revision.touched:
        kind, _, name = key.partition(":")
        state = revision.after.get(key) or revision.before.get(key) or {}
        if kind == "change":
            continue
        if kind == "endpoint":
            endpoints.add(name)
            everyone = True
            continue
        place = state.get("endpoint", "*")
        everywhere |= "*" in place
        endpoints.add(place)
        owner = name if kind == "tenant" else state.get("tenant")
        everyone |= owner is None
        tenants |= {owner} if owner else set()
    few = not everyone and len(tenants) <= MOST_TENANTS
    return (set() if everywhere else endpoints), (tenants if few else set())
