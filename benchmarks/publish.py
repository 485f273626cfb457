"""Publishing with 100,000 tenants: a full republish, and the time from an edit to the first changed decision."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Any, NamedTuple

from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow
from config.data_folders import ROOT

TENANTS = 100_000
OWN_POLICIES = 200
EDITS = 100
PATIENCE_SECONDS = 60.0


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    from django.conf import settings

    from quotas.publishing import store

    make_world()
    client = store.connect(settings.REDIS_URL)
    store.prepare(client)
    measured = [*measure_whole(client)]
    with publisher():
        measured += measure_edits(client)
    return measured


def make_world() -> None:
    from quotas.endpoints import endpoint_create
    from quotas.policies.edit import policy_create
    from quotas.tenants import tier_create
    from tenants.models import Tenant, Tier

    said = {"author": "bench", "reason": "bench"}
    for name in ("free", "pro"):
        tier_create(name=name, **said)
    for number in range(20):
        endpoint_create(name=f"service:e{number}", **said)  # type: ignore[arg-type]
    for name in ("free", "pro"):
        policy_create(name=name, tier=name, limits=limits(100), **said)  # type: ignore[arg-type]
    tiers = list(Tier.objects.order_by("name"))
    names = (f"tenant-{number}" for number in range(TENANTS))
    rows = [Tenant(name=name, tier=tiers[number % 2]) for number, name in enumerate(names)]
    Tenant.objects.bulk_create(rows, batch_size=10_000)
    for number in range(OWN_POLICIES):
        name = f"tenant-{number}"
        policy_create(name=name, tenant=name, limits=limits(200), **said)  # type: ignore[arg-type]


def limits(size: int) -> list[dict[str, Any]]:
    return [
        {"name": "burst", "algorithm": "token_bucket", "rate": 1, "burst": size},
        {"name": "minute", "algorithm": "fixed_window", "limit": 10_000, "window": "1m"},
    ]


def measure_whole(client: Any) -> Iterator[BenchmarkRow]:
    from django.conf import settings

    from headroom_edge import keys
    from quotas.policies.compile import Compiler, Target
    from quotas.policies.configuration import configuration_load
    from quotas.publishing import store
    from quotas.publishing.publisher import Publisher

    configuration = configuration_load()
    target = Target(settings.HEADROOM_SHARDS, keys.shard_of, keys.shard_prefix)
    start = time.perf_counter()
    Compiler(target, store.now_us(client)).load(configuration)
    yield row("compile 100,000 tenants", time.perf_counter() - start, "s", 2, 1)
    Publisher(client, settings.HEADROOM_SHARDS).publish()
    client.flushall()
    start = time.perf_counter()
    Publisher(client, settings.HEADROOM_SHARDS).publish()
    yield row("full republish of 100,000 tenants after FLUSHALL", time.perf_counter() - start, "s", 10, 5)


class EditTimes(NamedTuple):
    whole: float  # seconds from the call of the service function
    published: float  # seconds from its commit


def measure_edits(client: Any) -> list[BenchmarkRow]:
    took = [edit_until_decided(client, number) for number in range(EDITS)]
    whole, published = [each.whole for each in took], [each.published for each in took]
    return [
        row("edit (its commit) to first changed decision, p50", median(published), "s", 0.2, 0.05),
        row("edit (its commit) to first changed decision, p99", quantiles(published, n=100)[-1], "s", 1.0, 0.2),
        row("edit (service function included) to first changed decision, p50", median(whole), "s", 0.2, 0.1),
        row(
            "edit (service function included) to first changed decision, p99", quantiles(whole, n=100)[-1], "s", 1, 0.4
        ),
    ]


def edit_until_decided(client: Any, number: int) -> EditTimes:
    """Edits a tier and a tenant alternately."""
    from quotas.policies.edit import policy_update

    policy, tenant = ("pro", f"tenant-{TENANTS - 1}") if number % 2 else (f"tenant-{number}", f"tenant-{number}")
    start = time.perf_counter()
    policy_update(name=policy, limits=limits(1_000 + number), author="bench", reason="bench")
    committed = time.perf_counter()
    while quota(client, tenant) != 1_000 + number:
        if time.perf_counter() - start > PATIENCE_SECONDS:
            raise SystemExit(f"the edit of {policy} was not published within {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.001)  # a busy loop would take the cores from what is measured
    now = time.perf_counter()
    return EditTimes(now - start, now - committed)


def quota(client: Any, tenant: str) -> int:
    from headroom_edge import keys

    reply = client.fcall("hr_peek", 1, keys.tenant_prefix(tenant), tenant, "service:e1", "1", "ALL")
    return next((int(limit[2]) for limit in reply[12:] if limit[0] == "burst"), -1)


@contextmanager
def publisher() -> Iterator[None]:
    from quotas.models import Heartbeat

    process = subprocess.Popen([sys.executable, "manage.py", "publisher"], cwd=ROOT)
    try:
        while not Heartbeat.objects.filter(name="publisher").exists():
            if process.poll() is not None:
                raise SystemExit("the publisher exited")
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def row(name: str, value: float, unit: str, must: float, aim: float) -> BenchmarkRow:
    return BenchmarkRow(name, round(value, 4), unit, must, aim)
