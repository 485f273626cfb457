"""F25: the SDK, HTTP and gRPC give the same answers to the same questions, whatever the policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headroom_edge import AsyncLimiter, Decision, Limiter
from headroom_edge.gateway.rls.messages_pb2 import RateLimitResponse
from headroom_edge.gateway.server import Gateway
from quotas.policies.spec import Limit
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.gateway.rls.asking import serving
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


class Ways:
    """acme asks with the SDK, zenith over HTTP, visitors over gRPC; they are on the same tier and have used nothing."""

    def __init__(self, server: SpareValkey, stack: ExitStack) -> None:
        self.store = stack.enter_context(server.client())
        self.sdk = stack.enter_context(Limiter.from_url(server.url, budget_ms=AMPLE_MS))
        publish_world(self.store)
        self.http = stack.enter_context(served(Gateway(AsyncLimiter.from_url(server.url, budget_ms=AMPLE_MS))))
        self.grpc = stack.enter_context(serving(AsyncLimiter.from_url(server.url, budget_ms=AMPLE_MS)))

    def start_anew(self, everywhere: list[Limit], rides: list[Limit]) -> None:
        self.store.flushall()
        publish_world(self.store, *everywhere, endpoints={"rides:get": tuple(rides)} if rides else {})

    def over_http(self, checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        body = {"checks": [{"tenant": "zenith", **check} for check in checks]}
        answer = self.http.post("/v1/check", body, authorization=f"Bearer {MACHINE}")
        assert answer.status == 200, answer.body
        decisions: list[dict[str, Any]] = answer.json()["decisions"]
        return decisions

    def over_grpc(self, check: dict[str, Any]) -> RateLimitResponse:
        entries = {"tenant": "visitors", "endpoint": check["endpoint"], **check["subject"]}
        return self.grpc.ask(entries, costs=(check["cost"],))


@pytest.fixture(scope="module")
def ways(valkey_server: SpareValkey) -> Iterator[Ways]:
    with ExitStack() as stack:
        yield Ways(valkey_server, stack)


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
    found = left(fields)
    fields.pop("RateLimit", None)
    fields.pop("Retry-After", None)
    return {
        **{
            name: decision[name] for name in ("allowed", "reason", "limit", "quota", "remaining", "wait_ms", "revision")
        },
        "never": decision["retry_after_ms"] is None,
        "headers": fields,
        "left": found,
    }


def told_over_grpc(response: RateLimitResponse) -> dict[str, Any]:
    (status,) = response.statuses
    about = MessageToDict(response.dynamic_metadata)
    fields = {field.key: field.value for field in response.response_headers_to_add}
    return {
        "allowed": response.overall_code == status.code == RateLimitResponse.OK,
        "reason": about["reason"],
        "limit": about["limit"],
        "quota": status.current_limit.requests_per_unit,
        "remaining": status.limit_remaining,
        "revision": about["revision"],
        "headers": {name: value for name, value in fields.items() if name == "RateLimit-Policy"},
        "left": left(fields),
    }


def left(fields: dict[str, str]) -> list[tuple[str, int]]:
    """What the field RateLimit says is left of each limit."""
    items = [item.split(";") for item in fields.get("RateLimit", "").split(", ") if item]
    return [(item[0].strip('"'), int(item[1].removeprefix("r="))) for item in items]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(everywhere=limits("abc"), rides=limits("acd"), checks=st.lists(CHECKS, min_size=1, max_size=12))
def test_the_sdk_http_and_grpc_answer_alike(
    ways: Ways, everywhere: list[Limit], rides: list[Limit], checks: list[dict[str, Any]]
) -> None:
    ways.start_anew(everywhere, rides)
    by_sdk = [told(ways.sdk.check(tenant="acme", rows=True, **check)) for check in checks]
    assert [told_over_http(decision) for decision in ways.over_http(checks)] == by_sdk
    # Envoy's answer has no place for these two.
    told_to_envoy = [{name: one[name] for name in one if name not in ("never", "wait_ms")} for one in by_sdk]
    assert [told_over_grpc(ways.over_grpc(check)) for check in checks] == told_to_envoy


def test_redis_is_the_only_thing_they_share(ways: Ways, valkey: redis.Redis) -> None:
    ways.start_anew([limit("a", "fixed_window", limit=9, window="1d")], [])
    ways.sdk.check(tenant="zenith", endpoint="rides:list")
    ways.grpc.ask({"tenant": "zenith", "endpoint": "rides:list"})
    (decision,) = ways.over_http([{"endpoint": "rides:list"}])
    assert decision["remaining"] == 6
