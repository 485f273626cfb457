"""F7: the library disappears from the store, again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import redis

from headroom_edge import Check, Decision
from tests.headroom_edge.limiter.both import Either, MakeLimiter
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish
from tests.valkeys import SpareValkey

LIMIT = 1_000_000


def ask_while_flushing(valkey: redis.Redis, limiter: Either, rounds: int, callers: int) -> list[Decision]:
    """`callers` at once ask `rounds` times each, in one FCALL or in three, while functions are flushed."""
    answers: list[Decision] = []
    done = threading.Event()

    def flush() -> None:
        while not done.wait(0.1):
            valkey.function_flush("SYNC")

    def call() -> None:
        for number in range(rounds):
            answers.extend(limiter.check_many([Check(TENANT, ENDPOINT)] * (3 if number % 10 == 0 else 1)))

    threads = [threading.Thread(target=call) for _ in range(callers)]
    flusher = threading.Thread(target=flush)
    for thread in [flusher, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    flusher.join()
    return answers


def assert_each_was_counted_once(limiter: Either, answers: list[Decision]) -> None:
    assert limiter.degraded == 0
    assert sorted(LIMIT - answer.remaining for answer in answers) == list(range(1, len(answers) + 1))
    left = limiter.peek(tenant=TENANT, endpoint=ENDPOINT).remaining
    assert LIMIT - left == len(answers) + 1


@pytest.fixture
def limiter(valkey: redis.Redis, make_limiter: MakeLimiter, valkey_url: str) -> Either:
    publish(valkey, configuration(limit("all", "fixed_window", limit=LIMIT, window="1d")))
    return make_limiter(valkey_url)


def test_one_missing_library_is_loaded_and_the_request_counted_once(valkey: redis.Redis, limiter: Either) -> None:
    answers = [limiter.check(tenant=TENANT, endpoint=ENDPOINT)]
    valkey.function_flush("SYNC")
    answers += limiter.at_once(20, tenant=TENANT, endpoint=ENDPOINT)
    assert_each_was_counted_once(limiter, answers)


def test_flushed_under_load_each_request_is_counted_once(valkey: redis.Redis, limiter: Either) -> None:
    assert_each_was_counted_once(limiter, ask_while_flushing(valkey, limiter, rounds=200, callers=4))


def test_a_library_that_may_not_be_loaded_is_a_failure_and_no_error(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter
) -> None:
    server = spare_valkey()
    with server.client() as client:
        client.acl_setuser(
            "enforcer", enabled=True, nopass=True, keys=["*"], categories=["+@all"], commands=["-function|load"]
        )
    limiter = make_limiter(server.url.replace("redis://", "redis://enforcer:any@"), fail="closed")
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).failure == "closed"


@pytest.mark.faults_long
@pytest.mark.timeout(600)
def test_flushed_for_a_long_time(valkey: redis.Redis, limiter: Either, figures: Callable[[str], None]) -> None:
    answers = ask_while_flushing(valkey, limiter, rounds=10_000, callers=6)
    assert_each_was_counted_once(limiter, answers)
    figures(f"{len(answers)} requests, each counted once")
