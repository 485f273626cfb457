"""Python libraries that count in the process, and the SDK with leases, which spends blocks that Redis has granted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import limits
import throttled

from benchmarks.contestants.libraries import AMPLE_MS, PER, PLENTY, WINDOWS
from benchmarks.contestants.servers import ENDPOINTS, SERVER_CORE, TENANT, Store, on_core
from benchmarks.contestants.turns import ROUNDS, Comparison, Contestant, Turn, take_turns
from headroom_edge import Limiter

CALLS = 20_000  # per turn
KEY = "k_81f"
LACKS = "sharing a limit between processes; what it does not do on Redis"
LACKS_LEASED = "edits at once: they arrive up to 100 ms later"

Ask = Callable[[], bool]  # of the busy key: whether it is allowed


def compare(store: Store) -> Comparison:
    before = store.allowed()
    with on_core(SERVER_CORE), Limiter.from_url(store.url, budget_ms=AMPLE_MS, fail="closed", leases=True) as limiter:
        compared = take_turns(
            "Python in memory, one thread, one busy key",
            [
                Contestant(f"limits {limits.__version__}, fixed window", turns(hits_of_limits), LACKS),
                Contestant(f"throttled-py {throttled.__version__}, token bucket", turns(hits_of_throttled), LACKS),
                Contestant("Headroom, SDK with leases", turns(lambda number: checks(limiter, number)), LACKS_LEASED),
                Contestant(
                    "Headroom, `allowance.spend()`", turns(lambda number: spends(limiter, number)), LACKS_LEASED
                ),
            ],
        )
        if limiter.degraded:
            raise SystemExit("headroom: checks were decided without Redis, so the results are invalid.")
    # Closed, so all blocks are settled: usage is exact.
    asked, counted = (ROUNDS + 1) * 4 * CALLS, store.allowed() - before
    if counted != asked:
        raise SystemExit(f"headroom: {counted} requests were counted instead of {asked}, so the results are invalid.")
    return compared


def turns(asks: Callable[[int], Sequence[Ask]]) -> dict[int, Turn]:
    return {number: turn(asks(number)) for number in (1, 4)}


def turn(asks: Sequence[Ask]) -> Turn:
    """`asks`: the calls that a request takes, one after the other."""

    def measure() -> float:
        denied, start = 0, time.process_time()
        for ask in asks:
            for _ in range(CALLS):
                if not ask():
                    denied += 1
        took = time.process_time() - start
        if denied:
            raise SystemExit(f"headroom: {denied} of {CALLS} were denied, so the results are invalid.")
        return CALLS / took

    return measure


def hits_of_limits(number: int) -> list[Ask]:
    strategy = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())

    def ask(item: limits.RateLimitItem) -> Ask:
        return lambda: strategy.hit(item, TENANT, ENDPOINTS[1], KEY)

    return [ask(limits.parse(f"{PLENTY} per {window}")) for window in WINDOWS[:number]]


def hits_of_throttled(number: int) -> list[Ask]:
    def ask(throttle: throttled.Throttled) -> Ask:
        return lambda: not throttle.limit(KEY).limited

    return [
        ask(throttled.Throttled(using="token_bucket", quota=per(PLENTY, burst=PLENTY), store=throttled.MemoryStore()))
        for per in PER[:number]
    ]


def checks(limiter: Limiter, number: int) -> list[Ask]:
    endpoint = ENDPOINTS[number]
    return [lambda: limiter.check(tenant=TENANT, endpoint=endpoint, subject={"key": KEY}).allowed]


def spends(limiter: Limiter, number: int) -> list[Ask]:
    return [limiter.allowance(tenant=TENANT, endpoint=ENDPOINTS[number], subject={"key": KEY}).spend]
