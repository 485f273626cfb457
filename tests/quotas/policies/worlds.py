"""Small configurations to compile."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from zlib import crc32

from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.plan.subject import Subject
from quotas.policies.compile import Compiler, Target
from quotas.policies.plans import CANDIDATE
from quotas.policies.shard_image import ShardImage
from quotas.policies.spec import Configuration, Endpoint, Limit, Override, Policy, Tenant, Tier

SHARDS = 4
NOW_US = 1_800_000_000_000_000  # 2027-01-15 08:00:00 UTC
DAY_US = 86_400_000_000


def shard_of(tenant: str) -> int:
    return crc32(tenant.encode()) % SHARDS


TARGET = Target(SHARDS, shard_of, lambda shard: f"hr:{{{shard}}}")


def limit(name: str, algorithm: str = "token_bucket", subject: str = "tenant", **fields: Any) -> Limit:
    about = {key: fields.pop(key) for key in _ABOUT if key in fields}
    fields = fields or {"rate": 10, "burst": 20}
    return Limit(name, ALGORITHMS[algorithm].parse(fields), Subject.parse(subject), **about)


_ABOUT = ("unit", "mode", "on_failure", "lease_ms", "since_us", "carry", "past", "candidate", "adopts_candidate")


def tier_policy(endpoint: str, *limits: Limit, tier: str = "pro") -> Policy:
    return Policy(f"{tier} {endpoint}", endpoint, limits, tier=tier)


def tenant_policy(endpoint: str, *limits: Limit, tenant: str = "acme") -> Policy:
    return Policy(f"{tenant} {endpoint}", endpoint, limits, tenant=tenant)


def global_policy(endpoint: str, *limits: Limit) -> Policy:
    return Policy(f"global {endpoint}", endpoint, limits)


def world(
    *policies: Policy, overrides: Iterable[Override] = (), tenants: Iterable[Tenant] = (), revision: int = 1
) -> Configuration:
    """Tiers free (1) and pro (2); acme, bob and carol on pro unless `tenants` says otherwise."""
    people = {name: Tenant(number, name, "pro") for number, name in enumerate(("acme", "bob", "carol"), 1)}
    people |= {tenant.name: tenant for tenant in tenants}
    names = ("search:query", "search:suggest", "payments:create")
    return Configuration(
        revision=revision,
        tiers={"free": Tier(1, "free"), "pro": Tier(2, "pro")},
        endpoints={name: Endpoint(number, name) for number, name in enumerate(names, 1)},
        tenants=people,
        policies=policies,
        overrides=tuple(overrides),
        limit_numbers=_numbers(policies, overrides),
    )


def _numbers(policies: Iterable[Policy], overrides: Iterable[Override]) -> dict[str, int]:
    """Alphabetical, so that they do not depend on the order of policies."""
    names = {limit.name for policy in policies for limit in policy.limits}
    names |= {name for override in overrides for name in override.limits} | {"burst", "daily", "minute"}
    names |= {name + CANDIDATE for name in names}
    return {name: number for number, name in enumerate(sorted(names), 1)}


def compiled(configuration: Configuration, now_us: int = NOW_US, *, clustered: bool = False) -> Compiler:
    compiler = Compiler(replace(TARGET, clustered=clustered), now_us)
    compiler.load(configuration)
    return compiler


def shard(compiler: Compiler, tenant: str = "acme") -> ShardImage:
    return compiler.image.shards[shard_of(tenant)]


def entry(compiler: Compiler, tenant: str = "acme") -> str:
    return shard(compiler, tenant).entries[tenant]


def timeline(compiler: Compiler, tenant: str = "acme") -> list[tuple[int, str]]:
    """From when on which set holds."""
    ref = entry(compiler, tenant)[5:]
    config = shard(compiler, tenant).config
    if not ref.startswith("{"):
        return [(0, json.loads(config["main"])["tiers"][ref])]
    named = json.loads(ref)
    return [(0, named["s"])] if "s" in named else [(at, name) for at, name in named["x"]]


def plan(compiler: Compiler, tenant: str = "acme", endpoint: str = "*", segment: int = -1) -> dict[str, Any]:
    config = shard(compiler, tenant).config
    plans = json.loads(config[f"s:{timeline(compiler, tenant)[segment][1]}"])
    found: dict[str, Any] = json.loads(config[f"p:{plans.get(endpoint, plans['*'])}"])
    return found


def row(found: dict[str, Any], name: str, mode: str = "e") -> dict[str, Any]:
    """The row of a limit that applies."""
    rows = [row for group in found["g"] for row in group["l"] if row["name"] == name and "x" not in row]
    return next(row for row in rows if row["m"] == mode)
