"""The list of tenants with 100,000 tenants against 100: every order and searches, on the page's own queries.

Also how long the job takes that measures the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow

FEW, MANY = 100, 100_000
ROUNDS = 50
# The first 20 tenants have a word of their own, so that both sizes find the same rows.
SEARCHES = {"20 tenants": "arbor", "one tenant": "tenant-000042", "what all share": "tenant", "what none has": "zzqq"}
_ADD = """
    INSERT INTO tenants_tenant
        (name, label, tier_id, timezone, suspended, suspended_reason, handovers, tags, contacts)
    SELECT 'tenant-' || lpad(n::text, 6, '0'),
        CASE WHEN n <= 20 THEN 'Harbor ' ELSE 'Fleet ' END || to_hex(n * 7919 %% 1048576), 1 + n %% 3, 'UTC', false, '',
        '[]', CASE WHEN n %% 3 = 0 THEN ARRAY['city'] ELSE '{}' END::varchar[], ARRAY['ops' || n || '@example.org']
    FROM generate_series(%s, %s) AS n
"""
_HOURS = """
    INSERT INTO quotas_tenant_1h (start, tenant_number, endpoint_number, outcome, limit_number, count, cost)
    SELECT date_trunc('hour', %s::timestamptz) - hour * interval '1 hour', number, -1, 'a', 0, 1 + number %% 977, 1
    FROM tenants_tenant, generate_series(0, 23) AS hour
"""


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    from django.utils import timezone

    from tenants.models import Tier

    now = timezone.now()
    for name in ("free", "pro", "enterprise"):
        Tier.objects.create(name=name)
    add(1, FEW, now)
    few = times(now)
    add(FEW + 1, MANY, now)
    start = time.perf_counter()
    _measure(now)
    took = time.perf_counter() - start
    return [*rows(few, times(now)), BenchmarkRow(f"Figures of {MANY:,} tenants measured", round(took, 1), "s", 60, 15)]


def rows(few: dict[str, float], many: dict[str, float]) -> Iterator[BenchmarkRow]:
    for name, took in many.items():
        must = 3.0 if name.startswith("search") else 1.5
        yield BenchmarkRow(f"Tenants, {name}, of {MANY:,}", round(took * 1_000, 1), "ms")
        yield BenchmarkRow(f"Tenants, {name}, against {FEW}", round(took / few[name], 2), "×", must)


def add(first: int, last: int, now: datetime) -> None:
    from django.db import connection

    from quotas.models.usage_totals import TenantHour
    from quotas.usage.partitions import ensure_partitions, partition_of
    from tenants.privileges import as_owner

    hours = [now - TenantHour.step * hour for hour in range(25)]
    ensure_partitions({partition_of(TenantHour, hour) for hour in hours})
    with connection.cursor() as cursor:
        cursor.execute(_ADD, [first, last])
        cursor.execute("DELETE FROM quotas_tenant_1h")
        cursor.execute(_HOURS, [now])
    _measure(now)
    # The application does not own the tables, so it cannot bring their statistics up to date.
    with as_owner("default") as owner, owner.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _measure(now: datetime) -> None:
    from quotas.tenant_summary import measure_tenants

    measure_tenants(now)


def times(now: datetime) -> dict[str, float]:
    from quotas.tenant_list import ORDERS

    found = {}
    for order in [sign + name for name in ORDERS for sign in ("", "-")]:
        found[f"order {order}"] = taken(page(now, order))
    for words, text in SEARCHES.items():
        found[f"search for {words}"] = taken(page(now, "name", search=text))
    found["search sorted by requests"] = taken(page(now, "-asked", search="fleet"))
    return found


def page(now: datetime, order: str, **wanted: str) -> Callable[[], Any]:
    """What the page reads for its rows, with their figures."""
    from quotas.keyset import keyset_page
    from quotas.tenant_list import ORDERS, TenantFilter, tenants_found, with_figures
    from tenants.models import Tenant

    def read() -> Any:
        rows = tenants_found(Tenant.objects.all(), TenantFilter(**wanted), now, by_staff=True)
        return with_figures(keyset_page(rows, ORDERS, order=order).rows, now)

    return read


def taken(read: Callable[[], Any]) -> float:
    """The fastest round: whatever else the machine does only adds."""
    found = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        read()
        found.append(time.perf_counter() - start)
    return min(found[1:])
