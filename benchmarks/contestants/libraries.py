"""Python libraries on Redis. Their processor time is that of the process that asks."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import limits
import throttled

from benchmarks.contestants.servers import ENDPOINTS, SERVER_CORE, TENANT, Store, on_core
from benchmarks.contestants.turns import Comparison, Contestant, Turn, take_turns
from headroom_edge import Limiter

CHECKS = 600  # per turn
SUBJECTS = [f"key-{number}" for number in range(1_000)]
PLENTY = 10_000_000
AMPLE_MS = 10_000.0
WINDOWS = ("second", "minute", "hour", "day")
PER = (throttled.per_sec, throttled.per_min, throttled.per_hour, throttled.per_day)
LACKS = (
    "usage per tenant; several limits in one call: four are four calls, and what the first charged stays charged if "
    "a later one denies; limits outside of the code; headers; failure modes"
)

Ask = Callable[[str], bool]  # whether a subject is allowed


def compare(store: Store) -> Comparison:
    storage, buckets = limits.storage.storage_from_string(store.url), throttled.RedisStore(server=store.url)
    with on_core(SERVER_CORE), Limiter.from_url(store.url, budget_ms=AMPLE_MS, fail="closed") as limiter:
        compared = take_turns(
            "Python library on Redis, one thread",
            [
                limits_contestant("fixed window", limits.strategies.FixedWindowRateLimiter(storage)),
                limits_contestant("sliding window counter", limits.strategies.SlidingWindowCounterRateLimiter(storage)),
                throttled_contestant("token bucket", buckets),
                Contestant("Headroom, SDK", {number: turn(sdk(limiter, number)) for number in (1, 4)}),
            ],
        )
        if limiter.degraded:
            raise SystemExit("headroom: checks were decided without Redis, so the results are invalid.")
        return compared


def limits_contestant(algorithm: str, strategy: limits.strategies.RateLimiter) -> Contestant:
    turns = {number: turn(limits_hits(strategy, number)) for number in (1, 4)}
    return Contestant(f"limits {limits.__version__}, {algorithm}", turns, LACKS)


def throttled_contestant(algorithm: str, store: throttled.BaseStore) -> Contestant:
    using = algorithm.replace(" ", "_")
    turns = {number: turn(throttled_hits(using, store, number)) for number in (1, 4)}
    return Contestant(f"throttled-py {throttled.__version__}, {algorithm}", turns, LACKS)


def limits_hits(strategy: limits.strategies.RateLimiter, number: int) -> Ask:
    items = [limits.parse(f"{PLENTY} per {window}") for window in WINDOWS[:number]]
    return lambda key: all(strategy.hit(item, key) for item in items)


def throttled_hits(using: str, store: throttled.BaseStore, number: int) -> Ask:
    throttles = [
        throttled.Throttled(using=using, quota=per(PLENTY, burst=PLENTY), store=store)
        for place, per in enumerate(PER[:number])
    ]
    return lambda key: not any(throttle.limit(f"{place}:{key}").limited for place, throttle in enumerate(throttles))


def sdk(limiter: Limiter, number: int) -> Ask:
    endpoint = ENDPOINTS[number]
    return lambda key: limiter.check(tenant=TENANT, endpoint=endpoint, subject={"key": key}).allowed


def turn(ask: Ask, checks: int = CHECKS) -> Turn:
    random = Random(1)

    def measure() -> float:
        subjects = random.choices(SUBJECTS, k=checks)
        start = time.process_time()
        allowed = sum(ask(subject) for subject in subjects)
        took = time.process_time() - start
        if allowed != checks:
            raise SystemExit(f"headroom: {checks - allowed} of {checks} were denied, so the results are invalid.")
        return checks / took

    return measure
