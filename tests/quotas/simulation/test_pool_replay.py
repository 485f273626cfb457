"""A pool is replayed with all its members in one order of time."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headroom_edge.algorithms import chain
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import PRIORITIES
from quotas.observations.arrays import whole_numbers
from quotas.simulation.pool_replay import BETWEEN, BORROWED, CAUSES, MOST_ARRIVALS, OWN, PoolMember, replay_pool
from quotas.simulation.scenarios.model import BASE_US

SECONDS = 12


def pool(**fields: Any) -> Pool:
    return Pool.parse({"rate": 1_000, "burst": 250, "reserve": 50, **fields})


def member(name: str, rate: int, begin_s: int = 0, end_s: int = SECONDS, **fields: Any) -> PoolMember:
    times_us = BASE_US + begin_s * SECOND_US + np.arange(rate * (end_s - begin_s)) * SECOND_US // rate
    share = Borrowing.parse({"parent": "org", **fields})
    return PoolMember(name, share, whole_numbers(times_us), np.ones(len(times_us), np.int64))


@pytest.mark.parametrize(
    ("rates", "weights", "fair"),
    [((3_000, 3_000, 3_000), (1, 2, 4), (143, 286, 571)), ((5_000, 500, 200), (1, 1, 1), (400, 400, 200))],
)
def test_loans_are_shared_by_weight(rates: tuple[int, ...], weights: tuple[int, ...], fair: tuple[int, ...]) -> None:
    members = [member(str(i), rate, weight=weight) for i, (rate, weight) in enumerate(zip(rates, weights, strict=True))]
    for one, wanted in zip(replay_pool(pool(), members), fair, strict=True):
        assert one.borrowed / SECONDS == pytest.approx(wanted, rel=0.1)
        assert one.own == 0
        assert one.asked == one.borrowed + one.denied
        assert one.denied == sum(one.denied_by.values())


def test_own_shares_are_never_refused_while_others_borrow() -> None:
    loud = member("loud", 5_000, assured=100, burst=25, ceiling=1_000)
    quiet = member("quiet", 100, begin_s=5, assured=100, burst=25, ceiling=1_000)
    found = replay_pool(pool(), [loud, quiet])
    assert found[1].own == found[1].asked
    assert found[0].own + found[0].borrowed + found[1].own <= 1_000 * SECONDS + 250


def test_a_ceiling_is_the_cause_when_the_pool_has_room() -> None:
    (found,) = replay_pool(pool(), [member("a", 500, assured=10, ceiling=100, ceiling_burst=10, burst=10)])
    assert found.denied_by == {"ceiling": found.denied, "share": 0, "pool": 0}
    assert found.own + found.borrowed == pytest.approx(100 * SECONDS, abs=10)


def random_tree(draw: random.Random) -> tuple[Pool, dict[str, Borrowing], list[PoolMember]]:
    rate, burst = draw.choice((50, 333, 1_000)), draw.randint(5, 400)
    teams = {name: share(draw, rate, "org") for name in "xyz"[: draw.randint(0, 3)]}
    members = []
    for number in range(draw.randint(1, 5)):
        gaps = [
            int(draw.expovariate(rate * draw.choice((0.2, 1, 4))) * SECOND_US)
            + draw.choice((0,) * 500 + (3 * SECOND_US,))
            for _ in range(300)
        ]
        times_us = whole_numbers(BASE_US + np.cumsum(gaps))
        costs = whole_numbers([draw.choice((1, 1, 1, 2, 7)) for _ in gaps])
        team = draw.choice(("", *teams))
        own = None if not team and draw.random() < 0.1 else share(draw, rate, team or "org")
        members.append(PoolMember(str(number), own, times_us, costs, draw.choice(PRIORITIES), team))
    return pool(rate=rate, burst=burst, reserve=draw.randint(0, burst)), teams, members


def share(draw: random.Random, rate: int, parent: str) -> Borrowing:
    fields: dict[str, Any] = {"parent": parent, "assured": draw.choice((0, draw.randint(1, rate)))}
    if fields["assured"]:
        fields |= {"burst": draw.randint(1, 50)}
        fields["reserve"] = draw.randint(0, fields["burst"])
    if draw.random() < 0.6:
        fields["ceiling"] = fields["assured"] + draw.randint(1, rate)
        fields["ceiling_burst"] = fields.get("burst", 1) + draw.randint(0, 100)
    if draw.random() < 0.5:
        fields["weight"] = draw.randint(1, 300)
    return Borrowing.parse(fields)


def one_by_one(root: Pool, teams: dict[str, Borrowing], members: list[PoolMember]) -> list[list[int]]:
    """The same through the chain model, with the records and memory that the store would have."""
    states: dict[str, Any] = {}
    tallies: dict[str, Any] = {}
    order = sorted(
        (int(t_us), number, place) for number, one in enumerate(members) for place, t_us in enumerate(one.times_us)
    )
    found: list[list[int]] = [[] for _ in members]
    for t_us, number, place in order:
        member = members[number]
        path: list[tuple[str, Pool | Borrowing]] = [("pool", root)]
        if member.between:
            path.insert(0, (f"team {member.between}", teams[member.between]))
        if member.share:
            path.insert(0, (member.name, member.share))
        links = [
            chain.Link(sharing, states.get(key), tallies.get(key) if key in states else None) for key, sharing in path
        ]
        ruling = chain.decide(links, t_us, int(member.costs[place]), member.priority)
        for ask in ruling.asks:
            if tally := ruling.learn(ask):
                tallies[path[ask.lender][0]] = tally
        if ruling.is_admitted:
            states |= {key: node.state for (key, _), node in zip(path, ruling.after.nodes, strict=True)}
        lent = OWN if not ruling.lender else BORROWED if ruling.lender == len(path) - 1 else BETWEEN
        found[number].append(lent if ruling.is_admitted else CAUSES[ruling.cause])
    return found


@pytest.mark.parametrize("seed", range(40))
def test_it_decides_as_the_chain_model(seed: int) -> None:
    tree = random_tree(random.Random(seed))
    found = replay_pool(tree[0], tree[2], tree[1])
    assert [one.outcomes.tolist() for one in found] == one_by_one(*tree)


def test_a_pool_that_is_asked_itself_refuses_the_least_important_first() -> None:
    members = [replace(member(name, 600), share=None, priority=name) for name in PRIORITIES]
    critical, high, normal, sheddable = replay_pool(pool(), members)
    assert critical.denied == 0
    assert high.own == pytest.approx(400 * SECONDS, rel=0.1)
    assert (normal.own + sheddable.own) / SECONDS < 50


def test_too_many_arrivals_are_refused_in_one_sentence() -> None:
    times_us = np.zeros(MOST_ARRIVALS + 1, np.int64)
    with pytest.raises(ValueError, match="too many for one replay of a pool"):
        replay_pool(pool(), [PoolMember("a", Borrowing.parse({"parent": "org"}), times_us, times_us + 1)])


def test_a_pool_without_members_has_no_results() -> None:
    assert replay_pool(pool(), []) == []
