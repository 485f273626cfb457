"""What only the event loop's limiter has to get right; on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import redis
import uvloop

from headroom_edge import AsyncLimiter, BreakerSettings, Check, Decision
from headroom_edge.store.breaker import BreakerState
from tests.faults.proxy import Proxy
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, fcalls, limit, publish

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def in_new_loop(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(work)

    return in_new_loop


@pytest.fixture(autouse=True)
def slots(valkey: redis.Redis) -> redis.Redis:
    """Replies name the caller."""
    publish(valkey, configuration(limit("slots", "concurrency", limit=1_000_000, hold="1m")))
    return valkey


async def ask(limiter: AsyncLimiter, name: str = "me", **about: Any) -> Decision:
    (decision,) = await limiter.check_many([Check(TENANT, ENDPOINT, holder=name)], **about)
    return decision


def test_the_checks_of_one_tick_are_one_write(
    slots: redis.Redis, valkey_url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A heartbeat is a write of its own. On a busy machine the first one came between the two counts.
    monkeypatch.setattr("headroom_edge.aio.TICK_S", 3_600)

    async def work() -> None:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=60_000) as limiter:
            await ask(limiter)
            before = slots.info("stats")["total_reads_processed"]
            decisions = await asyncio.gather(*(ask(limiter, f"caller-{n}") for n in range(64)))
            assert slots.info("stats")["total_reads_processed"] - before == 2  # theirs, and this one
            assert all(decision.holder == decision.check.holder for decision in decisions)

    run(work())


def test_the_first_checks_wait_together_for_the_connection(slots: redis.Redis, valkey_url: str, run: Run) -> None:
    async def work() -> None:
        before = slots.info("stats")["total_connections_received"]
        async with AsyncLimiter.from_url(valkey_url, budget_ms=60_000) as limiter:
            decisions = await asyncio.gather(*(ask(limiter, f"caller-{n}") for n in range(64)))
        assert not any(decision.degraded for decision in decisions)
        assert slots.info("stats")["total_connections_received"] - before == 1

    run(work())


def test_a_cancelled_caller_leaves_the_others_their_replies(valkey_url: str, run: Run) -> None:
    async def work() -> None:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=60_000) as limiter:
            await ask(limiter)
            tasks = [asyncio.create_task(ask(limiter, f"caller-{n}")) for n in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            decisions = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(decision, asyncio.CancelledError) for decision in decisions[::2])
            kept = [decision for decision in decisions if isinstance(decision, Decision)]
            assert [decision.holder for decision in kept] == [f"caller-{n}" for n in range(1, 20, 2)]
            assert (await ask(limiter, "after")).holder == "after"

    run(work())


def test_cancelled_callers_do_not_open_the_breaker(valkey_url: str, run: Run) -> None:
    """A client that leaves says nothing about the store. Otherwise it could switch off everybody's limits."""

    async def work() -> None:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=60_000) as limiter:
            await ask(limiter)
            for _ in range(50):
                task = asyncio.create_task(ask(limiter))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert limiter.breaker.state is BreakerState.CLOSED
            assert not (await ask(limiter)).degraded

    run(work())


def test_a_cancelled_probe_lets_the_next_one_try(proxy: Proxy, run: Run) -> None:
    settings = BreakerSettings(failures=1, of=1, cooldown_s=0.001)

    async def work() -> None:
        async with AsyncLimiter.from_url(proxy.url, budget_ms=60_000, breaker=settings) as limiter:
            proxy.refuse()
            assert (await ask(limiter)).degraded
            proxy.heal()
            proxy.blackhole()
            await asyncio.sleep(0.01)
            probe = asyncio.create_task(ask(limiter))
            await asyncio.sleep(0)
            assert limiter.breaker.state is BreakerState.HALF_OPEN
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)
            proxy.heal()
            async with asyncio.timeout(120):
                while (await ask(limiter)).degraded:  # noqa: ASYNC110 - the next probe comes in its own time
                    await asyncio.sleep(0.01)

    run(work())


def test_a_loop_that_was_busy_is_not_the_stores_fault(store: redis.Redis, valkey_url: str, run: Run) -> None:
    async def work() -> None:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=60_000) as limiter:
            await ask(limiter)
            store.config_resetstat()
            task = asyncio.create_task(ask(limiter, budget_ms=50))
            await asyncio.sleep(0)
            time.sleep(0.1)  # noqa: ASYNC251 - the caller's own code blocks the loop before anything is sent
            await asyncio.sleep(0)
            over_s = time.monotonic() + 0.1
            until(lambda: fcalls(store) > 0 and time.monotonic() > over_s)  # and again before the answer is read
            store.ping()  # so the store has sent the answer
            assert not (await task).degraded

    run(work())


def test_it_serves_one_loop_after_another(valkey_url: str, run: Run) -> None:
    limiter = AsyncLimiter.from_url(valkey_url, budget_ms=60_000)

    async def work() -> Decision:
        return await ask(limiter)

    assert [run(work()).degraded for _ in range(3)] == [False, False, False]


def test_after_close_it_answers_by_the_failure_mode(valkey_url: str, run: Run) -> None:
    async def work() -> Decision:
        limiter = AsyncLimiter.from_url(valkey_url, fail="closed")
        await limiter.close()
        return await ask(limiter)

    assert run(work()).failure == "closed"
