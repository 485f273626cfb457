"""1,000 tenants moved to another tier at once: who gets tighter, the dry run, the write and the publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow

TENANTS = 20_000
MOVED = 1_000
OWN_POLICIES = 100  # of those that move
OVERRIDES = 100
ENDPOINTS = 20
SAID: dict[str, Any] = {"author": "bench", "reason": "bench"}


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    from django.conf import settings

    from quotas.publishing import store
    from quotas.publishing.publisher import Publisher

    make_world()
    client = store.connect(settings.REDIS_URL)
    store.prepare(client)
    publisher = Publisher(client, settings.HEADROOM_SHARDS)
    publisher.publish()
    return list(measure_moves(publisher))


def make_world() -> None:
    from quotas.endpoints import endpoint_create
    from quotas.overrides import override_create
    from quotas.policies.edit import policy_create
    from quotas.tenants import NewTenant, tenants_create, tier_create

    for number in range(ENDPOINTS):
        endpoint_create(name=f"service:e{number}", **SAID)
    for name, size in (("free", 100), ("pro", 300)):
        tier_create(name=name, **SAID)
        policy_create(name=name, tier=name, limits=limits(size), **SAID)
        for number in range(ENDPOINTS // 2):
            policy_create(
                name=f"{name}-{number}", tier=name, endpoint=f"service:e{number}", limits=limits(size), **SAID
            )
    tenants_create(tenants=[NewTenant(f"tenant-{n}", "pro") for n in range(TENANTS)], **SAID)
    for number in range(OWN_POLICIES):
        name = f"tenant-{number}"
        policy_create(name=f"{name}-own", tenant=name, limits=limits(200), force=True, **SAID)
    for number in range(OWN_POLICIES, OWN_POLICIES + OVERRIDES):
        override_create(tenant=f"tenant-{number}", multiplier=(2, 1), **SAID)


def limits(size: int) -> list[dict[str, Any]]:
    return [
        {"name": "burst", "algorithm": "token_bucket", "rate": size, "burst": 2 * size},
        {"name": "minute", "algorithm": "fixed_window", "limit": 30 * size, "window": "1m"},
    ]


def measure_moves(publisher: Any) -> Iterator[BenchmarkRow]:
    from quotas.changes.commit import commit
    from quotas.tenants import tenants_move
    from quotas.tenants.moves import move_preview

    names = [f"tenant-{number}" for number in range(MOVED)]
    move = partial(tenants_move, names=names, tier="free", force=True, **SAID)
    looked = timed(lambda: move_preview(names=names, tier="free"))
    yield row("who gets tighter, of 1,000 tenants", looked, 5, 1)
    rehearsed = timed(lambda: commit(move, "dry_run"))
    yield row("dry run of their move", rehearsed, 5, 2)
    written = timed(lambda: commit(move, rehearsal=move))
    published = timed(publisher.publish)
    yield row("their move, judged and written", written, 8, 4)
    yield row("their move, published", published, 5, 2)
    yield row("dry run, write and publish together", rehearsed + written + published, 10, 6)


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def row(name: str, value: float, must: float, aim: float) -> BenchmarkRow:
    return BenchmarkRow(name, round(value, 3), "s", must, aim)
