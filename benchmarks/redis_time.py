"""Redis time of a check, as a multiple of the least that a rate limiter can do in Redis.

The baseline is a minimal, hard-coded GCRA function: TIME, GET, SET PX. Both run on one server in alternating turns of
a few calls, because the speed of a shared machine varies.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import quantiles
from typing import Any

import redis

from benchmarks.report import BenchmarkRow
from benchmarks.servers import flush, throw_away_valkey
from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.lua_library import ensure_loaded
from headroom_edge.plan.subject import Subject
from quotas.policies.compile import Compiler, Target
from quotas.policies.spec import Configuration, Endpoint, Limit, Policy, Tenant, Tier
from quotas.publishing.shards import Shards

TURNS = 600
# So few that a turn mostly ends before a busy machine gives the core to another process.
CALLS_A_TURN = 25
CALLS_TO_FILL = 300  # the first calls, which make the records
NOW_US = 1_800_000_000_000_000

BARE = """#!lua name=bare
redis.register_function('bare', function(keys)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local tat = math.max(tonumber(redis.call('GET', keys[1]) or 0), now) + 1000
  if tat - now > 1000000 then return {0, 0, tat - now - 1000000} end
  redis.call('SET', keys[1], string.format('%.0f', tat), 'PX', 1000)
  return {1, math.floor((1000000 - (tat - now)) / 1000), 0}
end)
"""

Call = Callable[[Any, int], None]


def run() -> list[BenchmarkRow]:
    with throw_away_valkey() as client:
        client.function_load(BARE)
        ensure_loaded(client)
        return [*_by_limits(client), *_by_size(client), *_by_sharing(client)]


def _bucket(size: int) -> Algorithm:
    return TokenBucket(1_000, SECOND_US, size)


def _one() -> tuple[Limit, ...]:
    return (Limit("second", _bucket(1_000), Subject()),)


def _four_on_one() -> tuple[Limit, ...]:
    window = FixedWindow(1_000_000, 60 * SECOND_US)
    sizes = enumerate((1_000, 2_000, 4_000), start=1)
    return (*(Limit(f"bucket-{n}", _bucket(size), Subject()) for n, size in sizes), Limit("minute", window, Subject()))


def _four_on_four() -> tuple[Limit, ...]:
    subjects = ("tenant", "ip", "key", "user")
    return tuple(Limit(f"per-{text}", _bucket(1_000), Subject.parse(text)) for text in subjects)


def _by_limits(client: redis.Redis) -> list[BenchmarkRow]:
    cases = [
        ("1 limit", _one(), 2.0, 1.8),
        ("4 limits on one subject", _four_on_one(), 2.2, 1.9),
        ("4 limits on four subjects", _four_on_four(), 4.2, 3.2),
    ]
    found = []
    for name, limits, must, aim in cases:
        publish_limits(client, limits, tenants=10_000, endpoints=10)
        has_subjects = any(limit.subject.alternatives for limit in limits)
        ratio, micros = _ratio(client, tenants=10_000, endpoints=10, subjects=has_subjects)
        text = f"Redis time of a check against a bare GCRA: {name} ({micros:.1f} µs)"
        found.append(BenchmarkRow(text, ratio, "×", must, aim))
    return found


def _by_size(client: redis.Redis) -> list[BenchmarkRow]:
    """How the ratio changes with more tenants or endpoints; the baseline has the same number of keys."""
    found = []
    for name, small, large in (
        ("tenants 1,000 → 100,000", (1_000, 10), (100_000, 10)),
        ("endpoints 10 → 1,000", (10_000, 10), (10_000, 1_000)),
    ):
        ratios = []
        for tenants, endpoints in (small, large):
            publish_limits(client, _one(), tenants, endpoints)
            ratios.append(_ratio(client, tenants, endpoints)[0])
        found.append(BenchmarkRow(f"growth of that ratio, {name}", ratios[1] / ratios[0], "×", must=1.3, aim=1.1))
    return found


def _by_sharing(client: redis.Redis) -> list[BenchmarkRow]:
    """A member of a pool against the same two records with a bucket each, on one server in alternating turns."""
    found = []
    for name, assured, weight in (("of its own share", 1_000, 1), ("by borrowing", 0, 1)):
        plain = (Limit("org", _bucket(2_000), Subject()), Limit("team", _bucket(1_000), Subject.parse("team")))
        member = Borrowing(assured, SECOND_US, assured, 2_000_000, 2_000_000, 0, "org", weight)
        shared = (
            Limit("org", Pool(1_000_000, SECOND_US, 1_000_000, 1_000), Subject()),
            Limit("team", member, Subject.parse("team")),
        )
        publish(client, [("svc:plain", plain), ("svc:shared", shared)], tenants=1_000)
        chance, mine, theirs = random.Random(1), list[float](), list[float]()
        for turn in range(TURNS + 50):
            asked = [chance.randint(1, 1_000) for _ in range(CALLS_A_TURN)]
            times = [_turn(client, _member_of(endpoint), asked) for endpoint in ("svc:shared", "svc:plain")]
            if turn >= 50:  # the first turns make the records
                mine.append(times[0])
                theirs.append(times[1])
        shared_us, plain_us = quantiles(mine, n=4)[0], quantiles(theirs, n=4)[0]
        text = f"Redis time of a member of a pool, {name}, against two buckets ({shared_us:.1f} µs)"
        found.append(BenchmarkRow(text, shared_us / plain_us, "×", must=1.5, aim=1.25))
    return found


def _member_of(endpoint: str) -> Call:
    def check(pipe: Any, tenant: int) -> None:
        name = f"tenant-{tenant}"
        pipe.execute_command("FCALL", "hr_check", 1, keys.tenant_prefix(name), name, endpoint, 1, "team", f"t{tenant}")

    return check


def publish_limits(client: redis.Redis, limits: tuple[Limit, ...], tenants: int, endpoints: int) -> None:
    """Publishes the limits on all endpoints; half of the endpoints also have a limit of their own."""
    own = (Limit("own", _bucket(5_000), Subject()),)
    policies = [(f"svc:op-{number}", own if number % 2 else ()) for number in range(1, endpoints + 1)]
    publish(client, [("*", limits), *policies], tenants)


def publish(client: redis.Redis, limits: list[tuple[str, tuple[Limit, ...]]], tenants: int) -> None:
    """`limits`: those of each endpoint."""
    flush(client)
    names = {name: number for number, (name, _) in enumerate(limits, start=1) if name != "*"}
    policies = tuple(Policy(name, name, own, tier="pro") for name, own in limits if own)
    limit_names = sorted({limit.name for policy in policies for limit in policy.limits})
    configuration = Configuration(
        revision=1,
        tiers={"pro": Tier(1, "pro")},
        endpoints={name: Endpoint(number, name) for name, number in names.items()},
        tenants={f"tenant-{number}": Tenant(number, f"tenant-{number}", "pro") for number in range(1, tenants + 1)},
        policies=policies,
        overrides=(),
        limit_numbers={name: number for number, name in enumerate(limit_names, start=1)},
        subject_cap=10**9,
    )
    compiler = Compiler(Target(keys.SHARDS, keys.shard_of, keys.shard_prefix), NOW_US)
    compiler.load(configuration)
    Shards(client, keys.SHARDS).replace(dict(enumerate(compiler.image.shards)))


def _ratio(client: redis.Redis, tenants: int, endpoints: int, *, subjects: bool = False) -> tuple[float, float]:
    """The ratio to the baseline, and our time in microseconds, at the lower quartile of the turns.

    Other processes can only make a turn slower, so the faster turns are the most accurate.
    """
    chance = random.Random(1)

    def bare(pipe: Any, tenant: int) -> None:
        pipe.execute_command("FCALL", "bare", 1, f"bare:{{{tenant % 64}}}:tenant-{tenant}")

    def check(pipe: Any, tenant: int) -> None:
        name = f"tenant-{tenant}"
        # An endpoint without limits of its own.
        endpoint = f"svc:op-{chance.randrange(endpoints // 2) * 2 + 2}"
        subject = ("ip", f"10.0.0.{tenant % 250}", "key", f"k{tenant}", "user", f"u{tenant}") if subjects else ()
        pipe.execute_command("FCALL", "hr_check", 1, keys.tenant_prefix(name), name, endpoint, 1, *subject)

    for call in (bare, check):
        for tenant in range(1, tenants + 1, CALLS_TO_FILL):
            _turn(client, call, [min(tenant + step, tenants) for step in range(CALLS_TO_FILL)])
    ours, theirs = [], []
    for _ in range(TURNS):
        asked = [chance.randint(1, tenants) for _ in range(CALLS_A_TURN)]
        ours.append(_turn(client, check, asked))
        theirs.append(_turn(client, bare, asked))
    mine = quantiles(ours, n=4)[0]
    return mine / quantiles(theirs, n=4)[0], mine


def _turn(client: redis.Redis, call: Call, tenants: list[int]) -> float:
    """Microseconds per call, as measured by the server."""
    client.config_resetstat()
    with client.pipeline(transaction=False) as pipe:
        for tenant in tenants:
            call(pipe, tenant)
        pipe.execute()
    info: Any = client.info("commandstats")
    return float(info["cmdstat_fcall"]["usec_per_call"])
