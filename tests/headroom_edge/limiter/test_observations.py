from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis

from headroom_edge import AsyncLimiter, Limiter, keys
from headroom_edge.errors import StoreError
from headroom_edge.observations import CELLS_KEPT, ENDS, Observation, Observations, bucket_of
from tests.headroom_edge.limiter.both import Either, MakeLimiter, until
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT

NOW_S = 1_800_000_000.25


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_answers_of_one_second_add_up(clock: Clock) -> None:
    observations = Observations(clock)
    for seconds in (0.010, 0.010, 0.2):
        observations.add("rides:get", 200, seconds)
    observations.add("rides:get", 503, 0.010)
    clock.now_s += 1
    observations.add("rides:get", 204, 0.010)
    ten, more = bucket_of(10_000), bucket_of(200_000)
    assert observations.take() == [
        [
            *("750", "2", f"{ten}:2,{more}:1", b"rides:get"),
            *("750", "5", f"{ten}:1", b"rides:get"),
            *("0", "2", f"{ten}:1", b"rides:get"),
        ]
    ]
    assert observations.take() == []


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 1e-9, 0.001, 3_600.0, 1e30])
def test_any_duration_has_a_bucket_that_is_at_most_a_twentieth_off(clock: Clock, seconds: float) -> None:
    observations = Observations(clock)
    observations.add("rides:get", 200, seconds)
    ((_, _, histogram, _),) = observations.take()
    assert isinstance(histogram, str)
    end = ENDS[int(histogram.partition(":")[0])]
    assert end >= min(max(1, int(seconds * 1e6)), ENDS[-1]) >= (end - 1) / 1.05 - 1


def test_invented_endpoints_do_not_fill_the_memory(clock: Clock) -> None:
    observations = Observations(clock)
    for number in range(3 * CELLS_KEPT):
        observations.add(f"invented-{number}", 200, 0.001)
    assert sum(len(words) for words in observations.take()) == 4 * CELLS_KEPT


def test_what_is_older_than_the_store_wants_is_left_out(clock: Clock) -> None:
    observations = Observations(clock)
    observations.add("rides:get", 200, 0.001)
    clock.now_s += 3_600
    assert observations.take() == []


def test_no_thread_loses_another_ones(clock: Clock) -> None:
    observations = Observations(clock)

    def add() -> None:
        for _ in range(2_000):
            observations.add("rides:get", 200, 0.001)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ((_, _, histogram, _),) = observations.take()
    assert histogram == f"{bucket_of(1_000)}:8000"


def observed(store: redis.Redis) -> list[Observation]:
    found: Any = store.lrange(f"{keys.ALL}:a", 0, -1)
    return [Observation.parse(item) for item in found]


def test_the_store_is_told_in_one_call(store: redis.Redis, limiter: Either) -> None:
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    for endpoint in ("rides:get", "rides:get", "é\ud800 x"):
        limiter_of(limiter).observe(endpoint=endpoint, status=200, seconds=0.02)
    limiter.attend()
    first, second = observed(store)
    assert (first.endpoint, first.status_class, first.counts) == ("rides:get", 2, {bucket_of(20_000): 2})
    assert second.endpoint.endswith(" x")
    calls: Any = store.hget(f"{keys.ALL}:u", "o")
    assert int(calls) == 2


def test_it_is_told_without_being_asked(store: redis.Redis, limiter: Either, tick_s: Callable[[float], None]) -> None:
    tick_s(0.01)
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    limiter_of(limiter).observe(endpoint=ENDPOINT, status=200, seconds=0.02)
    until(lambda: bool(observed(store)))


def test_without_a_store_they_are_lost_quietly(make_limiter: MakeLimiter) -> None:
    limiter = make_limiter("redis://127.0.0.1:1/0")
    for _ in range(10):
        limiter.check(tenant=TENANT, endpoint=ENDPOINT)
        limiter_of(limiter).observe(endpoint=ENDPOINT, status=200, seconds=0.02)
    with suppress(StoreError):
        limiter.attend()
    assert limiter.core.chores.observations.take() == []


def limiter_of(either: Either) -> Limiter | AsyncLimiter:
    return either.limiter


@pytest.mark.parametrize("item", [b"", b"x 2 1:1 e", b"69198220 2 1:1 ", b"69198220 2 1;1 e", b"69198220 22 1:1 e"])
def test_what_is_no_item_is_said_so(item: bytes) -> None:
    with pytest.raises(ValueError, match="is not an observation"):
        Observation.parse(item)
