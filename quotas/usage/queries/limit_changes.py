"""Which revisions set the limit that denied a request, and what it denied since the newest of them.

A denial stores the revision that its shard enforced, which is the newest that changed anything in the shard. The
revision that a reader looks for is the one that set this limit for this tenant.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Q, Sum

from quotas.models import Endpoint, Limit, Override
from quotas.models.usage import REFUSED, UsageStep
from quotas.policies.spec import EPOCH, MICROSECOND
from quotas.usage.queries.coverage import drained_and_folded
from quotas.usage.queries.periods import Period
from tenants.isolation import unrestricted
from tenants.models import Tenant

MOST: Final = 500
EXACT: Final = timedelta(hours=1)  # so long ago, counts of ten seconds are read
ENOUGH: Final = timedelta(seconds=20)  # measured after a change, before anything is said of its effect
# What a revision changed at a path; a candidate beside the limit, or a new tenant, is no change of the limit.
_QUERY: Final = """
    SELECT asked.place, number, published_us
    FROM jsonb_to_recordset(%s::jsonb) AS asked(place int, key text, path text[])
    JOIN quotas_revision ON touched @> ARRAY[asked.key]::varchar[]
    CROSS JOIN LATERAL (SELECT before #> asked.path AS former, after #> asked.path AS later) AS at_path
    WHERE published_us IS NOT NULL AND (former IS NOT NULL OR NOT starts_with(asked.key, 'tenant:'))
        AND CASE jsonb_typeof(former) WHEN 'object' THEN former - 'candidate' ELSE former END
            IS DISTINCT FROM CASE jsonb_typeof(later) WHEN 'object' THEN later - 'candidate' ELSE later END
    ORDER BY number DESC LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class LimitPlace:
    """A tenant's limit on an endpoint, by their numbers."""

    tenant: int
    endpoint: int
    limit: int


@dataclass(frozen=True, slots=True)
class LimitChange:
    revision: int
    at: datetime


@dataclass(frozen=True, slots=True)
class SinceChange:
    """What a limit denied since it was last changed."""

    change: LimitChange
    denied: int
    is_measured: bool  # long enough to say so

    @property
    def is_calm(self) -> bool:
        return self.is_measured and not self.denied


def limit_changes_read(places: Collection[LimitPlace]) -> dict[LimitPlace, list[LimitChange]]:
    """The revisions that changed each limit, newest first; at most MOST in all."""
    known = list(dict.fromkeys(place for place in places if place.tenant and place.limit))
    if not known:
        return {}
    # A tenant's request sees no revisions, and is told no more of them than when one changed its limit.
    with unrestricted():
        rows = _rows(known)
    found: dict[LimitPlace, list[LimitChange]] = defaultdict(list)
    for place, number, published_us in rows:
        found[known[place]].append(LimitChange(number, EPOCH + published_us * MICROSECOND))
    return dict(found)


def _rows(places: Sequence[LimitPlace]) -> list[tuple[int, int, int]]:
    asked = [{"place": i, **path} for i, paths in enumerate(_paths(places)) for path in paths]
    if not asked:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_QUERY, [json.dumps(asked), MOST])
        return [(place, number, published_us) for place, number, published_us in cursor.fetchall()]


def change_at(changes: Sequence[LimitChange], at: datetime) -> LimitChange | None:
    """The one that held at that time."""
    return next((change for change in changes if change.at <= at), None)


def _paths(places: Sequence[LimitPlace]) -> Iterator[list[dict[str, Any]]]:
    """For each place, the objects of revisions that can have set its limit."""
    tenants = Tenant.objects.in_bulk({place.tenant for place in places})
    policies = _policies(places, {tenant.tier_id for tenant in tenants.values()})
    services = {row["policy__service"] for rows in policies.values() for row in rows} - {""}
    endpoints = _names({place.endpoint for place in places}) if services else {}
    overrides: dict[int, list[Override]] = defaultdict(list)
    for row in Override.objects.filter(tenant__in=tenants).order_by("-id")[:MOST]:
        overrides[row.tenant_id].append(row)
    for place in places:
        tenant, rows = tenants.get(place.tenant), policies[place.limit]
        if tenant is None or not rows:
            yield []
            continue
        own = [row for row in rows if _fits(row, place, tenant, endpoints.get(place.endpoint, ""))]
        best, name = max(own, key=_specific, default=None), rows[0]["name__name"]
        yield [
            *([_path(f"policy:{best['policy__name']}", "limits", name)] if best else ()),
            *(_path(f"override:{row.pk}") for row in overrides[place.tenant] if _touches(row, place, name)),
            _path(f"tenant:{tenant.name}", "tier"),
        ]


def _names(endpoints: Collection[int]) -> dict[int, str]:
    return dict(Endpoint.objects.filter(number__in=endpoints).values_list("number", "name"))


def _path(key: str, *rest: str) -> dict[str, Any]:
    return {"key": key, "path": [key, *rest]}


def limits_at(places: Collection[LimitPlace]) -> dict[LimitPlace, Mapping[str, Any]]:
    """The row of the limit that holds at each place now, with the revision that set it. None if it is overridden."""
    known = [place for place in places if place.tenant and place.limit]
    tenants = Tenant.objects.in_bulk({place.tenant for place in known})
    with unrestricted():
        columns = ("algorithm", "parameters", "changed_revision_id")
        policies = _policies(known, {tenant.tier_id for tenant in tenants.values()}, *columns)
        overrides = list(Override.objects.filter(tenant__in=tenants).order_by("-id")[:MOST])
    endpoints = _names({place.endpoint for place in known})
    found: dict[LimitPlace, Mapping[str, Any]] = {}
    for place in known:
        tenant = tenants.get(place.tenant)
        own = [
            row
            for row in policies[place.limit]
            if tenant and _fits(row, place, tenant, endpoints.get(place.endpoint, ""))
        ]
        best = max(own, key=_specific, default=None)
        changed = (
            o for o in overrides if best and o.tenant_id == place.tenant and _touches(o, place, best["name__name"])
        )
        if best is not None and next(changed, None) is None:
            found[place] = best
    return found


def _policies(places: Sequence[LimitPlace], tiers: Collection[int], *more: str) -> dict[int, list[Mapping[str, Any]]]:
    """Where each limit is set for these tenants or for everyone, by its number."""
    owned = Q(policy__tier__in=tiers) | Q(policy__tenant__in={place.tenant for place in places})
    rows = Limit.objects.filter(owned | Q(policy__tier=None, policy__tenant=None), name__in={p.limit for p in places})
    found: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    columns = ("policy__name", "policy__tier_id", "policy__tenant_id", "policy__endpoint_id", "policy__service")
    for row in rows.values("name_id", "name__name", *columns, *more):
        found[row["name_id"]].append(row)
    return found


def _fits(row: Mapping[str, Any], place: LimitPlace, tenant: Tenant, endpoint: str) -> bool:
    owner_fits = row["policy__tenant_id"] in (None, tenant.pk) and row["policy__tier_id"] in (None, tenant.tier_id)
    service = row["policy__service"]
    return (
        owner_fits
        and row["policy__endpoint_id"] in (None, place.endpoint)
        and (not service or endpoint.startswith(f"{service}:"))
    )


def _specific(row: Mapping[str, Any]) -> tuple[bool, bool, bool]:
    """In the order of quotas.policies.resolve."""
    return (bool(row["policy__tenant_id"]), bool(row["policy__tier_id"]), bool(row["policy__endpoint_id"]))


def _touches(row: Override, place: LimitPlace, name: str) -> bool:
    return row.endpoint_id in (None, place.endpoint) and (name in row.limits or row.multiplier_numerator is not None)


def since_changes_read(
    series: Mapping[LimitPlace, Mapping[datetime, int]], period: Period, now: datetime
) -> dict[LimitPlace, SinceChange]:
    """For limits that were changed in the period. `series`: their denials at each point of it."""
    changes = limit_changes_read(series)
    newest = {place: found[0] for place, found in changes.items() if found and found[0].at >= period.begin}
    if not newest:
        return {}
    _, measured = drained_and_folded(UsageStep)
    recent = {place: change for place, change in newest.items() if now - change.at < EXACT}
    exact = _denied_since(recent, now) if recent else {}
    return {
        place: SinceChange(
            change,
            exact[place] if place in exact else _after(series.get(place, {}), change.at),
            measured >= change.at + ENOUGH,
        )
        for place, change in newest.items()
    }


def _after(points: Mapping[datetime, int], at: datetime) -> int:
    return sum(count for start, count in points.items() if start >= at)


def _denied_since(changes: Mapping[LimitPlace, LimitChange], now: datetime) -> dict[LimitPlace, int]:
    """Exact to ten seconds: a cell in which the change fell belongs to the time before it."""
    first = min(change.at for change in changes.values())
    rows = UsageStep.objects.order_by().filter(
        start__gt=first,
        start__lte=now,
        tenant_number__in={place.tenant for place in changes},
        outcome__in=REFUSED,
    )
    found = dict.fromkeys(changes, 0)
    columns = ("tenant_number", "endpoint_number", "limit_number", "start")
    for *place, start, count in rows.values_list(*columns).annotate(Sum("count")):
        change = changes.get(LimitPlace(*place))
        if change is not None and start >= change.at:
            found[LimitPlace(*place)] += int(count)
    return found
