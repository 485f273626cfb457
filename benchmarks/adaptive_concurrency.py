"""Adaptive concurrency in front of a simulated service of 20 workers that take 20 ms each, decided by the real Lua.

Time is simulated, so the figures do not depend on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis

from benchmarks.report import BenchmarkRow
from benchmarks.servers import flush, throw_away_valkey
from headroom_edge import keys, lua_library
from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.plan.subject import Subject
from quotas.policies.compile import Compiler, Target
from quotas.policies.spec import EVERYWHERE, Configuration, Endpoint, Limit, Policy, Tenant, Tier
from quotas.simulation import queueing_service
from quotas.simulation.queueing_service import Answered, Service, phase

NOW_US = 1_800_000_000_000_000
TARGET_MS = 30
TENANT, TIER, ENDPOINT = "acme", "pro", "service:call"
LIMIT = Limit("backend", AdaptiveConcurrency(3, 400, 20, TARGET_MS * 1_000, 30 * SECOND_US), Subject.parse("tenant"))
SHARD = keys.shard_of(TENANT)
CHANGE_S = 5.0
ASKED_OF_SLOW = 250


@dataclass(frozen=True, slots=True)
class LuaGate:
    client: redis.Redis

    def admit(self, now_us: int, holder: str) -> bool:
        return bool(self._ask("check", now_us, 1, "holder", holder)[0])

    def release(self, now_us: int, holder: str) -> None:
        self._ask("release", now_us, holder, "ok")

    def _ask(self, name: str, now_us: int, *words: Any) -> Any:
        return self.client.fcall(f"hs_{name}", 1, keys.shard_prefix(SHARD), now_us, TENANT, ENDPOINT, *words)


def run() -> list[BenchmarkRow]:
    with throw_away_valkey() as client:
        return [*halved(client), *overloaded(client), *slower(client)]


def halved(client: redis.Redis) -> list[BenchmarkRow]:
    answers = serve(client, Service(lambda _: 900, lambda at_s: 20 if at_s < CHANGE_S else 10), CHANGE_S + 10)
    back_s = next(
        second
        for second in range(11)
        if phase(answers, CHANGE_S + second, CHANGE_S + second + 1).mean_ms <= 1.1 * TARGET_MS
    )
    worst_ms = phase(answers, CHANGE_S, CHANGE_S + 3).mean_ms
    return [
        BenchmarkRow("adaptive concurrency: back on target after capacity halves", back_s, "s", 3, 1),
        BenchmarkRow("adaptive concurrency: mean latency in the 3 s after that (target 30 ms)", worst_ms, "ms"),
    ]


def overloaded(client: redis.Redis) -> list[BenchmarkRow]:
    answers = serve(client, Service(lambda _: 1_500), 100)
    early, late = phase(answers, 10, 20), phase(answers, 90, 100)
    drift = 100 * abs(late.mean_ms - early.mean_ms) / early.mean_ms
    return [
        BenchmarkRow("adaptive concurrency: drift of latency over 100 s of overload", drift, "%", 10, 2),
        BenchmarkRow("adaptive concurrency: mean latency at its end (target 30 ms)", late.mean_ms, "ms"),
        BenchmarkRow("adaptive concurrency: answers per second of 1,000 possible", late.per_s, "/s"),
    ]


def slower(client: redis.Redis) -> list[BenchmarkRow]:
    service = Service(lambda _: ASKED_OF_SLOW, slowness=lambda at_s: 1.0 if at_s < CHANGE_S else 3.0)
    answers = serve(client, service, 45)
    kept = 100 * phase(answers, CHANGE_S, 45).per_s / ASKED_OF_SLOW
    return [BenchmarkRow("adaptive concurrency: throughput of a healthy service 3 × slower", kept, "%", 90, 95, True)]


def serve(client: redis.Redis, service: Service, seconds: float) -> list[Answered]:
    flush(client)
    publish(client)
    return queueing_service.run(LuaGate(client), service, seconds, start_us=NOW_US)


def publish(client: redis.Redis) -> None:
    client.function_load(lua_library.simulation_source(), replace=True)
    compiler = Compiler(Target(keys.SHARDS, keys.shard_of, keys.shard_prefix), NOW_US)
    compiler.load(
        Configuration(
            revision=1,
            tiers={TIER: Tier(1, TIER)},
            endpoints={ENDPOINT: Endpoint(1, ENDPOINT)},
            tenants={TENANT: Tenant(1, TENANT, TIER)},
            policies=(Policy("all", EVERYWHERE, (LIMIT,), tier=TIER),),
            overrides=(),
            limit_numbers={LIMIT.name: 1},
        )
    )
    image, prefix = compiler.image.shards[SHARD], keys.shard_prefix(SHARD)
    for part, fields in (("t", image.entries), ("c", image.config)):
        words = [word for pair in fields.items() for word in pair]
        client.fcall("hs_publish", 1, prefix, NOW_US, "STAGE", 1, part, *words)
    client.fcall("hs_calendars", 1, prefix, NOW_US, "BEGIN", 1)
    lengths = (len(image.entries), len(image.config))
    client.fcall("hs_publish", 1, prefix, NOW_US, "FLIP", 1, image.token, *lengths)
