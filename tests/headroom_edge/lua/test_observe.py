"""hr_observe: what services say of their answers, and how the drain gets it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from headroom_edge import keys, lua_library
from headroom_edge.lua_library import ensure_loaded
from headroom_edge.observations import ENDS, Observation

LIST = f"{keys.ALL}:a"


@pytest.fixture
def server(valkey: redis.Redis) -> redis.Redis:
    ensure_loaded(valkey)
    return valkey


def observe(server: redis.Redis, *words: Any, key: str = keys.ALL) -> Any:
    return server.fcall("hr_observe", 1, key, *words)


def items(server: redis.Redis, key: str = LIST) -> list[Observation]:
    found: Any = server.lrange(key, 0, -1)
    return [Observation.parse(item) for item in found]


def test_answers_are_kept_in_the_second_in_which_they_began_by_the_stores_clock(server: redis.Redis) -> None:
    before: Any = server.time()
    assert observe(server, 0, 2, "104:3,105:1", "rides:get", 90_000, 5, "7:1", "with a space") == 2
    after: Any = server.time()
    now, earlier = items(server)
    assert (now.status_class, now.endpoint, now.counts) == (2, "rides:get", {104: 3, 105: 1})
    assert before[0] <= now.second <= after[0]
    assert (earlier.endpoint, earlier.counts) == ("with a space", {7: 1})
    assert before[0] - 90 <= earlier.second <= after[0] - 90 + 1


def test_the_drain_hands_them_over_like_the_counters_of_a_shard(server: redis.Redis) -> None:
    assert server.fcall("hr_drain", 1, keys.ALL, "TAKE", "first") in ("", b"")
    observe(server, 0, 2, "1:1", "rides:get")
    assert server.fcall("hr_drain", 1, keys.ALL, "TAKE", "second") in ("second", b"second")
    observe(server, 0, 2, "1:9", "rides:list")
    assert server.fcall("hr_drain", 1, keys.ALL, "TAKE", "third") in ("second", b"second")
    assert [found.endpoint for found in items(server, keys.observations_batch())] == ["rides:get"]
    assert server.hget(keys.observed_batch(), "o") in ("1", b"1")
    assert server.fcall("hr_drain", 1, keys.ALL, "DONE", "second") == 1
    assert [found.endpoint for found in items(server)] == ["rides:list"]
    assert not server.exists(keys.observations_batch(), keys.observed_batch())


def test_while_nobody_drains_the_oldest_go_and_their_number_stays(server: redis.Redis) -> None:
    for batch in range(51):
        observe(server, *[word for n in range(1_000) for word in (0, 2, "1:1", f"e{batch}-{n}")])
    assert server.llen(LIST) == 50_000
    assert items(server)[0].endpoint == "e1-0"
    assert server.hget(f"{keys.ALL}:u", "o") in ("51000", b"51000")


@pytest.mark.parametrize(
    "words",
    [
        (),
        (0, 2, "1:1"),
        (-1, 2, "1:1", "e"),
        (600_001, 2, "1:1", "e"),
        ("nan", 2, "1:1", "e"),
        (0, "22", "1:1", "e"),
        (0, "x", "1:1", "e"),
        (0, 2, "", "e"),
        (0, 2, "1:1 rides:get", "e"),
        (0, 2, "1:1," * 2_000, "e"),
        (0, 2, "1:1000000000", "e"),
        (0, 2, "1:" + "9" * 400, "e"),
        (0, 2, "1:1", ""),
        (0, 2, "1:1", "e" * 801),
        (0, 2, "1:1", "e") * 1_001,
    ],
)
def test_what_is_no_observation_is_refused_and_nothing_is_kept(server: redis.Redis, words: tuple[Any, ...]) -> None:
    good = (0, 2, "1:1", "rides:get")
    with pytest.raises(redis.ResponseError, match="HRARGS"):
        observe(server, *(good + words if len(words) == 4 else words))
    assert not server.exists(LIST)


def test_it_belongs_to_no_shard(server: redis.Redis) -> None:
    with pytest.raises(redis.ResponseError, match=r"the key is hr:\{all\}"):
        observe(server, 0, 2, "1:1", "rides:get", key="hr:{1}")


def loops(server: redis.Redis, endpoint: str, count: int) -> None:
    """As the publisher writes them."""
    rows = [[f"{endpoint}-{number}", 0, 300, 50, 300, 1_000] for number in range(count)]
    server.hset(keys.loops(), endpoint, json.dumps(rows))


def test_a_call_steps_few_loops_of_one_endpoint_however_many_there_are(server: redis.Redis) -> None:
    """A thousand would block the server for as long as all checks of a second take."""
    loops(server, "rides:get", 1_000)
    observe(server, 0, 2, "1:9", "rides:get")
    assert server.hlen(keys.loop_states()) == 32


def test_a_report_about_many_endpoints_is_counted_by_some_and_the_next_one_by_the_others(server: redis.Redis) -> None:
    words: list[Any] = []
    for number in range(400):
        loops(server, f"rides:{number}", 1)
        words += [0, 2, "1:9", f"rides:{number}"]
    observe(server, *words)
    assert server.hlen(keys.loop_states()) == 256
    observe(server, *words)
    assert server.hlen(keys.loop_states()) == 400


def test_answers_of_one_second_add_up_whatever_their_order(server: redis.Redis) -> None:
    loops(server, "rides:get", 1)
    observe(server, 0, 2, "1:9,400:1", "rides:get", 0, 5, "1:2", "rides:get", 0, 2, "400:3", "rides:get")
    state = json.loads(server.hget(keys.loop_states(), "rides:get-0") or "")
    assert [cell[1:] for cell in state["seconds"]] == [[15, 6, 13]]


def test_a_histogram_of_zeros_tells_nothing(server: redis.Redis) -> None:
    loops(server, "rides:get", 1)
    assert observe(server, 9_000, 2, "5:0", "rides:get", 3_000, 5, "5:0,6:0", "rides:get") == 2
    assert not json.loads(server.hget(keys.loop_states(), "rides:get-0") or "")["seconds"]


def test_buckets_that_no_service_has_count_as_the_longest(server: redis.Redis) -> None:
    assert f"local LAST_BUCKET = {len(ENDS) - 1} " in lua_library.source()
