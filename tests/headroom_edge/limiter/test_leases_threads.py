"""Leases under threads and after a fork, and allowances."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest
import redis

from headroom_edge import AsyncLimiter, Check, Decision, Limiter
from headroom_edge.leases.block import Block, Grant
from headroom_edge.leases.book import LeaseBook
from tests.headroom_edge.limiter.both import MakeLimiter, OnLoop, OnThreads
from tests.headroom_edge.limiter.leased import FIRST_ASK, Clock, ask, book_of, leased, usage, with_block
from tests.headroom_edge.limiter.world import COSTLY_ENDPOINT, ENDPOINT, TENANT, configuration, fcalls, limit, publish

THREADS = 8
PLENTY = 1_000_000
WAIT_S = 120


@pytest.fixture
def frantic() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work: object) -> None:
    assert callable(work)
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)


@pytest.mark.usefixtures("frantic")
def test_racing_threads_spend_each_unit_of_a_block_once() -> None:
    units, taken = 40_000, []
    decision = Decision(Check(TENANT, ENDPOINT), True, "ok", "", 0, 0, 0, 0, 0, 1)
    block = Block(Grant(units, units, 10**12, b"r", ()), decision, 0.0)

    def take() -> None:
        mine = given_back = 0
        while block.take(1, 1.0) >= 0:
            mine += 1
            if mine % 10 == 0 and block.give_back(1, 1.0):
                given_back += 1
        taken.append(mine - given_back)

    at_once(take)
    settlement = block.close(1.0)
    assert settlement is not None
    assert sum(taken) == settlement.spent_calls == settlement.spent_cost == units
    assert block.close(1.0) is None


@pytest.mark.usefixtures("frantic")
def test_a_block_that_closes_under_a_race_tells_exactly_what_was_spent() -> None:
    decision = Decision(Check(TENANT, ENDPOINT), True, "ok", "", 0, 0, 0, 0, 0, 1)
    taken: list[int] = []
    settled = []
    for _ in range(20):
        block = Block(Grant(10**9, 10**9, 10**12, b"r", ()), decision, 0.0)
        started = threading.Event()

        def take(block: Block = block, started: threading.Event = started) -> None:
            mine = 0
            while block.take(3, 1.0) >= 0:
                mine += 1
                started.set()
            taken.append(mine)

        threads = [threading.Thread(target=take) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        started.wait(WAIT_S)
        settled.append(block.close(1.0))
        for thread in threads:
            thread.join(WAIT_S)
    assert sum(taken) == sum(one.spent_calls for one in settled if one is not None)
    assert sum(taken) * 3 == sum(one.spent_cost for one in settled if one is not None)


@pytest.mark.usefixtures("frantic")
@pytest.mark.parametrize("quota", [2_000, PLENTY])
def test_racing_threads_pass_exactly_the_limit_and_all_is_accounted(
    valkey: redis.Redis, valkey_url: str, quota: int
) -> None:
    publish(valkey, configuration(limit("all", "fixed_window", limit=quota, window="1d")))
    allowed: list[int] = []
    with Limiter.from_url(valkey_url, budget_ms=60_000, leases=True) as limiter:
        allowance = limiter.allowance(tenant=TENANT, endpoint=ENDPOINT)

        def check() -> None:
            checks = (limiter.check(tenant=TENANT, endpoint=ENDPOINT).allowed for _ in range(500))
            allowed.append(sum(checks) + sum(allowance.spend() for _ in range(500)))

        at_once(check)
        assert limiter.degraded == 0
    asked = THREADS * 1_000
    assert sum(allowed) == min(quota, asked)
    assert usage(valkey)["a"] == min(quota, asked)
    assert usage(valkey)["d"] == max(0, asked - quota)


def in_child(limiter: Limiter, answer: Connection) -> None:
    book = limiter._leases
    assert book is not None
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    answer.send((leased([decision]), decision.degraded, len(book.take_dues(100, everything=True))))


def test_a_forked_child_neither_spends_nor_settles_its_parents_leases(valkey: redis.Redis, valkey_url: str) -> None:
    publish(valkey, configuration(limit("all", "fixed_window", limit=PLENTY, window="1d")))
    limiter = OnThreads(valkey_url, budget_ms=60_000, leases=True)
    Clock(limiter)
    block = with_block(limiter)
    allowance = limiter.limiter.allowance(tenant=TENANT, endpoint=ENDPOINT)
    assert allowance.spend()
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=in_child, args=(limiter.limiter, sender))
    child.start()
    assert receiver.recv() == (0, False, 0)
    child.join(WAIT_S)
    assert block.is_open
    assert leased(ask(limiter, 1))
    limiter.close()
    assert usage(valkey) == {"a": FIRST_ASK + 3}


def test_an_old_allowance_in_a_forked_child_has_nothing_to_spend(valkey: redis.Redis, valkey_url: str) -> None:
    publish(valkey, configuration(limit("all", "fixed_window", limit=PLENTY, window="1d")))
    limiter = OnThreads(valkey_url, budget_ms=60_000, leases=True)
    Clock(limiter)
    block = with_block(limiter)
    book_of(limiter).forget()  # as in a child
    assert not block.is_open
    assert not leased(ask(limiter, 1))
    limiter.close()
    assert usage(valkey) == {"a": FIRST_ASK + 1}, "what the block paid for is the parent's to tell"


@pytest.mark.parametrize("make_limiter", [OnThreads, OnLoop], ids=["threads", "loop"], indirect=True)
def test_an_allowance_spends_the_blocks_of_its_key(
    valkey: redis.Redis, make_limiter: MakeLimiter, valkey_url: str
) -> None:
    publish(valkey, configuration(limit("all", "fixed_window", "key", limit=3_000, window="1d", unit="cost")))
    limiter = make_limiter(valkey_url, leases=True)
    Clock(limiter)

    def spend(times: int, cost: Any = None) -> list[bool]:
        if isinstance(limiter, OnThreads):
            return [allowance.spend(cost) for _ in range(times)]  # type: ignore[misc]

        async def each() -> list[bool]:
            return [await allowance.spend(cost) for _ in range(times)]  # type: ignore[misc]

        return limiter.run(each())

    allowance = limiter.limiter.allowance(tenant=TENANT, endpoint=COSTLY_ENDPOINT, subject={"key": "k"})
    valkey.config_resetstat()
    assert spend(50) == [True] * 50
    assert spend(50, 1) == [True] * 50
    assert fcalls(valkey) < 100
    assert spend(1, 2_990) == [False]
    denied = allowance.denied
    assert denied is not None
    assert denied.limit == "all"
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match="cost must be a whole number"):
            spend(1, wrong)
    limiter.close()
    assert usage(valkey)["a"] == 100


async def test_the_callbacks_of_a_server_take_leases(valkey: redis.Redis, valkey_url: str) -> None:
    publish(valkey, configuration(limit("all", "fixed_window", limit=PLENTY, window="1d")))
    found: list[Decision] = []
    async with AsyncLimiter.from_url(valkey_url, budget_ms=60_000, leases=True) as limiter:
        assert limiter._leases is not None
        limiter._leases._clock = lambda: 1_000.0
        driver = limiter.callbacks()
        for number in range(30):
            answer: asyncio.Future[Decision] = driver.pipeline.loop.create_future()
            driver.check(Check(TENANT, ENDPOINT, holder=f"h{number}"), answer.set_result, answer.set_exception)
            found.append(await answer)
        assert limiter.degraded == 0
    assert leased(found) == 30 - FIRST_ASK
    assert usage(valkey) == {"a": 30}


def test_without_leases_an_allowance_asks_every_time(valkey: redis.Redis, valkey_url: str) -> None:
    publish(valkey, configuration(limit("all", "fixed_window", limit=20, window="1d")))
    with Limiter.from_url(valkey_url, budget_ms=60_000) as limiter:
        allowance = limiter.allowance(tenant=TENANT, endpoint=ENDPOINT)
        assert sum(allowance.spend() for _ in range(30)) == 20


def test_settlements_that_cannot_be_sent_are_bounded() -> None:
    now = [0.0]
    book = LeaseBook(100, 64, lambda: now[0])
    decision = Decision(Check(TENANT, ENDPOINT), True, "ok", "", 0, 0, 0, 0, 0, 1)
    for number in range(11_000):
        settlement = Block(Grant(8, 8, 100_000, b"%d" % number, ()), decision, 0.0).close(1.0)
        assert settlement is not None
        book.put_back(settlement)
    assert len(book.take_dues(20_000)) == 10_000
