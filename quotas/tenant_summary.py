"""Measures the figures that the list of tenants shows and sorts by: one statement for all tenants, once a minute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction

from quotas.locks import Lock, take_lock
from quotas.models.tenant_summary import NOT_MEASURED, TenantSummaryRun
from quotas.models.usage import BEGINNING, LET_THROUGH, REFUSED, UsageHour, slot_of

DAY: Final = timedelta(days=1)
# Folds are late by less than this, so minutes that the last run read may have grown since.
OVERLAP: Final = timedelta(minutes=5)
LONGEST_MINUTES: Final = timedelta(hours=1)  # further back, the time of the last request is known to the hour
# Days before the last 24 hours matter for tenants that went silent: read once an hour.
HISTORY: Final = timedelta(days=35)
HISTORY_EVERY: Final = timedelta(hours=1)

COUNTED: Final = [str(outcome) for outcome in (*LET_THROUGH, *REFUSED)]
DENIED: Final = [str(outcome) for outcome in REFUSED]

# Row-level security hides from the planner how many rows there are, and then it loops over them.
_HASHED: Final = "SET LOCAL enable_nestloop = off"
_MEASURE: Final = """
    WITH hours AS (
        SELECT tenant_number AS tenant, sum(count) FILTER (WHERE outcome = ANY(%(counted)s)) AS asked,
            sum(count) FILTER (WHERE outcome = ANY(%(denied)s)) AS denied,
            max(start) FILTER (WHERE outcome = ANY(%(counted)s)) AS last_at,
            max(start) FILTER (WHERE outcome = ANY(%(denied)s)) AS denied_at
        FROM quotas_tenant_1h WHERE start >= %(begin)s GROUP BY 1
    ), minutes AS (
        SELECT tenant_number AS tenant, max(start) FILTER (WHERE outcome = ANY(%(counted)s)) AS last_at,
            max(start) FILTER (WHERE outcome = ANY(%(denied)s)) AS denied_at
        FROM quotas_usage_1m WHERE slot >= %(slot)s AND start >= %(minutes)s GROUP BY 1
    ), days AS (
        SELECT tenant_number AS tenant, max(start) FILTER (WHERE outcome = ANY(%(counted)s)) AS last_at
        FROM quotas_tenant_1d WHERE start >= %(history)s GROUP BY 1
    ), fresh AS (
        SELECT s.tenant_id, coalesce(h.asked, 0) AS asked, coalesce(h.denied, 0) AS denied,
            greatest(s.last_at, h.last_at, m.last_at, d.last_at) AS last_at,
            greatest(s.denied_at, h.denied_at, m.denied_at) AS denied_at
        FROM quotas_tenant_summary s LEFT JOIN hours h ON h.tenant = s.tenant_id
        LEFT JOIN minutes m ON m.tenant = s.tenant_id LEFT JOIN days d ON d.tenant = s.tenant_id
    )
    UPDATE quotas_tenant_summary s SET asked = f.asked, denied = f.denied, last_at = f.last_at,
        denied_at = f.denied_at, share = CASE WHEN f.asked > 0 THEN f.denied::float8 / f.asked ELSE 0 END
    FROM fresh f WHERE f.tenant_id = s.tenant_id
    AND (s.asked, s.denied, s.last_at, s.denied_at) IS DISTINCT FROM (f.asked, f.denied, f.last_at, f.denied_at)
"""
_TIGHTEST: Final = """
    WITH found AS (
        SELECT * FROM unnest(%s::bigint[], %s::float8[], %s::text[], %s::text[]) AS f (tenant, use, scope, name)
    ), fresh AS (
        SELECT s.tenant_id, coalesce(f.use, %s) AS use, coalesce(f.scope, '') AS scope, coalesce(f.name, '') AS name
        FROM quotas_tenant_summary s LEFT JOIN found f ON f.tenant = s.tenant_id
    )
    UPDATE quotas_tenant_summary s SET use = f.use, use_scope = f.scope, use_limit = f.name
    FROM fresh f WHERE f.tenant_id = s.tenant_id
    AND (s.use, s.use_scope, s.use_limit) IS DISTINCT FROM (f.use, f.scope, f.name)
"""

MOST_TAGS: Final = 200
_TAGS: Final = """
    SELECT tag FROM tenants_tenant, unnest(tags) AS tag WHERE archived_at IS NULL
    GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class TightestLimit:
    tenant: int
    share: float
    scope: str
    limit: str


def measure_tenants(now: datetime) -> int:
    """Returns how many rows changed. Figures cover the current hour and the 23 before."""
    with transaction.atomic():
        take_lock(Lock.TENANT_SUMMARY)
        run = TenantSummaryRun.objects.first()
        reads_history = run is None or run.history_at is None or run.history_at <= now - HISTORY_EVERY
        minutes = max(run.measured_at - OVERLAP if run else now - LONGEST_MINUTES, now - LONGEST_MINUTES)
        with connection.cursor() as cursor:
            cursor.execute(_HASHED)
            cursor.execute(
                _MEASURE,
                {
                    "counted": COUNTED,
                    "denied": DENIED,
                    "begin": now - (now - BEGINNING) % UsageHour.step - DAY + UsageHour.step,
                    "minutes": minutes,
                    "slot": slot_of(minutes),
                    "history": now - HISTORY if reads_history else now + DAY,
                },
            )
            changed: int = cursor.rowcount
            cursor.execute(_TAGS, [MOST_TAGS])
            tags = [tag for (tag,) in cursor.fetchall()]
        history_at = now if run is None or reads_history else run.history_at
        done = {"measured_at": now, "history_at": history_at, "tags": tags}
        TenantSummaryRun.objects.update_or_create(id=1, defaults=done)
    return changed


def store_tightest(found: Iterable[TightestLimit]) -> None:
    """Stores the limit that each tenant came closest to. Who is not among them came close to none."""
    rows = list(found)
    columns = ([getattr(row, name) for row in rows] for name in ("tenant", "share", "scope", "limit"))
    with transaction.atomic():
        take_lock(Lock.TENANT_SUMMARY)
        with connection.cursor() as cursor:
            cursor.execute(_HASHED)
            cursor.execute(_TIGHTEST, [*columns, NOT_MEASURED])


def last_run() -> TenantSummaryRun | None:
    """None: not measured yet."""
    return TenantSummaryRun.objects.first()
