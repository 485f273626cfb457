"""Conversations by callbacks: what only they have to get right. Their decisions are tested with those of the loop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
import redis

from headroom_edge import AsyncLimiter, Check, Decision
from headroom_edge.core import CHECK, Conversation, Core
from headroom_edge.errors import StoreError
from tests.faults.proxy import Proxy
from tests.headroom_edge.limiter.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish


@pytest.fixture(autouse=True)
def slots(valkey: redis.Redis) -> redis.Redis:
    """Replies name the caller."""
    publish(valkey, configuration(limit("slots", "concurrency", limit=1_000_000, hold="1m")))
    return valkey


def decide(core: Core, name: str) -> Conversation[Decision]:
    (decision,) = yield from core.decide(CHECK, [Check(TENANT, ENDPOINT, holder=name)], None)
    return decision


class Heard:
    """Counts what it is told, and wakes a test that waits for all of it."""

    def __init__(self, count: int) -> None:
        self.found: list[Any] = []
        self.failed: list[Exception] = []
        self._count = count
        self._all = asyncio.Event()

    def done(self, value: Any) -> None:
        self.found.append(value)
        self._look()

    def fail(self, error: Exception) -> None:
        self.failed.append(error)
        self._look()

    def _look(self) -> None:
        if len(self.found) + len(self.failed) == self._count:
            self._all.set()

    async def wait(self) -> list[Any]:
        async with asyncio.timeout(120):
            await self._all.wait()
        return self.found


def test_those_of_one_tick_are_one_write_and_each_gets_its_own_reply(slots: redis.Redis, valkey_url: str) -> None:
    async def main() -> None:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
            await limiter.ready(AMPLE_MS)
            before = slots.info("stats")["total_reads_processed"]
            heard, names = Heard(64), [f"caller-{n}" for n in range(64)]
            for name in names:
                limiter.start(partial(decide, name=name), heard.done, heard.fail)
            assert [decision.holder for decision in await heard.wait()] == names
            assert slots.info("stats")["total_reads_processed"] - before == 2  # theirs, and this one

    asyncio.run(main())


def test_one_that_raises_takes_no_reply_from_the_others(valkey_url: str) -> None:
    def mistaken(core: Core) -> Conversation[Decision]:
        yield from decide(core, "mistaken")
        raise LookupError("as a bug would")

    async def main() -> None:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
            heard = Heard(4)

            def unwilling(decision: Decision) -> None:
                raise LookupError("as a bug would")

            limiter.start(partial(decide, name="first"), heard.done, heard.fail)
            limiter.start(mistaken, heard.done, heard.fail)
            limiter.start(partial(decide, name="unwilling"), unwilling, heard.fail)
            limiter.start(partial(decide, name="last"), heard.done, heard.fail)
            assert [decision.holder for decision in await heard.wait()] == ["first", "last"]
            assert [str(error) for error in heard.failed] == ["as a bug would"] * 2
            assert not (await limiter.check(tenant=TENANT, endpoint=ENDPOINT)).degraded

    asyncio.run(main())


def persistent(core: Core, most: int) -> Conversation[str]:
    """Asks again at once if the store is lost, from within the callback that says so."""
    for attempt in range(most):
        try:
            yield from core.read(b"*1\r\n$4\r\nPING\r\n")
        except StoreError:
            continue
        return f"reached after {attempt}"
    return "given up"


def test_who_asks_again_while_nobody_listens_is_told_each_time(proxy: Proxy) -> None:
    async def main() -> None:
        proxy.refuse()
        async with AsyncLimiter.from_url(proxy.url, budget_ms=AMPLE_MS) as limiter:
            heard = Heard(3)
            for _ in range(3):
                limiter.start(partial(persistent, most=4), heard.done, heard.fail)
            assert await heard.wait() == ["given up"] * 3

    asyncio.run(main())


def test_who_asks_again_when_the_connection_breaks_reaches_the_store(proxy: Proxy) -> None:
    async def main() -> None:
        async with AsyncLimiter.from_url(proxy.url, budget_ms=AMPLE_MS) as limiter:
            await limiter.ready(AMPLE_MS)
            proxy.blackhole()
            heard = Heard(3)
            for _ in range(3):
                limiter.start(partial(persistent, most=4), heard.done, heard.fail)
            await asyncio.sleep(0.05)
            proxy.heal()  # ends the connections that were swallowed
            assert all(answer.startswith("reached") for answer in await heard.wait())

    asyncio.run(main())


def test_after_close_it_is_told_at_once(valkey_url: str) -> None:
    async def main() -> None:
        limiter = AsyncLimiter.from_url(valkey_url, fail="closed")
        await limiter.close()
        heard = Heard(1)
        limiter.start(partial(decide, name="late"), heard.done, heard.fail)
        assert [decision.failure for decision in heard.found] == ["closed"]

    asyncio.run(main())
