"""One tenant on a real Valkey with the simulation library: every call says what time it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from headroom_edge import keys, lua_library
from headroom_edge.plan.priority import USUAL, Priority
from quotas.policies.compile import Compiler, Target
from quotas.policies.plans import CANDIDATE
from quotas.policies.spec import Configuration, Endpoint, Limit, Override, Policy, Tenant, Tier

TENANT = "acme"
TIER = "pro"
NOW_US = 1_800_000_000_000_000  # a Friday in January 2027, on a whole minute


@dataclass(frozen=True, slots=True)
class Reply:
    allowed: bool
    reason: str
    limit: str
    quota: int
    remaining: int
    reset_us: int
    retry_us: int
    wait_us: int
    revision: int
    holder: str
    receipt: str
    failure: str
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, raw: list[Any]) -> Reply:
        rows = tuple(tuple(_text(value) for value in row) for row in raw[12:])
        fields: Any = (
            bool(raw[0]),
            *(_text(value) for value in raw[1:10]),
            ":".join(str(_text(part)) for part in raw[10]),
            _text(raw[11]),
            rows,
        )
        return cls(*fields)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def tier_policy(*limits: Limit, endpoint: str = "*") -> Policy:
    return Policy(f"{TIER}-{endpoint}", endpoint, limits, tier=TIER)


@dataclass
class World:
    client: redis.Redis
    tenants: Mapping[str, Tenant] = field(default_factory=lambda: {TENANT: Tenant(1, TENANT, TIER)})
    numbers: dict[str, int] = field(default_factory=dict)
    revision: int = 0
    endpoints: tuple[str, ...] = ("rides:search", "rides:book")
    settings: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, int] = field(default_factory=dict)  # calibrated, by endpoint
    priorities: dict[str, Priority] = field(default_factory=dict)  # of endpoints
    tier_priority: str = ""

    def __post_init__(self) -> None:
        self.client.function_load(lua_library.simulation_source(), replace=True)

    def configure(self, *policies: Policy, overrides: Iterable[Override] = (), now_us: int = NOW_US) -> None:
        self.revision += 1
        compiler = Compiler(Target(keys.SHARDS, keys.shard_of, keys.shard_prefix), now_us)
        compiler.load(self._configuration(policies, tuple(overrides)))
        assert not compiler.problems, compiler.problems
        # Only the shards that somebody asks: the others hold nothing but the same tiers.
        for shard in {keys.shard_of(tenant) for tenant in self.tenants}:
            image = compiler.image.shards[shard]
            for part, fields in (("t", image.entries), ("c", image.config)):
                self.call("publish", now_us, shard, "STAGE", self.revision, part, *_flat(fields))
            self.call("calendars", now_us, shard, "BEGIN", self.revision)
            lengths = (len(image.entries), len(image.config))
            status, _ = self.call("publish", now_us, shard, "FLIP", self.revision, image.token, *lengths)
            assert status == b"applied"

    def limit_by(self, *limits: Limit, now_us: int = NOW_US) -> None:
        """The limits of the tier on every endpoint, replacing what was there."""
        self.configure(tier_policy(*limits), now_us=now_us)

    def _configuration(self, policies: tuple[Policy, ...], overrides: tuple[Override, ...]) -> Configuration:
        names = {limit.name for policy in policies for limit in policy.limits}
        names |= {name for override in overrides for name in override.limits}
        for name in sorted(names):
            for text in (name, name + CANDIDATE):
                self.numbers.setdefault(text, len(self.numbers) + 1)
        endpoints = {
            name: Endpoint(number, name, priority=self.priorities.get(name, USUAL), target_us=self.targets.get(name))
            for number, name in enumerate(self.endpoints, start=1)
        }
        return Configuration(
            revision=self.revision,
            tiers={TIER: Tier(1, TIER, self.tier_priority), "free": Tier(2, "free")},
            endpoints=endpoints,
            tenants=self.tenants,
            policies=policies,
            overrides=overrides,
            limit_numbers=self.numbers,
            **self.settings,
        )

    def call(self, name: str, now_us: int, shard: int, *args: Any) -> Any:
        return self.client.fcall(f"hs_{name}", 1, keys.shard_prefix(shard), now_us, *args)

    def ask(self, name: str, now_us: int, *args: Any, tenant: str = TENANT) -> Any:
        return self.call(name, now_us, keys.shard_of(tenant), tenant, *args)

    def check(
        self,
        now_us: int = NOW_US,
        cost: int | str = 1,
        endpoint: str = "rides:search",
        tenant: str = TENANT,
        rows: bool = False,
        function: str = "check",
        **dimensions: str | bytes,
    ) -> Reply:
        args = (endpoint, cost, *(("ALL",) if rows else ()), *_flat(dimensions))
        return Reply.of(self.ask(function, now_us, *args, tenant=tenant))

    def check_subject(self, dimensions: Mapping[str, str]) -> Reply:
        return Reply.of(self.ask("check", NOW_US, "rides:search", 1, *_flat(dimensions)))

    def peek(self, now_us: int = NOW_US, **options: Any) -> Reply:
        return self.check(now_us, function="peek", **options)

    def state(self) -> dict[bytes, Any]:
        """Every key that holds a limit's state, byte for byte."""
        execute: Any = self.client.execute_command
        return {key: execute("DUMP", key) for key in execute("KEYS", "*") if _STATE.search(key)}

    def store_ms(self) -> int:
        """The store's own clock, by which keys expire."""
        seconds, us = self.client.time()
        return seconds * 1_000 + us // 1_000

    def lifetimes(self, since_ms: int) -> dict[bytes, int]:
        """How long after that moment each key of the state expires. Unlike a TTL, it does not shrink meanwhile."""
        execute: Any = self.client.execute_command
        return {key: execute("PEXPIRETIME", key) - since_ms for key in self.state()}

    def usage(self, tenant: str = TENANT) -> dict[str, int]:
        """Accounting without the second it happened in: `00001001a` → count and cost in one number."""
        execute: Any = self.client.execute_command
        found: dict[bytes, bytes] = execute("HGETALL", keys.usage(keys.shard_of(tenant)))
        return {name.decode()[9:]: int(value) for name, value in found.items() if name != b"_"}


_STATE = re.compile(rb"^hr:\{\d+\}:\w{5}([:/]|$)|^hr:\{all\}:g")


def usage_of(client: redis.Redis, outcome: str) -> int:
    """How many requests were accounted with this outcome, in all shards."""
    execute: Any = client.execute_command
    found = 0
    for key in execute("KEYS", f"{keys.EVERY_SHARD}:u"):
        cells: dict[bytes, bytes] = execute("HGETALL", key)
        found += sum(int(value) % 2**24 for name, value in cells.items() if name[17:].decode() == outcome)
    return found


def times(count: int, cost: int = 1) -> int:
    """What the accounting holds after so many requests of one cost."""
    return count * (cost * 2**24 + 1)


def _flat(fields: Mapping[str, Any]) -> list[Any]:
    return [part for pair in fields.items() for part in pair]
