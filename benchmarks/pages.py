"""Server time of the pages used every day, with 1,000 tenants × 30 days and with 10 tenants × 1 day.

The last two days have full detail, as drains would leave them. Earlier days are copies of the first of these in the
hour and day tables, because no page reads anything finer that far back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from http import HTTPStatus
from statistics import median
from typing import Any

import numpy as np

from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow

FEW, MANY = 10, 1_000  # tenants
DAYS = 30
TIERS = ("free", "pro", "enterprise")
ENDPOINTS = 20
ROUNDS = 15
HOUR_S, DAY_S = 3_600, 86_400
DENIED = 10  # every 10th tenant is throttled
SAID = {"author": "bench", "reason": "bench"}
PAGES = {
    "Overview": "/",
    "Tenant": "/tenants/tenant-0000",
    "Endpoint": "/endpoints/service:e0?tier=free",
    "Matrix": "/matrix",
}


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    from django.utils import timezone

    from quotas.usage.tier_usage import measure_tier_usage

    # Nothing is published here, and the limiter of the pages would log that.
    logging.getLogger("headroom_edge").setLevel(logging.ERROR)
    now = timezone.now()
    make_world()
    count(range(FEW), now, 1)
    few = times()
    count(range(FEW), now, 2, skip_days=1)
    count(range(FEW, MANY), now, 2)
    repeat(now)
    measure_tier_usage(now)
    return list(rows(few, times()))


def rows(few: dict[str, float], many: dict[str, float]) -> Iterator[BenchmarkRow]:
    for page, took in many.items():
        yield BenchmarkRow(f"{page} with {MANY:,} tenants × {DAYS} days", round(took * 1_000, 1), "ms")
        yield BenchmarkRow(f"{page}, against {FEW} tenants × 1 day", round(took / few[page], 2), "×", 3, 1.5)


def make_world() -> None:
    from quotas.errors import accepted
    from quotas.policies.apply import document_apply
    from quotas.policies.document import read_document

    limits = "limits: [{name: burst, algorithm: token_bucket, rate: %d, burst: %d}]"
    tiers = "".join(f"  - {{name: {name}}}\n" for name in TIERS)
    endpoints = "".join(f'  - {{name: "service:e{n}", method: GET, path: "/e{n}"}}\n' for n in range(ENDPOINTS))
    policies = "".join(
        f'  - {{name: {tier}-{n}, tier: {tier}, endpoint: "{where}", {limits % (n + 1, 2 * n + 2)}}}\n'
        for tier in TIERS
        for n, where in enumerate(["*", *(f"service:e{i}" for i in range(0, ENDPOINTS, 2))])
    )
    document = f"tiers:\n{tiers}endpoints:\n{endpoints}policies:\n{policies}"
    document_apply(document=accepted(read_document(document)), **SAID)  # type: ignore[arg-type]
    add_tenants(MANY)


def add_tenants(many: int) -> None:
    """Inserts by one statement: the functions of `quotas` would write a revision with all of them."""
    from tenants.models import Tenant, Tier

    tiers = list(Tier.objects.filter(name__in=TIERS).order_by("number"))
    Tenant.objects.bulk_create(Tenant(name=f"tenant-{n:04}", tier=tiers[n % len(tiers)]) for n in range(many))


def count(tenants: range, now: datetime, days: int, skip_days: int = 0) -> None:
    """Usage of two endpoints per tenant: every minute of the last two hours, every ten minutes before."""
    from django.db import connection

    from quotas.models.usage import DrainState
    from quotas.usage.backfill import backfill_usage
    from quotas.usage.tier_usage import measure_tier_usage

    end = int(now.timestamp())
    seconds = np.r_[np.arange(end - days * DAY_S, end - 2 * HOUR_S, 600), np.arange(end - 2 * HOUR_S, end, 60)]
    backfill_usage(cells(numbers(tenants), seconds[seconds < end - skip_days * DAY_S]), now)
    DrainState.objects.update_or_create(id=1, defaults={"drained_at": now, "run_id": "bench"})
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    measure_tier_usage(now)


def cells(tenants: Any, seconds: Any) -> Any:
    from quotas.models import Endpoint, LimitName
    from quotas.observations.cells import Cells

    endpoints = np.array(Endpoint.objects.filter(name__startswith="service:").order_by("number").values_list("number"))
    burst = LimitName.objects.get(name="burst").number
    place, second, which = (axis.ravel() for axis in np.indices((len(tenants), len(seconds), 2)))
    refused = (place % DENIED == 0) & (which == 0)
    one = np.ones(len(place), np.int64)
    return Cells(
        seconds[second],
        one,
        tenants[place],
        endpoints[(place + 7 * which) % len(endpoints), 0],
        np.where(refused, ord("d"), ord("a")),
        np.where(refused, burst, 0),
        1 + place % 5,
        1 + place % 5,
    )


def numbers(tenants: range) -> Any:
    from tenants.models import Tenant

    names = [f"tenant-{n:04}" for n in tenants]
    return np.array(Tenant.objects.filter(name__in=names).order_by("name").values_list("number", flat=True))


def repeat(now: datetime) -> None:
    """Copies the rows of the day before yesterday to each of the days before."""
    from django.db import connection

    from quotas.models.usage import UsageDay, UsageHour
    from quotas.models.usage_rates import RatesDay, RatesHour
    from quotas.models.usage_totals import TotalDay, TotalHour
    from quotas.usage.maintenance import close_day
    from quotas.usage.partitions import ensure_partitions, partition_of

    first = (now - timedelta(days=2)).replace(hour=0, minute=0, second=0, microsecond=0)
    close_day(first)
    for model in (UsageHour, UsageDay, TotalHour, TotalDay, RatesHour, RatesDay):
        ensure_partitions(partition_of(model, first - timedelta(days=day)) for day in range(DAYS + 1))
        columns = [field.column for field in model._meta.concrete_fields if field.column and field.column != "start"]
        listed, table = ", ".join(columns), model._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table} (start, {listed}) SELECT start - day * interval '1 day', {listed} FROM {table},"  # noqa: S608
                " generate_series(1, %s) AS day WHERE start >= %s AND start < %s ON CONFLICT DO NOTHING",
                [DAYS, first, first + timedelta(days=1)],
            )
            cursor.execute(f"VACUUM ANALYZE {table}")


def times() -> dict[str, float]:
    """Page → seconds through the whole Django stack."""
    from django.contrib.auth.models import User
    from django.test import Client

    from tenants.models import Membership, Role

    user, _ = User.objects.get_or_create(username="bench", defaults={"password": "!"})
    Membership.objects.update_or_create(user=user, defaults={"role": Role.VIEWER, "tenant": None})
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return {page: taken(client, address) for page, address in PAGES.items()}


def taken(client: Any, address: str) -> float:
    found = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        answer = client.get(address)
        found.append(time.perf_counter() - start)
        if answer.status_code != HTTPStatus.OK:
            raise SystemExit(f"{address} answers {answer.status_code}: {answer.content[:300]!r}")
    return median(found[1:])
