"""Redis memory per subject for every algorithm, compared with the peers that have it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import limits
import redis
import throttled

from benchmarks.redis_time import publish_limits
from benchmarks.report import BenchmarkRow
from benchmarks.servers import flush, throw_away_valkey
from headroom_edge import keys
from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.lua_library import ensure_loaded
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit

SUBJECTS = 100_000
FEWER_SUBJECTS = 20_000  # where peers need many round trips each, or all hits must fall into one window
HITS_OF_A_LOG = 10
TENANT = "tenant-1"
WINDOW_SECONDS = 20  # of the sliding counter, which stores two windows once it has seen two

PARAMETERS: dict[str, dict[str, Any]] = {
    "token_bucket": {"rate": 100, "per": "1h", "burst": 100},
    "gcra": {"rate": 100, "per": "1h", "burst": 100},
    "leaky_bucket": {"rate": 100, "per": "1h", "queue": 100},
    "fixed_window": {"limit": 100, "window": "1h"},
    "sliding_counter": {"limit": 100, "window": f"{WINDOW_SECONDS}s"},
    "sliding_log": {"limit": 100, "window": "1h"},
    "concurrency": {"limit": 100, "hold": "1h"},
    "calendar_quota": {"limit": 100, "period": "day"},
}

Hit = Callable[[str], object]


def run() -> list[BenchmarkRow]:
    with throw_away_valkey() as client:
        ensure_loaded(client)
        # Deleted keys must be freed before memory is read, and Redis' latency histograms (90 KB each) do not count.
        client.config_set("lazyfree-lazy-user-del", "no")
        client.config_set("latency-tracking", "no")
        return [_row(client, name) for name in PARAMETERS]


def _row(client: redis.Redis, algorithm: str) -> BenchmarkRow:
    ours = _ours(client, algorithm)
    theirs = {name: _theirs(client, algorithm, hit) for name, hit in _peers(client, algorithm)}
    told = ", ".join(f"{name} {size:.0f} B" for name, size in {"ours": ours, **theirs}.items())
    name = f"Redis bytes per subject, {algorithm}: {told}"
    if not theirs:
        return BenchmarkRow(name, ours, "B")
    return BenchmarkRow(name, ours / min(theirs.values()), "×", must=1.0, aim=0.7)


def _hits(algorithm: str) -> int:
    return HITS_OF_A_LOG if algorithm == "sliding_log" else 1


def _subjects(algorithm: str) -> int:
    return FEWER_SUBJECTS if algorithm in ("sliding_log", "sliding_counter") else SUBJECTS


def _subject(number: int) -> str:
    return f"user-{number:06}"


def _ours(client: redis.Redis, algorithm: str) -> float:
    limit = Limit("a", ALGORITHMS[algorithm].parse(dict(PARAMETERS[algorithm])), Subject.parse("user"))
    publish_limits(client, (limit,), tenants=1, endpoints=2)
    prefix = keys.tenant_prefix(TENANT)
    client.fcall("hr_check", 1, prefix, TENANT, "svc:op-2", 1, "user", "warm-up")
    _hang_up(client)
    before = _used(client)
    for _ in _rounds(algorithm):
        _ask_all(client, algorithm, prefix)
    # Sampled arrivals are bounded and drained, so they are not part of a subject's state.
    client.delete(f"{prefix}:a")
    _hang_up(client)
    return (_used(client) - before) / _subjects(algorithm)


def _rounds(algorithm: str) -> Iterator[int]:
    """One round; two for the sliding counter, on both sides of a window boundary."""
    if algorithm != "sliding_counter":
        yield 0
        return
    for number in range(2):
        # Start early in a window, so that all hits fall into it.
        time.sleep(WINDOW_SECONDS - time.time() % WINDOW_SECONDS)
        yield number


def _ask_all(client: redis.Redis, algorithm: str, prefix: str) -> None:
    for start in range(0, _subjects(algorithm), 1_000):
        with client.pipeline(transaction=False) as pipe:
            for number in range(start, start + 1_000):
                for hit in range(_hits(algorithm)):
                    subject = ("user", _subject(number), "holder", f"h{hit}")
                    pipe.fcall("hr_check", 1, prefix, TENANT, "svc:op-2", 1, *subject)
            replies = pipe.execute()
        if any(reply[0] != 1 for reply in replies):
            raise SystemExit(f"headroom: {algorithm} denied a check, so the result is invalid.")


def _peers(client: redis.Redis, algorithm: str) -> Iterator[tuple[str, Hit]]:
    url = f"unix://{client.get_connection_kwargs()['path']}"
    strategies: dict[str, Any] = {
        "fixed_window": limits.strategies.FixedWindowRateLimiter,
        "sliding_counter": limits.strategies.SlidingWindowCounterRateLimiter,
        "sliding_log": limits.strategies.MovingWindowRateLimiter,
    }
    if algorithm in strategies:
        strategy = strategies[algorithm](limits.storage.storage_from_string(f"redis+{url}"))
        item = limits.RateLimitItemPerSecond(100, _seconds(algorithm))
        yield "limits", lambda subject: strategy.hit(item, subject)
    kinds = {
        "token_bucket": throttled.RateLimiterType.TOKEN_BUCKET,
        "gcra": throttled.RateLimiterType.GCRA,
        "leaky_bucket": throttled.RateLimiterType.LEAKING_BUCKET,
        "fixed_window": throttled.RateLimiterType.FIXED_WINDOW,
        "sliding_counter": throttled.RateLimiterType.SLIDING_WINDOW,
    }
    if algorithm in kinds:
        quota = throttled.per_duration(timedelta(seconds=_seconds(algorithm)), 100, burst=100)
        throttle = throttled.Throttled(
            using=kinds[algorithm].value, quota=quota, store=throttled.RedisStore(server=url)
        )
        yield "throttled-py", throttle.limit


def _seconds(algorithm: str) -> int:
    return WINDOW_SECONDS if algorithm == "sliding_counter" else 3_600


def _theirs(client: redis.Redis, algorithm: str, hit: Hit) -> float:
    flush(client)
    hit("warm-up")
    before = _used(client)
    for _ in _rounds(algorithm):
        for number in range(_subjects(algorithm)):
            for _ in range(_hits(algorithm)):
                hit(_subject(number))
    return (_used(client) - before) / _subjects(algorithm)


def _hang_up(client: redis.Redis) -> None:
    """Closes all connections, so that their buffers do not count as memory."""
    client.connection_pool.disconnect()
    client.client_kill_filter(_type="normal", skipme=True)


def _used(client: redis.Redis) -> int:
    info: Any = client.info("memory")
    return int(info["used_memory"]) - int(info["used_memory_startup"])
