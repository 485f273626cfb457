"""Cluster and Sentinel: what routing costs a client, global limits of many processes, and how soon a failover is over.

Costs are this process's own processor time; the contestants take turns. Any degraded decision makes the costs invalid.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import redis

from benchmarks.global_worker import ALLOWED, ASKED, GlobalWorkers
from benchmarks.report import BenchmarkRow
from benchmarks.sdk import refuse_degraded
from headroom_edge import Limiter, keys
from quotas.policies.spec import EVERYWHERE, Configuration, Limit, Policy
from tests.clusters import SpareCluster, SpareSentinels
from tests.headroom_edge.limiter.world import ENDPOINT, configuration, fcalls, limit, many_tenants, publish
from tests.valkeys import SpareValkey

ROUNDS = 15
CALLS = 2_000  # per contestant and round
TENANTS = [f"t{number}" for number in range(200)]
PLENTY = 1_000_000_000
AMPLE_MS = 10_000.0
RATE = 10_000
PROCESSES = 8
OVERLOAD_S = 10.0
FAILOVER_MS = 100.0  # a busy machine must not look like a dead server
FAILOVERS = 5
WAIT_S = 60.0
OWN = limit("own", "token_bucket", rate=PLENTY // 1_000, per="1s", burst=PLENTY // 1_000)


def run() -> list[BenchmarkRow]:
    return [*measure_routing(), *measure_global(), *measure_failovers()]


def row(
    name: str, value: float, unit: str, must: float | None = None, aim: float | None = None, *, more: bool = False
) -> BenchmarkRow:
    return BenchmarkRow(f"cluster: {name}", value, unit, must, aim, more_is_better=more)


@contextmanager
def started() -> Iterator[SpareCluster]:
    with tempfile.TemporaryDirectory(prefix="hr-bench-") as folder, SpareCluster(Path(folder)) as cluster:
        yield cluster


def measure_routing() -> list[BenchmarkRow]:
    """Checks per second of the client's processor time, of tenants on all three primaries."""
    with (
        started() as cluster,
        tempfile.TemporaryDirectory(prefix="hr-bench-") as folder,
        SpareValkey(Path(folder) / "single") as single,
    ):
        whole = many_tenants(configuration(OWN), len(TENANTS))
        with cluster.client() as many, single.client() as one:
            publish(many, whole)
            publish(one, whole)
        with (
            Limiter.from_url(cluster.url, budget_ms=AMPLE_MS) as on_cluster,
            Limiter.from_url(single.url, budget_ms=AMPLE_MS) as on_one,
        ):
            took = take_turns({"cluster": asking(on_cluster), "one": asking(on_one)})
            refuse_degraded(on_cluster.degraded + on_one.degraded)
    ratio = median(one / many for one, many in zip(took["one"], took["cluster"], strict=True))
    return [row("SDK checks per processor second, 3 primaries against one server", ratio, "×", 0.85, 1.0, more=True)]


def asking(limiter: Limiter) -> Callable[[], None]:
    def ask() -> None:
        for number in range(CALLS):
            limiter.check(tenant=TENANTS[number % len(TENANTS)], endpoint=ENDPOINT)

    return ask


def take_turns(contestants: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, ask in contestants.items():
            start = time.process_time()
            ask()
            took[name].append(time.process_time() - start)
    # The first round connects, so it does not count.
    return {name: rounds[1:] for name, rounds in took.items()}


def with_global(*limits: Limit) -> Configuration:
    whole = many_tenants(configuration(OWN), len(TENANTS))
    numbers = {name: number for number, name in enumerate((OWN.name, *(each.name for each in limits)), 1)}
    return replace(whole, policies=(*whole.policies, Policy("global", EVERYWHERE, limits)), limit_numbers=numbers)


def measure_global() -> list[BenchmarkRow]:
    """Processes that ask for more than a global limit allows. Their tenants' limits are leased, and ample."""
    total = limit("total", "token_bucket", rate=RATE, per="1s", burst=RATE)
    with started() as cluster, tempfile.TemporaryDirectory(prefix="hr-bench-") as folder:
        with cluster.client() as client:
            publish(client, with_global(total))
        home = cluster.owner_of(keys.ALL)
        # On other servers than the home, so that the calls to the home can be told apart.
        tenants = [name for name in TENANTS if cluster.owner_of(keys.tenant_prefix(name)) is not home][:PROCESSES]
        workers = GlobalWorkers(cluster.url, Path(folder) / "tally", PROCESSES, tenants=tenants)
        with home.client() as client, workers.running():
            workers.wait()
            held = level(client)
            client.config_resetstat()
            asked, allowed, start = workers.tally.total(ASKED), workers.tally.total(ALLOWED), time.monotonic()
            over = watch(workers, start, allowed)
            seconds = time.monotonic() - start
            asked = workers.tally.total(ASKED) - asked
            allowed = workers.tally.total(ALLOWED) - allowed
            calls = fcalls(client)
    # At the start the bucket may still hold what it saved while the workers started.
    exact = min(asked, RATE * seconds + held)
    words = f"global limit of {RATE:,}/s, {PROCESSES} processes"
    return [
        row(f"{words}: offered", asked / seconds, "/s"),
        row(f"{words}: share of exact", allowed / exact, "×", 0.95, 0.99, more=True),
        row(f"{words}: extra calls a check", calls / asked, "", 0.2, 0.05),
        row(f"{words}: above rate × t + burst", max(0.0, over), "", 0, 0),
    ]


def level(home: redis.Redis) -> int:
    """What is left of the global limit."""
    reply: Any = home.fcall("hr_peek", 1, keys.ALL, keys.EVERYONE, ENDPOINT, "1")
    return int(reply[4])


def watch(workers: GlobalWorkers, start: float, before: int) -> float:
    """The most that was ever admitted above the bound."""
    over = float("-inf")
    while (passed := time.monotonic() - start) < OVERLOAD_S:
        over = max(over, workers.tally.total(ALLOWED) - before - RATE - RATE * passed)
        time.sleep(0.05)
    return over


def measure_failovers() -> list[BenchmarkRow]:
    behind_sentinels = [sentinel_failover() for _ in range(FAILOVERS)]
    in_cluster = [cluster_failover() for _ in range(FAILOVERS)]
    degraded = sum(others for _, others in in_cluster)
    return [
        row("right decisions after a Sentinel promotion, median", median(behind_sentinels), "s", 1.0, 0.5),
        row("right decisions after a Sentinel promotion, worst", max(behind_sentinels), "s", 1.0, 0.5),
        row("right decisions after a cluster promotion, median", median(s for s, _ in in_cluster), "s", 1.0, 0.5),
        row("right decisions after a cluster promotion, worst", max(s for s, _ in in_cluster), "s", 1.0, 0.5),
        row("degraded decisions of other primaries' tenants while one is dead", degraded, "", 0, 0),
    ]


def sentinel_failover() -> float:
    with tempfile.TemporaryDirectory(prefix="hr-bench-") as folder, SpareSentinels(Path(folder)) as watched:
        with watched.primary.client() as client:
            publish(client, configuration(OWN))
            client.wait(1, 60_000)
        with Limiter.from_url(watched.url, budget_ms=FAILOVER_MS) as limiter:
            limiter.ready(10_000)
            watched.primary.kill()
            promoted = wait_for(watched.is_promoted, lambda: ask_one(limiter, "acme"))
            return wait_for(lambda: not ask_one(limiter, "acme")) - promoted


def cluster_failover() -> tuple[float, int]:
    """Seconds, and degraded decisions of tenants on the other primaries."""
    with started() as cluster:
        with cluster.client() as client:
            publish(client, many_tenants(configuration(OWN), len(TENANTS)))
            client.wait(1, 60_000, target_nodes="primaries")
        victim = cluster.primaries()[0]
        (heir,) = cluster.replicas_of(victim)
        mine = next(name for name in TENANTS if cluster.owner_of(keys.tenant_prefix(name)) is victim)
        others = [name for name in TENANTS if cluster.owner_of(keys.tenant_prefix(name)) is not victim][:20]
        with Limiter.from_url(cluster.url, budget_ms=FAILOVER_MS) as limiter, heir.client() as client:
            limiter.ready(10_000)
            degraded = 0

            def ask() -> None:
                nonlocal degraded
                ask_one(limiter, mine)
                degraded += sum(ask_one(limiter, name) for name in others)

            victim.kill()
            promoted = wait_for(lambda: client.info("replication")["role"] == "master", ask)
            seconds = wait_for(lambda: not ask_one(limiter, mine), ask) - promoted
            return seconds, degraded


def ask_one(limiter: Limiter, tenant: str) -> bool:
    """Whether the decision was made without the store."""
    return limiter.check(tenant=tenant, endpoint=ENDPOINT).degraded


def wait_for(is_so: Callable[[], bool], meanwhile: Callable[[], object] = lambda: None) -> float:
    """The moment from which on it is so."""
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit("headroom: the failover did not end within a minute.")
        meanwhile()
        time.sleep(0.005)
    return time.monotonic()
