"""Usage of 1,000 tenants × 20 endpoints: 30 days of it against one day, and how much room a day takes.

Runs in a process and on servers of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import numpy as np

from benchmarks.apart import apart
from benchmarks.report import Row

TENANTS = 1_000
ENDPOINTS = 20
DAYS = 30
ROUNDS = 5
SAMPLE = 20  # tenants, of which an hour is recorded to see how much room it takes
PER_SECOND = 0.02  # requests of each tenant on each endpoint: 400 a second in all, 35 million a day
NOW = datetime(2031, 3, 31, tzinfo=UTC)


def run() -> list[Row]:
    return apart(__name__)


def measure() -> list[Row]:
    return [*measure_room(), *measure_queries()]


def measure_queries() -> Iterator[Row]:
    from quotas.models.usage import UsageDay, UsageHour
    from quotas.selectors.usage_query import Query, usage_query

    fill(UsageDay, DAYS)
    fill(UsageHour, 24)
    took = {}
    for days in (1, DAYS):
        query = Query(NOW - timedelta(days=days), NOW, group=("tenant",))
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            usage_query(query, NOW)
            times.append(time.perf_counter() - start)
        took[days] = median(times)
        yield Row(f"usage of {TENANTS:,} tenants over {days} d, by tenant", round(took[days] * 1_000), "ms")
    yield Row(f"{DAYS} days × {TENANTS:,} tenants against 1 day", round(took[DAYS] / took[1], 2), "×", 3, 1.5)


def fill(model: Any, steps: int) -> None:
    """Every series in each of the last steps."""
    from django.db import connection, transaction

    from quotas.usage.partitions import ensure, slice_of

    columns = "start, tenant_number, endpoint_number, outcome, limit_number, count, cost"
    starts = [NOW - model.step * place for place in range(1, steps + 1)]
    with transaction.atomic(), connection.cursor() as cursor:
        ensure(slice_of(model, start) for start in starts)
        cursor.execute(
            f"INSERT INTO {model._meta.db_table} ({columns})"  # noqa: S608 - a table of ours
            " SELECT s, t, e, 'a', 0, 100, 100 FROM unnest(%s::timestamptz[]) AS s,"
            " generate_series(1, %s) AS t, generate_series(1, %s) AS e ON CONFLICT DO NOTHING",
            [starts, TENANTS, ENDPOINTS],
        )
    with connection.cursor() as cursor:
        cursor.execute(f"VACUUM ANALYZE {model._meta.db_table}")


def measure_room() -> Iterator[Row]:
    """One hour of some tenants, as it lies in the tables, for the whole fleet and a day."""
    from quotas.models.rates import PARTITIONED
    from quotas.observations.cells import Cells
    from quotas.usage.history import add_history

    draw = np.random.default_rng(1)
    series = SAMPLE * ENDPOINTS
    counts = draw.poisson(PER_SECOND, (series, 3_600))
    which, second = np.nonzero(counts)
    count = counts[which, second]
    start = int((NOW - timedelta(hours=1)).timestamp()) + second
    one, none = np.ones(len(which), np.int64), np.zeros(len(which), np.int64)
    letter = np.full(len(which), ord("a"))
    add_history(Cells(start, one, which // ENDPOINTS + 1, which % ENDPOINTS + 1, letter, none, count, count), NOW)
    factor = TENANTS / SAMPLE / 2**20
    hours = {"usage_10s": 24.0, "usage_1m": 24.0, "usage_1h": 24.0, "usage_1d": 1.0, "seconds": 24.0, "rates_1h": 24.0}
    total = 0.0
    for model in PARTITIONED:
        if model.keep in hours:
            room = size_of(model._meta.db_table) * factor * hours[model.keep]
            total += room
            yield Row(
                f"room a day at {PER_SECOND * TENANTS * ENDPOINTS:.0f} requests a second, {model.keep}",
                round(room),
                "MB",
            )
    yield Row("room a day, all of these", round(total), "MB")


def size_of(table: str) -> int:
    """What is in use of it: pages that are only begun weigh nothing in a large table."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*), coalesce(sum(pg_column_size(t.*)), 0) FROM {table} AS t")  # noqa: S608
        rows, width = cursor.fetchone()
    # A line pointer, and an entry of the index on the key.
    return int(width) + int(rows) * (4 + 48)
