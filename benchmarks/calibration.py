"""Calibration of a whole fleet from Postgres: 1,000 tenants × 20 endpoints × 28 days in one run.

Every series has its own seconds in the database, as drains would have left them: 560,000 packed days. They are
generated for some shapes of demand and written by COPY. Only `calibrate` is measured, from the first query to the last
recommendation. Times are processor time of this process and Postgres together.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psutil

from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow

TENANTS = 1_000
ENDPOINTS = 20
DAYS = 28
SHAPES = 48
PER_SECOND = 0.02  # mean requests per second of a series: 400 per second in total
NOW = datetime(2031, 3, 31, tzinfo=UTC)
DAY = timedelta(days=1)
FLEET = f"{TENANTS:,} tenants × {ENDPOINTS} endpoints × {DAYS} days"


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    from django.db import connection

    from quotas.recommendations.calibrate import calibrate

    make_world()
    size = record()
    connection.ensure_connection()
    backend = psutil.Process(connection.connection.info.backend_pid)
    before, clock = backend.cpu_times(), time.process_time()
    found = calibrate(NOW, lambda doing, done, of: print(f"{doing} {done} of {of}", file=sys.stderr))
    own, after = time.process_time() - clock, backend.cpu_times()
    postgres = after.user + after.system - before.user - before.system
    return [
        BenchmarkRow(f"calibration of {FLEET}, with its reading", round(own + postgres, 1), "s", 300, 120),
        BenchmarkRow("of this, Postgres", round(postgres, 1), "s"),
        BenchmarkRow("calibration of the fleet, memory", round(peak_mib()), "MiB", 1_024, 512),
        BenchmarkRow("calibration of the fleet, packed seconds that were read", round(size / 2**20), "MB"),
        BenchmarkRow("calibration of the fleet, recommendations", len(found.proposed), ""),
    ]


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


def make_world(count: int = TENANTS) -> None:
    from quotas.errors import accepted
    from quotas.policies.apply import document_apply
    from quotas.policies.document import read_document
    from quotas.tenants import NewTenant, tenants_create

    names = [f"service:e{number}" for number in range(ENDPOINTS)]
    endpoints = "\n".join(f"  - {{name: '{name}', method: GET, path: /e{n}}}" for n, name in enumerate(names))
    limit = "{name: steady, algorithm: token_bucket, rate: 10, per: 1m, burst: 20}"
    policies = "\n".join(
        f"  - {{name: pro-{n}, tier: pro, endpoint: '{name}', limits: [{limit}]}}" for n, name in enumerate(names)
    )
    text = f"tiers: [{{name: pro}}]\nendpoints:\n{endpoints}\npolicies:\n{policies}\n"
    document_apply(document=accepted(read_document(text)), author="benchmark", reason="a fleet")
    tenants = [NewTenant(f"t{number}", "pro") for number in range(count)]
    tenants_create(tenants=tenants, author="benchmark", reason="a fleet")


def record() -> int:
    """Writes packed seconds and daily rollups; returns the size of the packed seconds in bytes."""
    from django.db import transaction

    from quotas.models import DrainState, Endpoint
    from quotas.models.usage import BEGINNING, GapRecord, UsageDay
    from quotas.models.usage_rates import PackedSeconds
    from quotas.usage.partitions import ensure_partitions, partition_of
    from tenants.models import Tenant
    from tenants.privileges import as_owner

    days = [NOW - DAYS * DAY + number * DAY for number in range(DAYS)]
    tenants, endpoints = (
        sorted(model._default_manager.values_list("number", flat=True)) for model in (Tenant, Endpoint)
    )
    packed = [list(shape(number, days)) for number in range(SHAPES)]
    size = 0
    with as_owner("default") as connection, transaction.atomic(), connection.cursor() as cursor:
        ensure_partitions(partition_of(model, day) for model in (PackedSeconds, UsageDay) for day in days)
        with cursor.copy("COPY quotas_seconds (tenant_number, endpoint_number, start, packed) FROM STDIN") as copy:
            for place, day in enumerate(days):
                for tenant in tenants:
                    for endpoint in endpoints:
                        data = packed[(7 * tenant + endpoint) % SHAPES][place]
                        size += len(data)
                        copy.write_row((tenant, endpoint, day, data))
        cursor.execute(
            "INSERT INTO quotas_usage_1d (start, tenant_number, endpoint_number, outcome, limit_number, count, cost)"
            " SELECT s, t, e, 'a', 0, 1000, 1000 FROM unnest(%s::timestamptz[]) s, unnest(%s::int[]) t,"
            " unnest(%s::int[]) e",
            [days, tenants, endpoints],
        )
        DrainState.objects.create(drained_at=NOW, run_id="benchmark")
        GapRecord.objects.create(start=BEGINNING, end=days[0], reason="Nothing was measured before.")
        cursor.execute("ANALYZE quotas_seconds")
    return size


def shape(number: int, days: list[datetime]) -> Iterator[bytes]:
    """Packed seconds of one kind and level of demand, one per day."""
    from quotas.observations.seconds import Seconds
    from quotas.simulation.synthetic_tenants import cron_burst, diurnal_weekly, growing, steady

    height, first = PER_SECOND * (0.4 + number / SHAPES), days[0].timestamp()
    kinds: list[Any] = [
        steady("steady", height),
        diurnal_weekly("wave", height / 5, height * 2.2),
        cron_burst("cron", height * 0.8, 20),
        growing("growth", height * 0.7, 1.02, first),
    ]
    tenant, draw = kinds[number % len(kinds)], np.random.default_rng(number)
    for day in days:
        start = int(day.timestamp())
        seconds, counts = tenant.counts(start, start + 86_400, 1, draw)
        one, none = np.ones(len(seconds), np.int64), np.zeros(len(seconds), np.int64)
        yield Seconds(seconds, one, counts, none, counts, none).pack()
