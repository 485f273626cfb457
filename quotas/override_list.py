"""Overrides of all tenants: found, filtered and sorted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Count, DateTimeField, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Least

from quotas.keyset import SortColumn
from quotas.models import Override
from quotas.override_use import as_written
from quotas.overrides import ACTIVE, ENDED, UPCOMING, override_state, overrides_in
from quotas.policies.spec import EVERYWHERE

DAY: Final = timedelta(days=1)
ENDLESS: Final = datetime(9000, 1, 1, tzinfo=UTC)  # sorts behind every end

ORDERS: Final = {
    "end": SortColumn("ends", "time", tie="id"),
    "start": SortColumn("start", "time", tie="id"),
    "tenant": SortColumn("tenant__name", tie="id"),
    "created": SortColumn("id", "int"),
}
STATES: Final = {
    "current": "active and upcoming",
    "active": "active",
    "upcoming": "upcoming",
    "ending": "ending within 24 hours",
    "endless": "without an end",
    "ended": "ended",
}
STATE_ORDERS: Final = {"ended": "-end", "upcoming": "start"}


@dataclass(frozen=True, slots=True)
class OverrideFilter:
    search: str = ""  # part of the tenant's name or label, the endpoint, the reason or the author
    state: str = "current"
    tenant: str = ""
    tiers: Sequence[str] = ()
    endpoint: str = ""
    numbers: Sequence[int] | None = None  # None: all


def overrides_found(rows: QuerySet[Override], wanted: OverrideFilter, now: datetime) -> QuerySet[Override]:
    never = Value(ENDLESS, DateTimeField())
    rows = rows.select_related("tenant__tier", "endpoint").annotate(
        ends=Least(Coalesce("cancelled_at", never), Coalesce("end", never))
    )
    rows = rows.filter(_in_state(wanted.state, now))
    if wanted.numbers is not None:
        rows = rows.filter(pk__in=list(wanted.numbers))
    if wanted.tenant:
        rows = rows.filter(tenant__name=wanted.tenant)
    if wanted.tiers:
        rows = rows.filter(tenant__tier__name__in=list(wanted.tiers))
    if wanted.endpoint:
        rows = rows.filter(Q(endpoint=None) if wanted.endpoint == EVERYWHERE else Q(endpoint__name=wanted.endpoint))
    if wanted.search:
        columns = ("tenant__name", "tenant__label", "endpoint__name", "reason", "author")
        found = Q()
        for column in columns:
            found |= Q(**{f"{column}__icontains": wanted.search})
        rows = rows.filter(found)
    return rows


def _in_state(state: str, now: datetime) -> Q:
    if state in (ACTIVE, UPCOMING, ENDED):
        return overrides_in(state, now)
    if state == "ending":
        return overrides_in(ACTIVE, now) & Q(end__lte=now + DAY)
    if state == "endless":
        return ~overrides_in(ENDED, now) & Q(end=None)
    return Q() if state == "any" else ~overrides_in(ENDED, now)


def counts_of_states(rows: QuerySet[Override], now: datetime) -> dict[str, int]:
    """How many overrides each state has, and how many tenants have an active one."""
    wanted = {state: Count("pk", filter=_in_state(state, now)) for state in ("current", ACTIVE, "ending", "endless")}
    tenants = Count("tenant", distinct=True, filter=overrides_in(ACTIVE, now))
    # Ended ones pile up and would be counted one by one: the rest is read by index.
    live = rows.filter(cancelled_at=None).filter(Q(end=None) | Q(end__gt=now))
    return live.order_by().aggregate(**wanted, tenants=tenants)


OVERRIDE_COLUMNS: Final = (
    *("id", "tenant", "tier", "endpoint", "state", "start", "end", "cancelled_at", "change"),
    *("author", "reason", "revision"),
)


def override_cells(row: Override, now: datetime) -> Sequence[object]:
    """A line of an export, in the order of OVERRIDE_COLUMNS."""
    return (
        *(row.pk, row.tenant.name, row.tenant.tier.name, row.scope, override_state(row, now)),
        *(moment.isoformat() if moment else "" for moment in (row.start, row.end, row.cancelled_at)),
        "; ".join(f"{change.name} {change.after}" for change in as_written(row)),
        *(row.author, row.reason, row.created_revision_id),
    )
