"""F25: the SDK and HTTP give the same answers to the same questions, whatever the policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headroom_edge import AsyncLimiter, Decision, Limiter
from headroom_edge.gateway.server import Gateway
from quotas.policies.spec import Limit
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import MACHINE, publish_world, served
from tests.valkeys import SpareValkey

# Slow enough that nothing comes back while an example runs.
SIZES = st.integers(1, 12)
SUBJECTS = st.sampled_from(["tenant", "key", "ip", "key|ip", "key+ip"])
UNITS = st.sampled_from(["requests", "cost"])
CHECKS = st.fixed_dictionaries(
    {
        "endpoint": st.sampled_from(["rides:list", "rides:get", "elsewhere"]),
        "cost": st.none() | st.integers(1, 14),
        "subject": st.dictionaries(st.sampled_from(["key", "ip"]), st.sampled_from(["a", "2001:db8::1", "é{}"])),
    }
)


def limits(names: str) -> st.SearchStrategy[list[Limit]]:
    return st.lists(one_limit(names), max_size=2, unique_by=lambda found: found.name)


@st.composite
def one_limit(draw: st.DrawFn, names: str) -> Limit:
    name, size = draw(st.sampled_from(names)), draw(SIZES)
    kind = draw(st.sampled_from(["fixed_window", "token_bucket", "gcra", "sliding_log", "sliding_counter", "calendar"]))
    about: dict[str, Any] = {"subject": draw(SUBJECTS), "unit": draw(UNITS)}
    about["mode"] = draw(st.sampled_from(["enforce", "enforce", "shadow"]))
    if kind == "calendar":
        return limit(name, "calendar_quota", limit=size, period="year", timezone="UTC", **about)
    if kind in ("token_bucket", "gcra"):
        return limit(name, kind, rate=1, per="1d", burst=size, **about)
    return limit(name, kind, limit=size, window="1d", **about)


class Both:
    """acme asks with the SDK, zenith over HTTP; both are on the same tier and have used nothing."""

    def __init__(self, server: SpareValkey, stack: ExitStack) -> None:
        self.store = stack.enter_context(server.client())
        self.sdk = stack.enter_context(Limiter.from_url(server.url, budget_ms=AMPLE_MS))
        publish_world(self.store)
        self.http = stack.enter_context(served(Gateway(AsyncLimiter.from_url(server.url, budget_ms=AMPLE_MS))))

    def start_anew(self, everywhere: list[Limit], rides: list[Limit]) -> None:
        self.store.flushall()
        publish_world(self.store, *everywhere, endpoints={"rides:get": tuple(rides)} if rides else {})

    def over_http(self, checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        body = {"checks": [{"tenant": "zenith", **check} for check in checks]}
        answer = self.http.post("/v1/check", body, authorization=f"Bearer {MACHINE}")
        assert answer.status == 200, answer.body
        decisions: list[dict[str, Any]] = answer.json()["decisions"]
        return decisions


@pytest.fixture(scope="module")
def both(valkey_server: SpareValkey) -> Iterator[Both]:
    with ExitStack() as stack:
        yield Both(valkey_server, stack)


def told(decision: Decision) -> dict[str, Any]:
    fields = decision.headers()
    fields.pop("RateLimit", None)
    fields.pop("Retry-After", None)
    return {
        "allowed": decision.allowed,
        "reason": decision.reason,
        "limit": decision.limit,
        "quota": decision.quota,
        "remaining": decision.remaining,
        "never": decision.retry_after_ms is None,
        "wait_ms": decision.wait_ms,
        "revision": decision.revision,
        "headers": fields,
        "left": [(row.name, row.remaining) for row in decision.rows],
    }


def told_over_http(decision: dict[str, Any]) -> dict[str, Any]:
    fields = dict(decision["headers"])
    items = [item.split(";") for item in fields.pop("RateLimit", "").split(", ") if item]
    fields.pop("Retry-After", None)
    return {
        **{
            name: decision[name] for name in ("allowed", "reason", "limit", "quota", "remaining", "wait_ms", "revision")
        },
        "never": decision["retry_after_ms"] is None,
        "headers": fields,
        "left": [(item[0].strip('"'), int(item[1].removeprefix("r="))) for item in items],
    }


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(everywhere=limits("abc"), rides=limits("acd"), checks=st.lists(CHECKS, min_size=1, max_size=12))
def test_the_sdk_and_http_answer_alike(
    both: Both, everywhere: list[Limit], rides: list[Limit], checks: list[dict[str, Any]]
) -> None:
    both.start_anew(everywhere, rides)
    by_sdk = [told(both.sdk.check(tenant="acme", rows=True, **check)) for check in checks]
    assert [told_over_http(decision) for decision in both.over_http(checks)] == by_sdk


def test_redis_is_the_only_thing_both_share(both: Both, valkey: redis.Redis) -> None:
    both.start_anew([limit("a", "fixed_window", limit=3, window="1d")], [])
    both.sdk.check(tenant="zenith", endpoint="rides:list")
    (decision,) = both.over_http([{"endpoint": "rides:list"}])
    assert decision["remaining"] == 1
