"""A caller's own priority through every adapter. A pool of 8 lets normal requests fill 6, sheddable ones 4."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis

from headroom_edge import AsyncLimiter, Check, Limiter
from headroom_edge.asgi import QuotaMiddleware
from headroom_edge.decorator import QuotaExceededError, limited
from headroom_edge.proxies import TrustedProxies
from headroom_edge.request_guard import GuardRules
from tests.headroom_edge.apps import fastapi_app
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, MACHINE, Client, publish_world, served

POOL = limit("org", "pool", rate=1, per="1h", burst=8)
BEHIND = TrustedProxies.parse(["127.0.0.1"])
NORMAL, SHEDDABLE = 6, 4
ASKED = 8


@pytest.fixture
def pool(store: redis.Redis) -> redis.Redis:
    publish_world(store, POOL)
    return store


class TestSdk:
    ABOUT: dict[str, Any] = {"tenant": "acme", "endpoint": "rides:list"}

    @pytest.mark.parametrize("leases", [False, True])
    @pytest.mark.parametrize(("priority", "passes"), [("sheddable", SHEDDABLE), ("critical", NORMAL), ("", NORMAL)])
    def test_it_lowers_but_never_raises(
        self, pool: redis.Redis, valkey_url: str, priority: str, passes: int, leases: bool
    ) -> None:
        with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS, leases=leases) as limiter:
            told = [limiter.check(**self.ABOUT, priority=priority).allowed for _ in range(ASKED)]
            assert sum(told) == passes
            assert not limiter.peek(**self.ABOUT, priority=priority).allowed

    def test_with_asyncio(self, pool: redis.Redis, valkey_url: str) -> None:
        async def ask() -> int:
            async with AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
                checks = (limiter.check(**self.ABOUT, priority="sheddable") for _ in range(ASKED))
                return sum([decision.allowed for decision in await asyncio.gather(*checks)])

        assert asyncio.run(ask()) == SHEDDABLE

    def test_an_allowance_and_a_batch_carry_it(self, pool: redis.Redis, valkey_url: str) -> None:
        with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
            allowance = limiter.allowance(**self.ABOUT, priority="sheddable")
            assert sum(allowance.spend() for _ in range(ASKED)) == SHEDDABLE
            batch = [Check(**self.ABOUT, priority="normal")] * ASKED
            assert sum(decision.allowed for decision in limiter.check_many(batch)) == NORMAL - SHEDDABLE

    def test_an_unknown_one_raises_before_anything_is_sent(self, pool: redis.Redis, valkey_url: str) -> None:
        with (
            Limiter.from_url(valkey_url) as limiter,
            pytest.raises(ValueError, match="priority must be one of critical, high, normal, sheddable, not 'low'"),
        ):
            limiter.check(**self.ABOUT, priority="low")

    def test_it_is_no_dimension(self) -> None:
        with pytest.raises(ValueError, match="'priority' is not a valid dimension"):
            Check("acme", "rides:list", {"priority": "high"})

    def test_the_decorator_has_it(self, pool: redis.Redis, valkey_url: str) -> None:
        with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:

            @limited(limiter, **self.ABOUT, priority="sheddable")
            def build() -> int:
                return 1

            assert sum(build() for _ in range(SHEDDABLE)) == SHEDDABLE
            with pytest.raises(QuotaExceededError):
                build()


def passed(rules: GuardRules, valkey_url: str, **headers: str) -> int:
    app = fastapi_app()
    app.add_middleware(QuotaMiddleware, limiter=AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS), rules=rules)
    with served(app) as rides:
        answers = [rides.get("/v1/rides", x_api_key=ACME, **headers) for _ in range(ASKED)]
    return [answer.status for answer in answers].count(200)


@pytest.mark.parametrize(
    ("rules", "headers", "passes"),
    [
        (GuardRules(), {"x_priority": "sheddable"}, NORMAL),  # no header counts unless it is named
        (GuardRules(priority_header="x-priority"), {"x_priority": "sheddable"}, NORMAL),  # from anybody
        (GuardRules(priority_header="x-priority", trusted_proxies=BEHIND), {"x_priority": " Sheddable"}, SHEDDABLE),
        (GuardRules(priority_header="x-priority", trusted_proxies=BEHIND), {"x_priority": "urgent"}, NORMAL),
        (GuardRules(priority_header="x-priority", trusted_proxies=BEHIND), {"x_priority": "critical"}, NORMAL),
        (GuardRules(priority=lambda scope: "sheddable"), {}, SHEDDABLE),
        (GuardRules(priority=lambda scope: None, priority_header="x-priority"), {"x_priority": "sheddable"}, NORMAL),
    ],
)
def test_a_middleware_takes_it_from_its_own_rules(
    pool: redis.Redis, valkey_url: str, rules: GuardRules, headers: dict[str, str], passes: int
) -> None:
    assert passed(rules, valkey_url, **headers) == passes


class TestGateway:
    def check(self, gateway: Client, **more: Any) -> Any:
        body = {"tenant": "acme", "endpoint": "rides:list", **more}
        return gateway.post("/v1/check", body, authorization=f"Bearer {MACHINE}")

    def test_a_check_has_a_field_for_it(self, pool: redis.Redis, gateway: Client) -> None:
        told = [self.check(gateway, priority="sheddable").json()["allowed"] for _ in range(ASKED)]
        assert sum(told) == SHEDDABLE
        assert self.check(gateway, priority="critical").json()["allowed"]

    def test_another_word_is_a_bad_request(self, pool: redis.Redis, gateway: Client) -> None:
        answer = self.check(gateway, priority="urgent")
        assert (answer.status, answer.json()["field"]) == (400, "priority")
        assert answer.json()["detail"] == "priority must be one of critical, high, normal, sheddable, not 'urgent'."
        assert self.check(gateway, priority=1).status == 400
