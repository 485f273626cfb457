from __future__ import annotations

import asyncio
import time

import pytest
import redis

from headroom_edge import AsyncLimiter, Limiter
from headroom_edge.decorator import QuotaExceededError, limited
from headroom_edge.request_guard import GuardRules
from tests.headroom_edge.adaptive import BACKEND, Learned, learned
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import publish_world


def test_a_function_is_called_as_often_as_its_limit_allows(store: redis.Redis, valkey_url: str) -> None:
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:

        @limited(limiter, tenant="acme", endpoint="rides:list")
        def build(size: int) -> int:
            """Builds it."""
            return size * 2

        assert [build(number) for number in range(5)] == [0, 2, 4, 6, 8]
        with pytest.raises(QuotaExceededError, match="The limit 'hourly' is used up") as refused:
            build(6)
    assert refused.value.problem.status == 429
    assert int(refused.value.headers["Retry-After"]) > 0
    assert (build.__name__, build.__doc__) == ("build", "Builds it.")


def test_tenant_and_subject_may_follow_from_the_arguments(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, limit("each", "fixed_window", "user", limit=1, window="1h"))
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:

        @limited(
            limiter,
            tenant=lambda tenant, user: tenant,
            endpoint="rides:list",
            subject=lambda tenant, user: {"user": user},
        )
        def greet(tenant: str, user: str) -> str:
            return user

        assert [greet("acme", "ann"), greet("acme", "bob"), greet("zenith", "ann")] == ["ann", "bob", "ann"]
        with pytest.raises(QuotaExceededError):
            greet("acme", "ann")


def test_a_coroutine_gives_its_slot_back_also_when_it_fails(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, limit("inflight", "concurrency", limit=1, hold="1h"))

    async def work() -> list[str]:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:

            @limited(limiter, tenant="acme", endpoint="rides:list")
            async def greet(name: str) -> str:
                if not name:
                    raise LookupError("nobody")
                return name

            with pytest.raises(LookupError):
                await greet("")
            return [await greet("ann"), await greet("bob")]

    assert asyncio.run(work()) == ["ann", "bob"]


def test_two_at_once_are_one_too_many(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, limit("inflight", "concurrency", limit=1, hold="1h"))

    async def work() -> list[object]:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
            inside = asyncio.Event()
            leave = asyncio.Event()

            @limited(limiter, tenant="acme", endpoint="rides:list")
            async def stay() -> str:
                inside.set()
                await leave.wait()
                return "stayed"

            first = asyncio.ensure_future(stay())
            await inside.wait()
            second = (await asyncio.gather(stay(), return_exceptions=True))[0]
            leave.set()
            return [await first, type(second)]

    assert asyncio.run(work()) == ["stayed", QuotaExceededError]


def test_it_waits_for_its_turn_but_not_past_what_the_rules_allow(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, limit("paced", "leaky_bucket", rate=20, per="1s", queue=5))
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:

        @limited(limiter, tenant="acme", endpoint="rides:list")
        def patient() -> float:
            return time.monotonic()

        @limited(limiter, tenant="zenith", endpoint="rides:list", rules=GuardRules(max_wait_ms=1))
        def hasty() -> float:
            return time.monotonic()

        times = [patient() for _ in range(3)]
        assert times[2] - times[0] >= 0.049
        hasty()
        publish_world(store, limit("paced", "leaky_bucket", rate=1, per="1h", queue=5))
        hasty()
        with pytest.raises(QuotaExceededError, match="longer than the caller waits"):
            hasty()


def test_an_adaptive_limit_learns_how_the_calls_ended(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, BACKEND)
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:

        @limited(limiter, tenant="acme", endpoint="rides:list")
        def call(error: type[Exception] | None) -> None:
            if error:
                raise error

        call(None)
        for error in (TimeoutError, LookupError):
            with pytest.raises(error):
                call(error)
    assert learned(store) == Learned(answers=1, drops=1)
