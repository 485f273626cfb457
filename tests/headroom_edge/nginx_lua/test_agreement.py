"""F25: nginx's Lua and the SDK give the same answers to the same arrivals, whatever the policy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headroom_edge import Decision, Limiter
from headroom_edge.problems import problem_of
from quotas.policies.spec import Limit
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.nginx_lua.world import AMPLE, ASKED, lua_nginx, needs_lua
from tests.headroom_edge.test_agreement import limits
from tests.headroom_edge.world import Answer, publish_world
from tests.valkeys import SpareValkey

pytestmark = needs_lua

CHECKS = st.fixed_dictionaries(
    {
        "endpoint": st.sampled_from(["rides:list", "rides:get", "elsewhere"]),
        "cost": st.none() | st.integers(1, 14),
        "subject": st.dictionaries(st.sampled_from(["key", "ip"]), st.sampled_from(["a", "2001:db8::1", "{}:"])),
    }
)
BY_HEADERS = ASKED.replace("$headroom_dim_user", "$headroom_dim_key").replace("$http_x_user", "$http_x_key")
_SECONDS = re.compile(rb"(?<=;t=|in )\d+(?= s|,|$)")


class Both:
    """acme asks with the SDK, zenith through nginx; both are on the same tier and have used nothing."""

    def __init__(self, server: SpareValkey, folder: Any, stack: ExitStack) -> None:
        self.store = stack.enter_context(server.client())
        self.sdk = stack.enter_context(Limiter.from_url(server.url, budget_ms=AMPLE_MS))
        publish_world(self.store)
        running = lua_nginx(
            folder, server.url, settings=f'{AMPLE} dimensions = {{ "key", "ip" }},', locations=BY_HEADERS
        )
        self.nginx = stack.enter_context(running).client

    def start_anew(self, everywhere: list[Limit], rides: list[Limit]) -> None:
        self.store.flushall()
        publish_world(self.store, *everywhere, endpoints={"rides:get": tuple(rides)} if rides else {})

    def through_nginx(self, endpoint: str, cost: int | None, subject: dict[str, str]) -> Answer:
        fields = {f"x_{name}": value for name, value in subject.items()}
        about = {"x_cost": str(cost)} if cost else {}
        return self.nginx.get("/ask", x_tenant="zenith", x_endpoint=endpoint, **about, **fields)


@pytest.fixture(scope="module")
def both(valkey_server: SpareValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with ExitStack() as stack:
        yield Both(valkey_server, tmp_path_factory.mktemp("nginx"), stack)


def told(decision: Decision) -> dict[str, Any]:
    fields = {name.lower(): value for name, value in decision.headers().items()}
    body = b"served" if decision.allowed else problem_of(decision).body()
    return {**without_times(fields), "status": 200 if decision.allowed else 429, "body": _SECONDS.sub(b"", body)}


def told_by_nginx(answer: Answer) -> dict[str, Any]:
    fields = {name: value for name, value in answer.headers.items() if "ratelimit" in name or name == "retry-after"}
    return {**without_times(fields), "status": answer.status, "body": _SECONDS.sub(b"", answer.body)}


def without_times(fields: dict[str, str]) -> dict[str, Any]:
    """The two ask one after the other, so a second may have begun in between."""
    left = re.sub(r";t=\d+", ";t", fields.get("ratelimit", ""))
    return {"policy": fields.get("ratelimit-policy"), "left": left, "comes_back": "retry-after" in fields}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(everywhere=limits("abc"), rides=limits("acd"), checks=st.lists(CHECKS, min_size=1, max_size=10))
def test_nginx_and_the_sdk_answer_alike(
    both: Both, everywhere: list[Limit], rides: list[Limit], checks: list[dict[str, Any]]
) -> None:
    both.start_anew(everywhere, rides)
    by_sdk = [told(both.sdk.check(tenant="acme", rows=True, **check)) for check in checks]
    assert [told_by_nginx(both.through_nginx(**check)) for check in checks] == by_sdk


def test_redis_is_the_only_thing_both_share(both: Both) -> None:
    both.start_anew([limit("a", "fixed_window", limit=3, window="1d")], [])
    both.sdk.check(tenant="zenith", endpoint="rides:list")
    assert both.through_nginx("rides:list", None, {}).headers["ratelimit"].startswith('"a";r=1;')
