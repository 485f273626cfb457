"""Threads that give up at every possible moment: whoever gets an answer gets its own, and nothing stays behind."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from random import Random
from types import FrameType

import pytest
import redis

from headroom_edge.check import pack
from headroom_edge.errors import StoreError
from headroom_edge.store.address import Address, parse_url
from headroom_edge.store.connection import BlockingConnection
from headroom_edge.store.pool import ConnectionPool

CALLERS = 8
ROUNDS = 150


class Interrupted(BaseException):
    """What a soft time limit of a task queue does to the main thread."""


def one_server(url: str) -> Address:
    address = parse_url(url)
    assert isinstance(address, Address)
    return address


@pytest.fixture(params=[1, 3])
def pool(request: pytest.FixtureRequest, valkey: redis.Redis, valkey_url: str) -> Iterator[ConnectionPool]:
    pool = ConnectionPool(partial(BlockingConnection, one_server(valkey_url), 5.0), request.param)
    yield pool
    pool.close()


def echo(pool: ConnectionPool, text: str, budget_s: float) -> None:
    """Two commands, so that replies which slip by one are found out."""
    words = [f"{text}-{number}" for number in range(2)]
    replies = pool.exchange([pack(("ECHO", word)) for word in words], time.monotonic() + budget_s)
    assert replies == [word.encode() for word in words]


@contextmanager
def callers(ask: Callable[[int], None]) -> Iterator[list[BaseException]]:
    """CALLERS threads that ask until they are done; what went wrong in them."""
    wrong: list[BaseException] = []

    def call(number: int) -> None:
        try:
            ask(number)
        except BaseException as error:  # noqa: BLE001 - an assertion in a thread would be lost
            wrong.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    yield wrong
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)


def assert_it_still_works(pool: ConnectionPool) -> None:
    for number in range(20):
        echo(pool, f"after-{number}", 10)
    assert pool._waiting == []


def test_callers_that_give_up_disturb_nobody(pool: ConnectionPool) -> None:
    def ask(number: int) -> None:
        random = Random(number)
        for turn in range(ROUNDS):
            with suppress(StoreError):
                echo(pool, f"{number}-{turn}", random.choice([0.0001, 0.0005, 0.001, 0.002, 5.0]))

    with callers(ask) as wrong:
        pass
    assert wrong == []
    assert_it_still_works(pool)


def test_a_main_thread_that_is_interrupted_disturbs_nobody(pool: ConnectionPool) -> None:
    done = threading.Event()

    def ask(number: int) -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            with suppress(StoreError):
                echo(pool, f"{number}-{turn}", 0.5)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise Interrupted

    random = Random(7)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with callers(ask) as wrong:
            for turn in range(ROUNDS):
                with suppress(Interrupted):
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.004))
                    for step in range(50):
                        with suppress(StoreError):
                            echo(pool, f"main-{turn}-{step}", 0.5)
                    signal.setitimer(signal.ITIMER_REAL, 0)
            done.set()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert wrong == []
    assert_it_still_works(pool)
