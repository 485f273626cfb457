"""What an installation needs per tenant, API key, edit and check: the figures in docs/operations.md.

Processor time is measured, not elapsed time, so that other work on the machine matters little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.isolated_process import run_isolated
from benchmarks.publish import limits
from benchmarks.report import BenchmarkRow

TENANTS = 50_000
OWN_POLICIES = 30
API_KEYS = 50_000
EDITS = 50
CHECKS = 20_000
SUBJECTS = 1_000
SAID: dict[str, Any] = {"author": "bench", "reason": "bench"}


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    from django.conf import settings

    from quotas.publishing import store
    from quotas.publishing.publisher import Publisher

    client = store.connect(settings.REDIS_URL)
    store.prepare(client)
    client.config_set("latency-tracking", "no")  # 90 KB for each command, once
    make_endpoints()
    publisher = Publisher(client, settings.HEADROOM_SHARDS)
    publisher.publish()
    return [*measure_edits(), *measure_memory(client, publisher), *measure_checks(client, settings.REDIS_URL)]


def make_endpoints() -> None:
    from quotas.endpoints import endpoint_create
    from quotas.policies.edit import policy_create
    from quotas.tenants import tier_create

    tier_create(name="free", **SAID)
    for number in range(20):
        endpoint_create(name=f"service:e{number}", **SAID)
    policy_create(name="free", tier="free", limits=limits(100), **SAID)


def measure_memory(client: Any, publisher: Any) -> Iterator[BenchmarkRow]:
    from quotas.policies.edit import policy_create
    from tenants.models import ApiKey, Tenant, Tier

    def grown(name: str, count: int, before: int) -> BenchmarkRow:
        publisher.forget()
        publisher.api_keys._is_loaded = False
        publisher.publish()
        return BenchmarkRow(name, round((memory(client) - before) / count), "B")

    tier = Tier.objects.get(name="free")
    before, disk = memory(client), database_size()
    Tenant.objects.bulk_create(Tenant(name=f"tenant-{number}", tier=tier) for number in range(TENANTS))
    yield grown("Redis, per tenant on its tier's plan", TENANTS, before)
    yield BenchmarkRow("PostgreSQL, per tenant", round((database_size() - disk) / TENANTS), "B")
    before = memory(client)
    for number in range(OWN_POLICIES):
        policy_create(name=f"tenant-{number}", tenant=f"tenant-{number}", limits=limits(2_000 + number), **SAID)
    yield grown("Redis, per tenant with a policy of its own (2 limits), in addition", OWN_POLICIES, before)
    before = memory(client)
    owner = Tenant.objects.get(name="tenant-0")
    ApiKey.objects.bulk_create(
        ApiKey(tenant=owner, key_id=f"{number:016x}", secret_hash=f"{number:064x}", scopes=["check"])
        for number in range(API_KEYS)
    )
    yield grown("Redis, per API key", API_KEYS, before)


def measure_edits() -> Iterator[BenchmarkRow]:
    from quotas.policies.edit import policy_update

    before = database_size()
    for number in range(EDITS):
        policy_update(name="free", limits=limits(1_000 + number), **SAID)
    yield BenchmarkRow("PostgreSQL, per edit with its history", round((database_size() - before) / EDITS), "B")


def measure_checks(client: Any, url: str) -> Iterator[BenchmarkRow]:
    from headroom_edge import Limiter

    with Limiter.from_url(url, budget_ms=60_000) as limiter:
        for number in range(SUBJECTS):
            ask(limiter, number)
        server, own = processor_seconds(client), time.process_time()
        for number in range(CHECKS):
            ask(limiter, number % SUBJECTS)
        own, server = time.process_time() - own, processor_seconds(client) - server
    yield BenchmarkRow("Redis, processor time per check of 2 limits", round(server / CHECKS * 1e6, 1), "µs")
    yield BenchmarkRow("Python SDK, processor time per check of 2 limits", round(own / CHECKS * 1e6, 1), "µs")


def ask(limiter: Any, number: int) -> None:
    limiter.check(tenant=f"tenant-{TENANTS - 1}", endpoint="service:e1", subject={"key": f"key-{number}"})


def memory(client: Any) -> int:
    return int(client.info("memory")["used_memory"])


def processor_seconds(client: Any) -> float:
    found = client.info("cpu")
    return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])


def database_size() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'")
        return int(cursor.fetchone()[0])
