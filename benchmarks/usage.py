"""Usage of 1,000 tenants × 20 endpoints: queries over 30 days compared with one day, and disk space per day."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import numpy as np

from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow

TENANTS = 1_000
ENDPOINTS = 20
DAYS = 30
ROUNDS = 5
SAMPLE = 20  # tenants of which a full day is recorded, to measure disk space
PER_SECOND = 0.02  # requests per second of each tenant and endpoint: 400 per second in total, 35 million a day
NOW = datetime(2031, 3, 31, tzinfo=UTC)


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    return [*measure_room(), *measure_queries()]


def measure_queries() -> Iterator[BenchmarkRow]:
    from quotas.models.usage import UsageDay, UsageHour
    from quotas.usage.queries.grouped_usage import Grouping

    fill(UsageDay, DAYS)
    fill(UsageHour, 24)
    by_tenant: tuple[Grouping, ...] = ("tenant",)
    day, month = (took(days, by_tenant) for days in (1, DAYS))
    yield BenchmarkRow(f"usage of {TENANTS:,} tenants over 1 d, by tenant", round(day * 1_000), "ms")
    yield BenchmarkRow(f"usage of {TENANTS:,} tenants over {DAYS} d, by tenant", round(month * 1_000), "ms")
    yield BenchmarkRow(f"{DAYS} days × {TENANTS:,} tenants against 1 day", round(month / day, 2), "×", 3, 1.5)
    by_both: tuple[Grouping, ...] = ("tenant", "endpoint")
    day, month = (took(days, by_both) for days in (1, DAYS))
    yield BenchmarkRow(f"the same by tenant and endpoint, {TENANTS * ENDPOINTS:,} series", round(month / day, 2), "×")


def took(days: int, group: tuple[Any, ...]) -> float:
    """The median seconds of several rounds."""
    from quotas.usage.queries.grouped_usage import UsageQuery, usage_query

    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        usage_query(UsageQuery(NOW - timedelta(days=days), NOW, group=group), NOW)
        times.append(time.perf_counter() - start)
    return median(times)


def fill(model: Any, steps: int) -> None:
    """Adds every series to each of the last steps, as a fold would."""
    from django.db import connection, transaction

    from quotas.observations.cells import Cells
    from quotas.usage.rollups import add_cells

    series = np.arange(TENANTS * ENDPOINTS)
    one, none = np.ones(len(series), np.int64), np.zeros(len(series), np.int64)
    letter, hundred = one * ord("a"), one * 100
    for place in range(1, steps + 1):
        start = one * int((NOW - model.step * place).timestamp())
        cells = Cells(start, one, series // ENDPOINTS + 1, series % ENDPOINTS + 1, letter, none, hundred, hundred)
        with transaction.atomic():
            add_cells(cells, NOW, (model,))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def measure_room() -> Iterator[BenchmarkRow]:
    """Disk space of a whole day including indexes, measured for some tenants and scaled to the fleet."""
    from quotas.models.usage_rates import PARTITIONED
    from quotas.models.usage_totals import TOTALS
    from quotas.usage.backfill import backfill_usage
    from quotas.usage.maintenance import close_day
    from quotas.usage.packed_hours import pack_finished_hours

    draw = np.random.default_rng(1)
    for hour in range(24):
        backfill_usage(sample_hour(NOW - timedelta(hours=24 - hour), draw), NOW)
    close_day(NOW - timedelta(days=1))
    pack_finished_hours(NOW + timedelta(hours=1))
    total = 0.0
    for model in PARTITIONED:
        factor = 1 if model in TOTALS.values() else TENANTS / SAMPLE
        room = size_of(model._meta.db_table) * factor / 2**20
        total += room
        if room >= 1:
            yield BenchmarkRow(f"disk space per day, {model._meta.db_table}", round(room), "MB")
    yield BenchmarkRow(
        f"disk space per day, all tables, at {PER_SECOND * TENANTS * ENDPOINTS:.0f} requests per second",
        round(total),
        "MB",
    )


def sample_hour(begin: datetime, draw: np.random.Generator) -> Any:
    from quotas.observations.cells import Cells

    counts = draw.poisson(PER_SECOND, (SAMPLE * ENDPOINTS, 3_600))
    which, second = np.nonzero(counts)
    count = counts[which, second]
    one, none = np.ones(len(which), np.int64), np.zeros(len(which), np.int64)
    letter = np.full(len(which), ord("a"))
    start = int(begin.timestamp()) + second
    return Cells(start, one, which // ENDPOINTS + 1, which % ENDPOINTS + 1, letter, none, count, count)


def size_of(table: str) -> int:
    """Bytes of all partitions and their indexes, after a VACUUM that removes dead rows."""
    from tenants.privileges import as_owner

    with as_owner("default") as connection, connection.cursor() as cursor:
        cursor.execute(f"VACUUM FULL {table}")
        cursor.execute("SELECT coalesce(sum(pg_total_relation_size(relid)), 0) FROM pg_partition_tree(%s)", [table])
        (size,) = cursor.fetchone()
    return int(size)
