"""The SDK compared with other libraries: four limits in one check against four hits of a peer.

All run on one Valkey and take turns, so that a busy moment affects everyone. Results are ratios of medians; nothing is
ever denied.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median

import limits
import limits.aio
import throttled

from benchmarks.report import BenchmarkRow
from headroom_edge import AsyncLimiter, Limiter
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish
from tests.valkeys import SpareValkey

ROUNDS = 9
CHECKS = 400  # per contestant and round
CONCURRENT = 64
SUBJECTS = [f"key-{number}" for number in range(1_000)]
PLENTY = 1_000_000
AMPLE_MS = 10_000.0

Ask = Callable[[str], object]
AsyncAsk = Callable[[str], Awaitable[object]]


def run() -> list[BenchmarkRow]:
    """Results are how many times faster the SDK is."""
    with four_limits() as url:
        return [*measure_threads(url), *asyncio.run(measure_loop(url))]


@contextmanager
def four_limits() -> Iterator[str]:
    """A server with four limits on one subject, with algorithms that the peers also have."""
    with tempfile.TemporaryDirectory(prefix="hr-bench-") as folder, SpareValkey(Path(folder) / "valkey") as server:
        with server.client() as client:
            publish(
                client,
                configuration(
                    limit("second", "sliding_counter", "key", limit=PLENTY, window="1s"),
                    limit("minute", "sliding_counter", "key", limit=PLENTY, window="1m"),
                    limit("hour", "token_bucket", "key", rate=PLENTY, per="1h", burst=PLENTY),
                    limit("day", "token_bucket", "key", rate=PLENTY, per="1d", burst=PLENTY),
                ),
            )
        yield server.url


def measure_threads(url: str) -> list[BenchmarkRow]:
    with Limiter.from_url(url, budget_ms=AMPLE_MS) as limiter:
        took = take_turns(
            {
                "ours": lambda key: limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": key}),
                "limits": limits_four_times(url),
                "throttled-py": throttled_four_times(url),
            }
        )
        refuse_degraded(limiter.degraded)
    return [
        row("one thread, against limits doing 4 hits", took["limits"] / took["ours"], must=2.5, aim=4),
        row("one thread, against throttled-py doing 4", took["throttled-py"] / took["ours"], must=2.5, aim=4),
    ]


def limits_four_times(url: str) -> Ask:
    strategy = limits.strategies.SlidingWindowCounterRateLimiter(limits.storage.storage_from_string(url))
    items = rate_limit_items()

    def hit(key: str) -> None:
        for item in items:
            strategy.hit(item, key)

    return hit


def throttled_four_times(url: str) -> Ask:
    store = throttled.RedisStore(server=url)
    using = throttled.RateLimiterType.TOKEN_BUCKET.value
    quotas = [
        per(PLENTY, burst=PLENTY)
        for per in (throttled.per_sec, throttled.per_min, throttled.per_hour, throttled.per_day)
    ]
    throttles = [throttled.Throttled(using=using, quota=quota, store=store) for quota in quotas]

    def hit(key: str) -> None:
        for number, throttle in enumerate(throttles):
            throttle.limit(f"{number}:{key}")

    return hit


def rate_limit_items() -> list[limits.RateLimitItem]:
    return [limits.parse(f"{PLENTY} per {window}") for window in ("second", "minute", "hour", "day")]


def take_turns(contestants: dict[str, Ask]) -> dict[str, float]:
    """The median seconds that one call takes."""
    random = Random(1)
    took: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        keys = random.choices(SUBJECTS, k=CHECKS)
        for name, ask in contestants.items():
            start = time.perf_counter()
            for key in keys:
                ask(key)
            took[name].append((time.perf_counter() - start) / CHECKS)
    # The first round opens connections, loads scripts and fills caches, so it does not count.
    return {name: median(rounds[1:]) for name, rounds in took.items()}


async def measure_loop(url: str) -> list[BenchmarkRow]:
    strategy = limits.aio.strategies.SlidingWindowCounterRateLimiter(
        limits.storage.storage_from_string(f"async+{url}", implementation="redispy")
    )
    items = rate_limit_items()

    async def hit(key: str) -> None:
        for item in items:
            await strategy.hit(item, key)

    async with AsyncLimiter.from_url(url, budget_ms=AMPLE_MS) as limiter:

        async def check(key: str) -> None:
            await limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": key})

        took = await take_turns_at_once({"ours": check, "limits": hit})
        refuse_degraded(limiter.degraded)
    return [
        row(
            f"{CONCURRENT} at once on a loop, against limits.aio doing 4 hits",
            took["limits"] / took["ours"],
            must=6,
            aim=10,
        ),
    ]


async def take_turns_at_once(contestants: dict[str, AsyncAsk]) -> dict[str, float]:
    """The median seconds per call while CONCURRENT callers each make sequential calls."""
    random = Random(2)
    took: dict[str, list[float]] = {name: [] for name in contestants}
    each = max(1, 2 * CHECKS // CONCURRENT)

    async def call(ask: AsyncAsk, keys: list[str]) -> None:
        for key in keys:
            await ask(key)

    for _ in range(ROUNDS):
        keys = [random.choices(SUBJECTS, k=each) for _ in range(CONCURRENT)]
        for name, ask in contestants.items():
            start = time.perf_counter()
            await asyncio.gather(*(call(ask, own) for own in keys))
            took[name].append((time.perf_counter() - start) / (each * CONCURRENT))
    return {name: median(rounds[1:]) for name, rounds in took.items()}


def row(name: str, ratio: float, must: float, aim: float) -> BenchmarkRow:
    kind = "async" if "loop" in name else "sync"
    return BenchmarkRow(f"{kind} SDK, 4 limits in one check: {name}", ratio, "×", must, aim, more_is_better=True)


def refuse_degraded(count: int) -> None:
    if count:
        raise SystemExit(f"headroom: {count} checks were decided without Redis, so the results are invalid.")
