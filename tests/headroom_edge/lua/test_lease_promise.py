"""Never above the limit, however leases, direct requests, renewals, returns and crashes follow one another.

The rules that make it so are left out one by one: each time, the same histories must exceed the limit.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from headroom_edge import lua_library
from tests.headroom_edge.lua.lease_scenarios import KINDS, prepared, run
from tests.headroom_edge.lua.lease_truth import OvershootError
from tests.headroom_edge.lua.test_agreement import server
from tests.valkeys import SpareValkey

__all__ = ["server"]  # a fixture

SEEDS, OPERATIONS = range(30), 150

# Name → the kind whose histories show it, the line of the library, and the wrong line.
MUTANTS = {
    "a bucket charged at the grant": (
        "token_bucket",
        "return max(backlog_of(limit, out, o, now), lasts * limit.Q)",
        "return backlog_of(limit, out, o, now)",
    ),
    "a log charged at the grant": (
        "sliding_log",
        "out[o + 1] + units, max(now + lasts, out[o + 2])",
        "out[o + 1] + units, max(now, out[o + 2])",
    ),
    "units back without regard to the latest end": (
        "token_bucket",
        "local above = (number - back - max(now, note.ends)) * Q",
        "local above = (number - back - now) * Q",
    ),
    "units back without regard to what came back before": (
        "token_bucket",
        "note.back[o] = back + ceil(amount / Q)",
        "note.back[o] = 0",
    ),
    "a lease that outlives its window": (
        "fixed_window",
        "function fixed.rest(limit, out, o, now) return (out[o] + 1) * limit.W - now - 1 end",
        "function fixed.rest() return huge end",
    ),
    "a lease that outlives the window of a sliding counter": (
        "sliding_counter",
        "function counter.rest(limit, out, o, now) return (out[o] + 1) * limit.W - now - 1 end",
        "function counter.rest() return huge end",
    ),
    "entries that leave a log by its newest entry": (
        "sliding_log",
        "return time, live(limit, state, o, key, now - limit.W)",
        "return time, live(limit, state, o, key, time - limit.W)",
    ),
    "a receipt that is settled twice": (
        "fixed_window",
        "call('SET', mark_of(found, settlement), '1', 'PX', KEPT_MS)",
        "",
    ),
}


def mutated(name: str) -> tuple[str, str]:
    """The kind, and the library with the wrong line."""
    kind, right, wrong = MUTANTS[name]
    source = lua_library.simulation_source()
    assert source.count(right) == 1, f"the library no longer has the line that {name!r} replaces"
    return kind, source.replace(right, wrong)


@pytest.fixture
def client(server: SpareValkey) -> Iterator[redis.Redis]:
    with server.client() as found:
        yield found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(600)
def test_no_history_exceeds_the_limit(client: redis.Redis, kind: str) -> None:
    world = prepared(client, lua_library.simulation_source())
    assert run(world, kind, SEEDS, OPERATIONS) > 0


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.timeout(600)
def test_a_wrong_rule_is_caught(client: redis.Redis, name: str) -> None:
    kind, source = mutated(name)
    world = prepared(client, source)
    with pytest.raises(OvershootError):
        run(world, kind, range(500), OPERATIONS)


@pytest.mark.faults_long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(7_200)
def test_no_history_of_four_thousand_exceeds_the_limit(client: redis.Redis, kind: str) -> None:
    world = prepared(client, lua_library.simulation_source())
    assert run(world, kind, range(10_000, 14_000), 400) > 0
