"""F29: a process dies or sleeps with a lease, the store dies, a reply is lost, the library is gone.

Never over the limit; at most one lease lost per process; usage exact for what was acknowledged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis

from headroom_edge.lua_library import ensure_loaded
from headroom_edge.store.breaker import BreakerSettings
from tests.faults.lease_worker import ALLOWED, ASKED, Workers
from tests.headroom_edge.limiter.both import Either, MakeLimiter, OnLoop, OnThreads, until
from tests.headroom_edge.limiter.leased import FIRST_ASK, Clock, ask, block_of, book_of, leased, usage, with_block
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish
from tests.sweeps import each_once
from tests.valkeys import SpareValkey

both = pytest.mark.parametrize("make_limiter", [OnThreads, OnLoop], ids=["threads", "loop"], indirect=True)
PLENTY = 10_000_000
QUICK = BreakerSettings(failures=3, of=20, cooldown_s=0.02)
SpareValkeys = Callable[..., SpareValkey]


def remaining(store: redis.Redis) -> int:
    reply: Any = store.fcall("hr_peek", 1, "hr:{62}", TENANT, ENDPOINT, "1")
    return int(reply[4]) + int(reply[0])  # a peek that would pass tells what remains after it


def assert_nothing_was_spent_twice(store: redis.Redis, workers: Workers, quota: int) -> str:
    """Of a window that is longer than the test. Returns the figures."""
    allowed, lost = workers.tally.total(ALLOWED), workers.lost_at_most()
    charged, counted = quota - remaining(store), usage(store)["a"]
    figures = (
        f"{workers.tally.total(ASKED)} asked, {allowed} allowed, {workers.kills} killed, "
        f"{charged - allowed} charged and lost, {allowed - counted} not in usage, bound {lost}"
    )
    assert allowed <= quota, figures
    assert charged - allowed >= -workers.kills, figures
    assert charged - allowed <= lost, figures
    assert -workers.kills <= allowed - counted <= lost, figures
    return figures


def busy(workers: Workers, more: int = 2_000) -> None:
    """Until each was allowed this many more."""
    before = workers.tally.of(ALLOWED)
    until(lambda: all(now - then >= more for now, then in zip(workers.tally.of(ALLOWED), before, strict=True)))


def test_processes_that_die_or_sleep_with_a_lease_never_pass_the_limit(
    spare_valkey: SpareValkeys, tmp_path: Path
) -> None:
    server = spare_valkey()
    with server.client() as store:
        publish(store, configuration(limit("all", "fixed_window", limit=PLENTY, window="1d")))
        workers = Workers(server.url, tmp_path / "tally", 3)
        with workers.running():
            busy(workers, 200)
            workers.kill(0)
            workers.stop_for(1, 0.3)
            busy(workers, 200)
        assert_nothing_was_spent_twice(store, workers, PLENTY)


def test_processes_share_a_small_limit_to_the_last_unit(spare_valkey: SpareValkeys, tmp_path: Path) -> None:
    server = spare_valkey()
    quota = 3_000
    with server.client() as store:
        publish(store, configuration(limit("all", "fixed_window", limit=quota, window="1d")))
        workers = Workers(server.url, tmp_path / "tally", 3)
        with workers.running():
            until(lambda: workers.tally.total(ALLOWED) >= quota)
            until(lambda: remaining(store) == 0)
        assert workers.tally.total(ALLOWED) == quota == usage(store)["a"]
        assert usage(store)["d"] == workers.tally.total(ASKED) - quota


@pytest.fixture
def hurt(spare_valkey: SpareValkeys) -> Iterator[tuple[SpareValkey, redis.Redis]]:
    # By default the server may put off writes while the disk is busy, and a kill would lose them.
    server = spare_valkey("--appendfsync", "always", durable=True)
    with server.client() as store:
        yield server, store


@pytest.mark.parametrize(
    ("make_limiter", "mode"), each_once([OnThreads, OnLoop], ["open", "closed", "local"]), indirect=["make_limiter"]
)
def test_a_block_is_spent_while_the_store_is_away_and_then_the_failure_mode_decides(
    hurt: tuple[SpareValkey, redis.Redis], make_limiter: MakeLimiter, mode: Any
) -> None:
    server, store = hurt
    publish(store, configuration(limit("all", "fixed_window", limit=PLENTY, window="1d", on_failure=mode)))
    limiter = make_limiter(server.url, leases=True, breaker=QUICK, fail="closed")
    Clock(limiter)
    block = with_block(limiter)
    limiter.attend()  # a `local` plan is fetched
    server.kill()
    without_store = ask(limiter, block.calls)
    assert leased(without_store) == 16
    assert limiter.degraded == 0
    (after,) = ask(limiter, 1)
    assert (after.failure, after.allowed) == (mode, mode != "closed")
    server.start()
    until(lambda: not ask(limiter, 1)[0].degraded)
    acknowledged = FIRST_ASK + 16 + 1
    until(lambda: settled(limiter))
    assert usage(store)["a"] == acknowledged


def settled(limiter: Either) -> bool:
    limiter.attend()
    book = book_of(limiter)
    dues = book.take_dues(1_000, everything=True)
    for due in dues:
        book.put_back(due)
    return not dues


@both
def test_a_block_is_not_spent_past_its_end_while_the_store_is_away(
    hurt: tuple[SpareValkey, redis.Redis], make_limiter: MakeLimiter
) -> None:
    server, store = hurt
    publish(store, configuration(limit("all", "fixed_window", limit=PLENTY, window="1d", on_failure="closed")))
    limiter = make_limiter(server.url, leases=True, breaker=QUICK)
    clock = Clock(limiter)
    with_block(limiter)
    server.kill()
    assert leased(ask(limiter, 1))
    clock.now += 0.2  # as after a SIGSTOP
    assert not ask(limiter, 1)[0].allowed
    server.start()
    until(lambda: not ask(limiter, 1)[0].degraded)


@both
def test_a_lost_reply_loses_one_block_and_counts_nothing_twice(
    hurt: tuple[SpareValkey, redis.Redis], make_limiter: MakeLimiter
) -> None:
    server, store = hurt
    publish(store, configuration(limit("all", "fixed_window", limit=PLENTY, window="1d", on_failure="closed")))
    limiter = make_limiter(server.url, leases=True, breaker=QUICK)
    Clock(limiter)
    ask(limiter, with_block(limiter).calls)
    server.pause()
    (lost,) = ask(limiter, 1, budget_ms=50)  # it settles 16, and asks for 32
    assert lost.degraded
    server.resume()
    until(lambda: usage(store)["a"] == FIRST_ASK + 16 + 1)  # the store did it all; only its reply is lost
    until(lambda: not ask(limiter, 1)[0].degraded)
    until(lambda: settled(limiter))
    assert usage(store)["a"] == FIRST_ASK + 16 + 1 + 1, "settled again, counted once"
    assert PLENTY - remaining(store) == FIRST_ASK + 16 + 1 + 1 + 32, "the block that nobody got is lost"


@both
def test_a_missing_library_loses_nothing(valkey: redis.Redis, make_limiter: MakeLimiter, valkey_url: str) -> None:
    publish(valkey, configuration(limit("all", "fixed_window", limit=PLENTY, window="1d")))
    limiter = make_limiter(valkey_url, leases=True)
    clock = Clock(limiter)
    block = with_block(limiter)
    valkey.function_flush("SYNC")
    ask(limiter, block.calls + 1)
    assert block_of(limiter).granted_calls == 32
    valkey.function_flush("SYNC")
    clock.now += 1
    limiter.attend()  # chores load no library; the settlement waits for the next check
    ask(limiter, 1)
    limiter.attend()
    valkey.function_flush("SYNC")
    ask(limiter, 20)
    valkey.function_flush("SYNC")
    limiter.close()
    assert limiter.degraded == 0
    assert usage(valkey) == {"a": FIRST_ASK + 16 + 1 + 1 + 20}


@contextmanager
def flushing(store: redis.Redis, every_s: float) -> Iterator[None]:
    done = threading.Event()

    def flush() -> None:
        while not done.wait(every_s):
            store.function_flush("SYNC")

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.faults_long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("quota", [20_000, PLENTY])
def test_eight_processes_killed_stopped_and_restarted_at_random(
    spare_valkey: SpareValkeys, tmp_path: Path, figures: Callable[[str], None], quota: int
) -> None:
    server = spare_valkey(durable=True)
    random = Random(11)
    with server.client() as store:
        publish(store, configuration(limit("all", "fixed_window", limit=quota, window="1d")))
        workers = Workers(server.url, tmp_path / "tally", 8)
        with workers.running(), flushing(store, 0.5):
            for _ in range(40):
                time.sleep(random.uniform(0.2, 1.0))
                number = random.randrange(8)
                if random.random() < 0.7:
                    workers.kill(number)
                else:
                    workers.stop_for(number, random.uniform(0.05, 0.5))
        ensure_loaded(store)
        figures(assert_nothing_was_spent_twice(store, workers, quota))


@pytest.mark.faults_long
@pytest.mark.timeout(900)
def test_a_bucket_is_never_overdrawn_by_processes_that_die(
    spare_valkey: SpareValkeys, tmp_path: Path, figures: Callable[[str], None]
) -> None:
    server = spare_valkey()
    rate = burst = 400  # far less than they ask for
    random = Random(12)
    with server.client() as store:
        publish(store, configuration(limit("all", "token_bucket", rate=rate, per="1s", burst=burst)))
        workers = Workers(server.url, tmp_path / "tally", 8)
        start = time.monotonic()
        overdrawn = []
        with workers.running():
            for _ in range(30):
                time.sleep(random.uniform(0.3, 1.2))
                workers.kill(random.randrange(8))
                allowed = workers.tally.total(ALLOWED)  # before the clock, so that the bound is the larger one
                overdrawn.append(allowed - burst - rate * (time.monotonic() - start))
        asked, allowed = workers.tally.total(ASKED), workers.tally.total(ALLOWED)
        figures(f"{asked} asked, {allowed} allowed, at most {max(overdrawn):.0f} over the bucket (0 or less holds)")
        assert max(overdrawn) <= 0
