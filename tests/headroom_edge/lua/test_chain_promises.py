"""What a pool promises, in the store: its bound, guaranteed shares, and fair shares of what is lent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from headroom_edge import keys, lua_library
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.policies.chains import promise
from quotas.policies.spec import Policy
from tests.headroom_edge.lua.sharing import (
    Answer,
    Arrival,
    Load,
    ask,
    excess,
    max_min,
    per_second,
    poisson,
    pool,
    share,
    steady,
)
from tests.headroom_edge.lua.world import NOW_US, TENANT, TIER, World
from tests.valkeys import SpareValkey

RATE, BURST, RESERVE = 1_000, 250, 200


@pytest.fixture
def world() -> Iterator[World]:
    """On a server where nothing expires by its own clock, however long a busy machine takes."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="hr"))
        server = stack.enter_context(SpareValkey(Path(folder), extra=("--import-mode", "yes")))
        client = server.client()
        execute: Any = client.execute_command
        execute("CLIENT", "IMPORT-SOURCE", "ON")
        yield World(client, settings={"subject_cap": 10**9})


def by_weight(world: World, weights: Mapping[str, int], assured: int = 0) -> dict[str, str]:
    """Publishes one endpoint for each weight, and returns each member's."""
    found = {member: f"rides:w{weight}" for member, weight in weights.items()}
    world.endpoints = tuple(sorted(set(found.values())))
    burst = 10 if assured else 0
    members = [
        Policy(name, name, (share(assured, burst, weight=int(name[7:]), name=name[6:]),), tier=TIER)
        for name in world.endpoints
    ]
    world.configure(Policy("all", "*", (pool(RATE, BURST, RESERVE),), tier=TIER), *members)
    return found


@pytest.mark.parametrize(
    ("weights", "demands", "assured"),
    [
        ({"a": 1, "b": 1, "c": 1}, {"a": 5_000, "b": 500, "c": 200}, 0),
        ({"a": 1, "b": 2, "c": 4}, {"a": 3_000, "b": 3_000, "c": 3_000}, 0),
        ({"a": 200, "b": 400, "c": 800}, {"a": 3_000, "b": 3_000, "c": 3_000}, 0),
        ({"a": 200, "b": 200, "c": 200}, {"a": 5_000, "b": 500, "c": 200}, 0),
        ({"a": 1, "b": 1, "c": 1}, {"a": 5_000, "b": 500, "c": 200}, 100),
    ],
)
def test_after_a_second_the_shares_are_fair(
    world: World, weights: dict[str, int], demands: dict[str, float], assured: int
) -> None:
    endpoints = by_weight(world, weights, assured)
    arrivals = poisson({member: steady(rate) for member, rate in demands.items()}, 2)
    answers = ask(world, arrivals, endpoints.__getitem__)
    asked = per_second([Answer(a.at_us, a.member, True, 0) for a in arrivals], 1, 2)
    own = {member: min(rate, assured) for member, rate in asked.items()}
    lent = max_min(RATE - sum(own.values()), {m: asked[m] - own[m] for m in asked}, weights)
    got = per_second(answers, 1, 2)
    assert {m: got[m] for m in asked} == pytest.approx({m: own[m] + lent[m] for m in asked}, rel=0.1)
    assert excess(_admitted(answers), RATE, BURST) <= 0


def _admitted(answers: list[Answer], *members: str) -> list[int]:
    return [answer.at_us for answer in answers if answer.allowed and (not members or answer.member in members)]


def _waking(at_s: float, rate: float) -> Load:
    return lambda now: rate if now >= at_s else 0


@pytest.mark.parametrize("reserve", [RESERVE, 0])
def test_a_member_that_wakes_has_its_share_at_once(world: World, reserve: int) -> None:
    """Scenario 18: one member has taken everything when the other comes."""
    world.limit_by(pool(RATE, BURST, reserve), share(100, 100, RATE, 100))
    answers = ask(world, poisson({"a": steady(3_000), "b": _waking(2, 3_000)}, 4))
    assert per_second(answers, 1, 2)["a"] == pytest.approx(RATE, rel=0.1)
    after = per_second(answers, 3, 4)
    assert after == pytest.approx({"a": RATE / 2, "b": RATE / 2}, rel=0.1)
    assert excess(_admitted(answers), RATE, BURST) <= 0
    first = [answer.allowed for answer in answers if answer.member == "b"][:100]
    # Without a reserve the pool may be full when it wakes, but not for long.
    assert all(first) if reserve else sum(first) >= 50


def test_no_guaranteed_request_is_refused_while_others_borrow(world: World) -> None:
    world.limit_by(pool(RATE, BURST, RESERVE), share(100, 100, RATE, 100))
    waking = [Arrival(2 * SECOND_US + step, "b") for step in range(100)]  # the whole burst at one instant
    steadily = [Arrival(3 * SECOND_US + step * 10_000, "b") for step in range(100)]  # then 100/s exactly
    loud = poisson({"a": steady(5_000)}, 4)
    answers = ask(world, sorted([*loud, *waking, *steadily], key=lambda arrival: arrival.at_us))
    assert [answer.at_us for answer in answers if answer.member == "b" and not answer.allowed] == []


def test_members_that_all_wake_at_once_wait_as_long_as_is_stated(world: World) -> None:
    member, guest = share(100, 100), share(0, 0, name="guest")
    lender = pool(RATE, 500, 200)
    world.priorities = {"rides:search": "critical", "rides:book": "critical"}
    world.configure(
        Policy("all", "*", (lender,), tier=TIER),
        Policy("members", "rides:search", (member,), tier=TIER),
        Policy("guests", "rides:book", (guest,), tier=TIER),
    )
    stated_us = promise(Pool(RATE, SECOND_US, 500, 200), [Borrowing(100, SECOND_US, 100, None, None, 0, "org")] * 10)
    guests = [Arrival(0, f"guest{number}") for number in range(400)]  # they borrow all that the pool lends
    wake = [Arrival(0, f"m{number % 10}") for number in range(1_000)]
    again = [Arrival(step * 1_000, name) for step in range(1, 801) for name in (f"guest{step % 400}", f"m{step % 10}")]
    answers = ask(world, [*guests, *wake, *again], lambda name: "rides:book" if "guest" in name else "rides:search")
    lent, at_once, later = answers[:400], answers[400:1_400], answers[1_400:]
    assert sum(answer.allowed for answer in lent) == 300
    assert sum(answer.allowed for answer in at_once) == 200
    waited_us = [answer.at_us for answer in later if answer.allowed and "guest" not in answer.member]
    assert len(waited_us) == 800
    assert max(waited_us) == stated_us.delay_us
    assert [answer for answer in later if answer.allowed and "guest" in answer.member] == []


@pytest.mark.parametrize("reserve", [1, 50])
def test_no_order_makes_a_member_wait_longer_than_is_stated(world: World, reserve: int) -> None:
    """Borrowers ask without a pause, and the first members always come first, with all that their shares allow."""
    lender, member = Pool(RATE, SECOND_US, BURST, reserve), Borrowing(20, SECOND_US, 20, None, None, 0, "org")
    world.priorities = {"rides:search": "critical", "rides:book": "critical"}
    world.configure(
        Policy("all", "*", (pool(RATE, BURST, reserve),), tier=TIER),
        Policy("members", "rides:search", (share(20, 20),), tier=TIER),
        Policy("guests", "rides:book", (share(0, 0, name="guest"),), tier=TIER),
    )
    guests = [Arrival(0, f"guest{number}") for number in range(BURST)]  # they borrow all that the pool lends
    wake = [Arrival(0, f"m{number % 10}") for number in range(200)]
    again = [
        Arrival(step * 1_000, name)
        for step in range(1, 400)
        for name in (f"guest{step % BURST}", *(f"m{number}" for number in range(10)))
    ]
    answers = ask(world, [*guests, *wake, *again], lambda name: "rides:book" if "guest" in name else "rides:search")
    served_us = [
        [answer.at_us for answer in answers if answer.allowed and answer.member == f"m{number}"][19]
        for number in range(10)
    ]
    stated = promise(lender, [member] * 10)
    assert stated.longest_us is not None
    assert stated.delay_us < max(served_us) <= stated.longest_us + 1_000  # they ask once a millisecond


@pytest.mark.parametrize("cost", [160, 1_000_000_000])
def test_a_member_that_asks_for_more_than_is_ever_lent_takes_nothing_from_the_others(world: World, cost: int) -> None:
    """150 of the pool's 250 are lent at once to normal requests."""
    in_cost = [replace(limit, unit="cost") for limit in (pool(RATE, BURST, 50), share(0, 0))]
    world.limit_by(*in_cost)
    calls = [(ms, 1, "modest") for ms in range(0, 4_000, 2)] + [(ms, cost, "greedy") for ms in range(0, 4_000, 50)]
    admitted = Counter[str]()
    with world.client.pipeline(transaction=False) as pipe:
        for ms, units, member in sorted(calls):
            words = (NOW_US + ms * 1_000, TENANT, "rides:search", units, "team", member)
            pipe.fcall("hs_check", 1, keys.tenant_prefix(TENANT), *words)
        for (_, _, member), reply in zip(sorted(calls), pipe.execute(), strict=True):
            admitted[member] += reply[0]
    assert admitted == {"modest": 2_000, "greedy": 0}


def test_a_reload_of_the_library_in_mid_run_keeps_the_bound(world: World) -> None:
    world.limit_by(pool(RATE, BURST, RESERVE), share(0, 0, RATE, 100))

    def reload(batch: int) -> None:
        if batch % 3 == 1:
            world.client.function_load(lua_library.simulation_source(), replace=True)

    answers = ask(world, poisson({"a": steady(2_000), "b": steady(500)}, 2), before=reload)
    assert excess(_admitted(answers), RATE, BURST) <= 0
    got = per_second(answers, 1, 2)
    assert sum(got.values()) == pytest.approx(RATE, rel=0.05)


def test_a_ceiling_holds_in_every_window(world: World) -> None:
    world.limit_by(pool(RATE, BURST, RESERVE), share(100, 50, 300, 80))
    answers = ask(world, poisson({"a": steady(2_000), "b": steady(150), "c": steady(50)}, 2))
    for member in ("a", "b", "c"):
        assert excess(_admitted(answers, member), 300, 80) <= 0
    assert per_second(answers, 1, 2)["a"] == pytest.approx(300, rel=0.05)
