"""Draining: counters per second from Redis to Postgres, compared with a bare COPY of the same rows.

The load is 1,000 tenants on 20 endpoints, drained every three seconds (the usual interval) and every twelve (about as
much as one transaction takes). Times are processor time of this process, Postgres and Redis together, because each
waits for the others. The CPU clock of Postgres has a resolution of 10 ms, so rounds are summed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow

TENANTS = 1_000
ENDPOINTS = 20
ROUNDS = {3: 16, 12: 4}  # seconds between two drains


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    make_table()
    from quotas.usage.drain import connect, drain
    from quotas.usage.fold import fold_all

    rows = []
    with connect() as server:
        server.config_set("appendonly", "no")
        clock, fields = Clock(server), 0
        for seconds, rounds in ROUNDS.items():
            drained = copied = 0.0
            for _ in range(rounds):
                found = fill(server, seconds)
                drained += clock.spent(lambda: drain(server)) / found
                copied += copy(found, clock) / found
                fields += found
            rows += list(_rows(f"drain every {seconds} s", drained / rounds, copied / rounds))
        folded = clock.spent(fold_all) / fields
    return [*rows, BenchmarkRow("folding into all rollups, seconds and rates", round(1 / folded), "/s")]


def _rows(name: str, drained: float, copied: float) -> Iterator[BenchmarkRow]:
    yield BenchmarkRow(f"{name}, against a bare COPY of the same rows", round(copied / drained, 3), "×", 0.3, 0.5, True)
    yield BenchmarkRow(f"{name}, counters into Postgres", round(1 / drained), "/s")
    yield BenchmarkRow(f"{name}, bare COPY of the same rows, no index", round(1 / copied), "/s")


def make_table() -> None:
    """Created by the owner, because the application may not create tables."""
    from config.data_folders import APPLICATION
    from tenants.privileges import as_owner

    columns = "start bigint, tenant int, endpoint int, outcome text, limit_number int, count bigint, cost bigint"
    with as_owner("default") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE bare ({columns})")
        cursor.execute(f"GRANT ALL ON bare TO {APPLICATION}")


def fill(server: Any, seconds: int) -> int:
    """Writes counters as the Lua layer does; returns how many."""
    from headroom_edge import keys

    now = server.time()[0]
    pipe = server.pipeline(transaction=False)
    for tenant in range(1, TENANTS + 1):
        fields = {
            f"s{now - second:08x}{keys.tenant_number(tenant)}{keys.endpoint_number(endpoint)}a": (7 << 24) + 7
            for endpoint in range(1, ENDPOINTS + 1)
            for second in range(seconds)
        }
        pipe.hset(keys.usage(tenant % keys.SHARDS), mapping=fields)
    pipe.execute()
    return TENANTS * ENDPOINTS * seconds


def copy(rows: int, clock: Clock) -> float:
    """Processor seconds of the COPY; the lines are prepared before."""
    from django.db import connection, transaction

    now = int(time.time())
    lines = "".join(
        f"{now + n % 12}\t{n // ENDPOINTS % TENANTS + 1}\t{n % ENDPOINTS + 1}\ta\t0\t7\t7\n" for n in range(rows)
    )
    with transaction.atomic(), connection.cursor() as cursor:

        def write() -> None:
            with cursor.copy("COPY bare FROM STDIN") as stream:
                stream.write(lines)

        return clock.spent(write)


class Clock:
    def __init__(self, server: Any) -> None:
        from django.db import connection

        connection.ensure_connection()
        self.server, self.backend = server, psutil.Process(connection.connection.info.backend_pid)

    def spent(self, work: Callable[[], object]) -> float:
        """Processor seconds of this process, Postgres and Redis."""
        before = self._now()
        work()
        return self._now() - before

    def _now(self) -> float:
        postgres, redis = self.backend.cpu_times(), self.server.info("cpu")
        return float(
            time.process_time() + postgres.user + postgres.system + redis["used_cpu_user"] + redis["used_cpu_sys"]
        )
