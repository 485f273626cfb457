"""The list of tenants: found by any part of a name, filtered, sorted by any column, each with its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum, Value
from django.db.models.functions import Lower, StrIndex

from quotas.keyset import MOST_COUNTED, SortColumn
from quotas.models import Override, TenantSummary
from quotas.models.usage import BEGINNING, UsageHour
from quotas.models.usage_totals import TenantHour
from quotas.overrides import ACTIVE, overrides_in
from quotas.tenant_summary import COUNTED
from tenants.models import Tenant

LONGEST_SEARCH: Final = 100
# Of a search that finds more, an ordered walk finds a page sooner than the index of letters.
FEW: Final = 1_000
THROTTLED: Final = timedelta(minutes=5)
IDLE: Final = timedelta(days=7)

ORDERS: Final = {
    "name": SortColumn("name"),
    # Tiers in the order in which they were created.
    "tier": SortColumn("tier_id", "int", tie="name", tie_kind="text"),
    "asked": SortColumn("summary__asked", "int", tie="summary__tenant_id"),
    "denied": SortColumn("summary__denied", "int", tie="summary__tenant_id"),
    "share": SortColumn("summary__share", "float", tie="summary__tenant_id"),
    "use": SortColumn("summary__use", "float", tie="summary__tenant_id"),
    "last": SortColumn("summary__last_at", "time", tie="summary__tenant_id"),
    "created": SortColumn("number", "int"),
}
STATES: Final = {
    "active": "active",
    "throttled": "throttled now",
    "denied": "denied in 24 hours",
    "override": "with an override",
    "idle": "no requests in 7 days",
    "suspended": "suspended",
    "archived": "archived",
}
STATE_ORDERS: Final = {"denied": "-denied", "idle": "last"}


@dataclass(frozen=True, slots=True)
class TenantFilter:
    search: str = ""  # any part of the name, label, a tag or a contact
    tiers: Sequence[str] = ()  # any of them; empty: all
    state: str = ""  # of STATES
    tag: str = ""
    names: Sequence[str] | None = None  # None: all

    @property
    def is_empty(self) -> bool:
        return not (self.search or self.tiers or self.state or self.tag)


@dataclass(frozen=True, slots=True)
class TenantRow:
    tenant: Tenant
    summary: TenantSummary
    overrides: int  # active now
    is_throttled: bool
    series: Sequence[int] = field(default=())  # requests in each of the last hours


def tenants_found(rows: QuerySet[Tenant], wanted: TenantFilter, now: datetime, *, by_staff: bool) -> QuerySet[Tenant]:
    """`by_staff`: False for a tenant, who has one row and no index to search in."""
    # Every tenant has a summary; the condition lets the database start at the summary's index.
    rows = rows.filter(summary__isnull=False).select_related("tier", "summary")
    if wanted.names is not None:
        rows = rows.filter(name__in=list(wanted.names))
    if wanted.tiers:
        rows = rows.filter(tier__name__in=list(wanted.tiers))
    return _sought(rows.filter(_in_state(wanted.state, now)), wanted, by_staff)


def _sought(rows: QuerySet[Tenant], wanted: TenantFilter, by_staff: bool) -> QuerySet[Tenant]:
    if not wanted.search and not wanted.tag:
        return rows
    numbers = _numbers_found(wanted) if by_staff else None
    if numbers is not None:
        return rows.filter(pk__in=numbers)
    if wanted.search:
        # Not LIKE: row-level security hides its statistics, and then Postgres expects no match and reads every row.
        rows = rows.alias(place=StrIndex("search__text", Lower(Value(wanted.search)))).filter(place__gt=0)
    return rows.filter(tags__contains=[wanted.tag]) if wanted.tag else rows


def _numbers_found(wanted: TenantFilter) -> list[int] | None:
    """None: there are more than FEW."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT headroom_tenants_found(lower(%s), %s, %s)", [wanted.search, wanted.tag, FEW])
        numbers = [number for (number,) in cursor.fetchall()]
    return None if None in numbers else numbers


def _in_state(state: str, now: datetime) -> Q:
    """An archived tenant is listed only if one asks for the archived ones."""
    present = Q(archived_at=None)
    if state == "any":
        return Q()
    if state == "archived":
        return Q(archived_at__isnull=False)
    if state == "active":
        return present & Q(suspended=False)
    if state == "suspended":
        return present & Q(suspended=True)
    if state == "throttled":
        return present & Q(summary__denied_at__gte=now - THROTTLED)
    if state == "denied":
        return present & Q(summary__denied__gt=0)
    if state == "idle":
        return present & Q(summary__last_at__lt=now - IDLE)
    if state == "override":
        return present & Q(pk__in=Override.objects.filter(overrides_in(ACTIVE, now)).values("tenant"))
    return present


def with_figures(tenants: Sequence[Tenant], now: datetime) -> list[TenantRow]:
    numbers = [tenant.number for tenant in tenants]
    active = Override.objects.filter(overrides_in(ACTIVE, now), tenant__in=numbers).order_by()
    overrides = dict(active.values_list("tenant").annotate(Count("pk")))
    hours = hours_until(now)
    asked = _asked(numbers, hours)
    return [
        TenantRow(
            tenant,
            tenant.summary,
            overrides.get(tenant.number, 0),
            tenant.summary.denied_at >= now - THROTTLED,
            [asked.get((tenant.number, hour), 0) for hour in hours],
        )
        for tenant in tenants
    ]


def hours_until(now: datetime) -> list[datetime]:
    """The last 24 hours that are over: one that has only begun would look like a drop."""
    current = now - (now - BEGINNING) % UsageHour.step
    return [current - back * UsageHour.step for back in range(24, 0, -1)]


def _asked(numbers: Sequence[int], hours: Sequence[datetime]) -> Mapping[tuple[int, datetime], int]:
    rows = TenantHour.objects.filter(start__in=hours, tenant_number__in=numbers, outcome__in=COUNTED).order_by()
    found = rows.values_list("tenant_number", "start").annotate(Sum("count"))
    return {(number, start): int(count) for number, start, count in found}


def overrides_of(tenant: int, now: datetime, *, most: int = 20) -> list[Override]:
    """Active and upcoming overrides first, then the three that ended last."""
    rows = Override.objects.filter(tenant=tenant).select_related("endpoint", "tenant")
    current = list(rows.filter(~overrides_in("ended", now)).order_by("start")[:most])
    ended = list(rows.filter(Q(overrides_in("ended", now))).order_by("-id")[:3])
    return [*current, *ended]


_COUNTS: Final = """
    SELECT
        (SELECT count(*) FROM (SELECT 1 FROM tenants_tenant WHERE archived_at IS NULL LIMIT %(most)s) AS counted),
        (SELECT count(*) FROM (SELECT 1 FROM quotas_tenant_summary s JOIN tenants_tenant t ON t.number = s.tenant_id
            WHERE s.denied > 0 AND t.archived_at IS NULL LIMIT %(most)s) AS counted),
        (SELECT count(*) FROM (SELECT 1 FROM (SELECT DISTINCT tenant_id FROM quotas_override
            WHERE cancelled_at IS NULL AND start <= %(now)s AND ("end" IS NULL OR "end" > %(now)s)) AS o
            JOIN tenants_tenant t ON t.number = o.tenant_id WHERE t.archived_at IS NULL LIMIT %(most)s) AS counted),
        (SELECT count(*) FROM (SELECT 1 FROM quotas_tenant_summary s JOIN tenants_tenant t ON t.number = s.tenant_id
            WHERE s.last_at < %(idle)s AND t.archived_at IS NULL LIMIT %(most)s) AS counted),
        (SELECT count(*) FROM (SELECT 1 FROM tenants_tenant WHERE suspended AND archived_at IS NULL LIMIT %(most)s)
            AS counted),
        (SELECT count(*) FROM (SELECT 1 FROM tenants_tenant WHERE archived_at IS NOT NULL LIMIT %(most)s) AS counted)
"""
COUNTED_STATES: Final = ("", "denied", "override", "idle", "suspended", "archived")


def counts_of_states(now: datetime) -> dict[str, int]:
    """How many tenants each of COUNTED_STATES lists, counted as by `count_up_to`."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"most": MOST_COUNTED + 1, "now": now, "idle": now - IDLE})
        return dict(zip(COUNTED_STATES, cursor.fetchone(), strict=True))


TENANT_COLUMNS: Final = (
    *("name", "label", "tier", "state", "timezone", "tags", "contacts", "asked_24h", "denied_24h", "denied_share"),
    *("tightest_share", "tightest_endpoint", "tightest_limit", "last_request_at", "created", "priority"),
)


def tenant_cells(tenant: Tenant, now: datetime) -> Sequence[object]:
    """A line of an export, in the order of TENANT_COLUMNS."""
    figures = tenant.summary
    last = figures.last_request
    return (
        *(tenant.name, tenant.label, tenant.tier.name, state_of(tenant, now), tenant.timezone),
        *(" ".join(tenant.tags), " ".join(tenant.contacts), figures.asked, figures.denied, round(figures.share, 6)),
        "" if figures.tightest is None else round(figures.tightest, 6),
        *(figures.use_scope, figures.use_limit, last.isoformat() if last else "", tenant.created.isoformat()),
        tenant.priority,
    )


def state_of(tenant: Tenant, now: datetime) -> str:
    """The one of STATES that says most about a tenant."""
    if tenant.archived_at is not None:
        return "archived"
    if tenant.suspended:
        return "suspended"
    return "throttled" if tenant.summary.denied_at >= now - THROTTLED else "active"
