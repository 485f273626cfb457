"""Leases: what a leased check costs, how rarely it asks the store, and whether processes stay within a limit.

Costs are this process's own processor time; all contestants take turns, and results are medians of the ratios of each
round. Any degraded decision makes the results invalid.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median

import limits
import redis

from benchmarks.report import BenchmarkRow
from benchmarks.sdk import refuse_degraded
from headroom_edge import Limiter
from quotas.policies.spec import Limit
from tests.faults.lease_worker import ALLOWED, ASKED, Workers
from tests.headroom_edge.limiter.leased import usage
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, fcalls, limit, publish
from tests.valkeys import SpareValkey

ROUNDS = 15
CALLS = 20_000  # per contestant and round
PLENTY = 100_000_000
AMPLE_MS = 10_000.0
RATE_PER_S = 10_000
PACED_S = 5.0
KILLED_PROCESSES = 8
FAIR_PROCESSES = 4
RATE_SHARED = 800  # far less than they ask for, even where two cores have to do for all of them
KILLS = 20
FAIR_S = 10.0

Loop = Callable[[int], None]


def run() -> list[BenchmarkRow]:
    return [*measure_costs(), *measure_calls(), measure_killed(), *measure_fairness()]


@contextmanager
def store_with(*published: Limit) -> Iterator[tuple[SpareValkey, redis.Redis]]:
    with (
        tempfile.TemporaryDirectory(prefix="hr-bench-") as folder,
        SpareValkey(Path(folder) / "valkey") as server,
        server.client() as client,
    ):
        publish(client, configuration(*published))
        yield server, client


class NoOp:
    def check(
        self,
        *,
        tenant: str,
        endpoint: str,
        subject: dict[str, str] | None = None,
        cost: int | None = None,
        holder: str = "",
        rows: bool | None = None,
        budget_ms: float | None = None,
    ) -> None:
        return None


def measure_costs() -> list[BenchmarkRow]:
    window = limit("window", "fixed_window", "key", limit=PLENTY, window="1h")
    with store_with(window) as (server, _), Limiter.from_url(server.url, budget_ms=AMPLE_MS, leases=True) as limiter:
        took = take_turns(
            {
                "leased": loop_of(limiter.check),
                "no-op": loop_of(NoOp().check),
                "limits": limits_loop(),
                "allowance": allowance_loop(limiter),
            }
        )
        refuse_degraded(limiter.degraded)
    return [
        row("leased check against limits in memory, fixed window", ratio(took, "limits", "leased"), "×", 2.5, 3.5),
        row("leased check against a no-op of the same signature", ratio(took, "no-op", "leased"), "×", 0.15, 0.25),
        row("allowance.spend() against the same no-op", ratio(took, "no-op", "allowance"), "×"),
    ]


def loop_of(check: Callable[..., object]) -> Loop:
    def loop(count: int) -> None:
        for _ in range(count):
            check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": "k_81f", "ip": "203.0.113.9"})

    return loop


def limits_loop() -> Loop:
    strategy = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
    item = limits.parse(f"{PLENTY} per hour")

    def loop(count: int) -> None:
        for _ in range(count):
            strategy.hit(item, TENANT, ENDPOINT, "k_81f")

    return loop


def allowance_loop(limiter: Limiter) -> Loop:
    subject = {"key": "k_81f", "ip": "203.0.113.9"}
    spend = limiter.allowance(tenant=TENANT, endpoint=ENDPOINT, subject=subject).spend

    def loop(count: int) -> None:
        for _ in range(count):
            spend()

    return loop


def take_turns(contestants: dict[str, Loop]) -> dict[str, list[float]]:
    """The processor seconds of each round."""
    took: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, loop in contestants.items():
            start = time.thread_time()
            loop(CALLS)
            took[name].append(time.thread_time() - start)
    # The first round connects and finds the demand, so it does not count.
    return {name: rounds[1:] for name, rounds in took.items()}


def ratio(took: dict[str, list[float]], other: str, ours: str) -> float:
    return median(theirs / own for theirs, own in zip(took[other], took[ours], strict=True))


def measure_calls() -> list[BenchmarkRow]:
    """One key below its limit at a steady rate, from a process that has just started."""
    bucket = limit("bucket", "token_bucket", "key", rate=2 * RATE_PER_S, per="1s", burst=4 * RATE_PER_S)
    with store_with(bucket) as (server, client):
        client.config_resetstat()
        with Limiter.from_url(server.url, budget_ms=AMPLE_MS, leases=True) as limiter:
            asked = ask_steadily(limiter)
            refuse_degraded(limiter.degraded)
        calls, counted = fcalls(client), usage(client)["a"]
    return [
        row("store calls per decision at 10,000/s on one key", calls / asked, "", 0.1, 0.01, more=False),
        row("decisions that usage does not have after close", abs(asked - counted), "", 0, 0, more=False),
    ]


def ask_steadily(limiter: Limiter) -> int:
    start, asked = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < PACED_S:
        while asked < passed * RATE_PER_S:
            if not limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": "k"}).allowed:
                raise SystemExit("headroom: a request below the limit was denied, so the results are invalid.")
            asked += 1
        time.sleep(0.000_1)
    return asked


def measure_killed() -> BenchmarkRow:
    """Processes killed and restarted at random, on a bucket that they keep empty."""
    random = Random(1)
    with workers_on(KILLED_PROCESSES) as (workers, _):
        start, over = time.monotonic(), 0.0
        with workers.running():
            for _ in range(KILLS):
                time.sleep(random.uniform(0.3, 1.2))
                workers.kill(random.randrange(KILLED_PROCESSES))
                allowed = workers.tally.total(ALLOWED)
                over = max(over, allowed - RATE_SHARED - RATE_SHARED * (time.monotonic() - start))
    return row(f"over-admission, {KILLED_PROCESSES} processes killed at random", over, "", 0, 0, more=False)


def measure_fairness() -> list[BenchmarkRow]:
    """How far the process that got most is above the one that got least, on a limit that is too small for all."""
    with workers_on(FAIR_PROCESSES) as (workers, client):
        with workers.running():
            workers.wait()
            before = workers.tally.of(ALLOWED)
            time.sleep(FAIR_S)
            got = [now - then for now, then in zip(workers.tally.of(ALLOWED), before, strict=True)]
        asked, allowed, counted = workers.tally.total(ASKED), workers.tally.total(ALLOWED), usage(client)
    missing = abs(allowed - counted["a"]) + abs(asked - allowed - counted["d"])
    spread = 100 * (max(got) / max(1, min(got)) - 1)
    return [
        row(f"{FAIR_PROCESSES} equal processes over 10 s: most above least", spread, "%", 20, 10, more=False),
        row(f"requests that usage does not have after {FAIR_PROCESSES} closed", missing, "", 0, 0, more=False),
    ]


@contextmanager
def workers_on(count: int) -> Iterator[tuple[Workers, redis.Redis]]:
    bucket = limit("bucket", "token_bucket", rate=RATE_SHARED, per="1s", burst=RATE_SHARED)
    with store_with(bucket) as (server, client), tempfile.TemporaryDirectory(prefix="hr-bench-") as folder:
        yield Workers(server.url, Path(folder) / "tally", count), client


def row(
    name: str, value: float, unit: str, must: float | None = None, aim: float | None = None, *, more: bool = True
) -> BenchmarkRow:
    return BenchmarkRow(f"leases: {name}", value, unit, must, aim, more_is_better=more)
