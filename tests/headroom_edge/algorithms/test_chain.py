"""The arithmetic of a chain: who pays, who is refused and for how long, and how alpha follows the demand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headroom_edge.algorithms.base import SECOND_US, State, carry_over
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.chain import (
    AHEAD_US,
    EASY_MOST_US,
    EPOCH_US,
    FAIR_MOST_US,
    NEVER,
    Ask,
    Link,
    Ruling,
    Tally,
    decide,
    lending,
    refunded,
)
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import Priority

NOW_US = 1_800_000_000_000_000


def borrowing(
    assured: int = 0,
    burst: int = 0,
    ceiling: int | None = None,
    ceiling_burst: int | None = None,
    reserve: int = 0,
    weight: int | None = None,
) -> Borrowing:
    return Borrowing(assured, SECOND_US, burst, ceiling, ceiling_burst, reserve, "org", weight)


def pool(rate: int = 1_000, burst: int = 100, reserve: int = 0) -> Pool:
    return Pool(rate, SECOND_US, burst, reserve)


@dataclass
class Path:
    """A chain with its states, leaf first."""

    sharings: tuple[Pool | Borrowing, ...]
    states: list[State | None] = field(init=False)
    tallies: dict[int, Tally] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.states = [None] * len(self.sharings)

    def ask(self, at_us: int = 0, cost: int = 1, priority: Priority = "critical") -> Ruling:
        links = [
            Link(sharing, state, self.tallies.get(index))
            for index, (sharing, state) in enumerate(zip(self.sharings, self.states, strict=True))
        ]
        ruling = decide(links, NOW_US + at_us, cost, priority)
        if ruling.is_admitted:
            self.states = [node.state for node in ruling.after.nodes]
        for ask in ruling.asks:
            tally = ruling.learn(ask)
            if tally:
                self.tallies[ask.lender] = tally
        return ruling


def path(*sharings: Pool | Borrowing) -> Path:
    return Path(sharings)


def test_own_units_are_charged_all_the_way_up() -> None:
    chain = path(borrowing(10, 5, 20, 8), borrowing(20, 9), pool())
    ruling = chain.ask(cost=3)
    assert (ruling.is_admitted, ruling.lender, ruling.charged_from) == (True, None, 0)
    assert [node.left(node.sharing.burst) for node in ruling.after.nodes] == [2, 6, 97]
    assert ruling.after.nodes[0].ceiling_left == 5


def test_a_loan_is_charged_from_the_lender_upwards_and_ceilings_all_along() -> None:
    chain = path(borrowing(10, 1, 20, 8), borrowing(20, 9, 30, 9), pool())
    chain.ask()
    ruling = chain.ask(cost=2)
    assert (ruling.lender, ruling.charged_from) == (1, 1)
    assert [node.left(node.sharing.burst) for node in ruling.after.nodes] == [0, 6, 97]
    assert [node.ceiling_left for node in ruling.after.nodes[:2]] == [5, 6]


def test_the_nearest_lender_that_has_some_lends() -> None:
    chain = path(borrowing(), borrowing(20, 4, reserve=4), pool())
    ruling = chain.ask()
    assert (ruling.lender, ruling.charged_from) == (2, 2)
    assert ruling.after.nodes[1].left(4) == 4  # its own share is untouched


@pytest.mark.parametrize(("priority", "lent"), [("critical", 60), ("high", 54), ("normal", 45), ("sheddable", 30)])
def test_a_pool_lends_to_a_level_of_its_burst_by_priority(priority: Priority, lent: int) -> None:
    chain = path(pool(1, 100, 40))
    assert chain.ask(cost=lent + 1, priority=priority).retry_us == NEVER
    assert chain.ask(cost=lent, priority=priority).is_admitted
    refused = chain.ask(priority=priority)
    assert (refused.cause, refused.retry_us) == ("pool", SECOND_US)


def test_own_units_may_use_the_whole_burst_whatever_the_priority() -> None:
    chain = path(borrowing(1, 10), pool(1, 10, 10))
    assert chain.ask(cost=10, priority="sheddable").is_admitted


def test_a_share_of_a_lender_that_has_nothing_is_no_share() -> None:
    chain = path(borrowing(10, 10), borrowing(), pool())
    ruling = chain.ask()
    assert (ruling.is_admitted, ruling.lender) == (True, 2)


def test_a_ceiling_is_asked_first() -> None:
    chain = path(borrowing(10, 10, 10, 10), pool())
    assert chain.ask(cost=10).is_admitted
    refused = chain.ask(cost=2)
    assert (refused.cause, refused.retry_us, refused.asks) == ("ceiling", 200_000, ())
    assert chain.ask(cost=11).retry_us == NEVER


def test_while_nobody_is_refused_a_member_borrows_all_that_is_lent() -> None:
    chain = path(borrowing(), pool(10, 100))
    assert all(chain.ask().is_admitted for _ in range(100))
    assert chain.ask().cause == "pool"


def test_the_fair_share_lets_a_member_borrow_while_it_is_not_too_far_ahead() -> None:
    chain = path(borrowing(), pool(100, 100))
    assert chain.ask(cost=10).fair_us == 100_000  # 10 units at 100/s
    assert chain.ask(cost=100).cause == "pool"
    refused = chain.ask()
    assert (refused.cause, refused.retry_us) == ("share", 100_000 - AHEAD_US)
    assert chain.ask(100_000 - AHEAD_US).is_admitted


def test_no_loan_puts_the_next_one_off_by_more_than_a_minute() -> None:
    chain = path(borrowing(), pool(1, 1_000))
    assert chain.ask(cost=10).fair_us == EASY_MOST_US  # nobody was refused
    assert not chain.ask(cost=1_000).is_admitted
    later_us = EASY_MOST_US - AHEAD_US
    loan = chain.ask(later_us, cost=500)
    assert loan.after.nodes[0].state[4] == NOW_US + later_us + FAIR_MOST_US


def test_a_contended_lender_is_not_counted_on() -> None:
    chain = path(borrowing(1, 1), pool(10, 10, 8))
    assert [chain.ask().lender for _ in range(2)] == [None, 1]
    first, again = chain.ask(), chain.ask()
    assert first.retry_us == 100_000  # the lender has not refused anybody yet
    assert again.retry_us == SECOND_US  # its own share comes back in a second
    assert chain.ask(10 * EPOCH_US).retry_us == 0


def test_without_a_share_of_its_own_it_can_only_count_on_a_loan() -> None:
    chain = path(borrowing(), pool(10, 10, 8))
    assert chain.ask(cost=2).is_admitted
    assert [chain.ask().retry_us for _ in range(2)] == [100_000, 100_000]


def test_a_cost_that_neither_share_nor_loan_can_ever_cover_never_passes() -> None:
    chain = path(borrowing(5, 5), pool(10, 20, 12))
    assert chain.ask(cost=9).retry_us == NEVER
    assert chain.ask(cost=8).is_admitted


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        (0, (20, 0)),  # what it may borrow
        (1, (19, 100)),
    ],
)
def test_what_is_left_is_the_most_that_it_could_have_at_once(asked: int, level: tuple[int, int]) -> None:
    chain = path(borrowing(2, 2, 10_000, 20), pool(100_000, 100))
    if asked:
        chain.ask(cost=asked)
    found = chain.ask(0, cost=10_000).before.level(0)
    assert (found.remaining, found.reset_us) == level


def test_the_limits_above_the_leaf_always_admit_and_tell_their_own_level() -> None:
    chain = path(borrowing(1, 1), pool(1, 10, 10))
    chain.ask()
    refused = chain.ask()
    assert (refused.verdict(0).admitted, refused.verdict(1).admitted) == (False, True)
    assert (refused.verdict(1).remaining, refused.verdict(1).retry_us) == (9, 0)


RATE = TokenBucket(1_000, SECOND_US, 100)
EPOCH = NOW_US // EPOCH_US


@pytest.mark.parametrize(
    ("epochs", "tally", "alpha"),
    [
        (0, None, 4.0),  # within an epoch it stays
        (-5, None, 4.0),  # and when the clock goes back
        (1, None, 8.0),  # nobody was refused
        (10, None, 8.0),
        (11, None, 500.0),  # a long pause: as much as the pool has, for the weight that asks
        (1, Tally(EPOCH, 4.0, own=20, passed=100, refused=1, least=1), 3.2),
        (1, Tally(EPOCH, 4.0, own=20, passed=1_000, refused=1, least=1), 2.0),
        (1, Tally(EPOCH, 4.0, own=20, passed=1, refused=1, least=1), 8.0),
        (1, Tally(EPOCH, 4.0, own=500, passed=4, refused=1, least=1), 2.0),
        (1, Tally(EPOCH, 400.0, passed=9, least=5), 200.0),  # at most the rate by the smallest weight
        (1, Tally(EPOCH - 1, 99.0, passed=9, least=5), 8.0),  # of an earlier time than the record
    ],
)
def test_alpha_follows_what_was_asked_in_the_last_epoch(epochs: int, tally: Tally | None, alpha: float) -> None:
    found = lending(RATE, 4.0, EPOCH, tally, NOW_US + epochs * EPOCH_US, weight=2)
    assert found.alpha == pytest.approx(alpha)


def test_alpha_never_reaches_nothing() -> None:
    tally = Tally(EPOCH, 1e-6, passed=10**6, refused=1, least=1)
    assert lending(RATE, 1e-6, EPOCH, tally, NOW_US + EPOCH_US, weight=1).alpha == pytest.approx(1e-6)


def test_a_tally_begins_anew_with_each_epoch() -> None:
    tally = Tally(EPOCH, 4.0, 1, 2, 3, 4, refused_in=EPOCH)
    known = lending(RATE, 4.0, EPOCH, tally, NOW_US, 9).after(Ask(0, passed=5, weight=2))
    assert (known.own, known.passed, known.refused, known.least) == (1, 7, 3, 2)
    fresh = lending(RATE, 4.0, EPOCH, tally, NOW_US + EPOCH_US, 9)
    assert fresh.was_contended
    after = fresh.after(Ask(0, own=5))
    assert (after.own, after.passed, after.refused, after.least, after.refused_in) == (5, 0, 0, 0, EPOCH)


def test_a_refund_gives_back_a_loan_and_the_turn() -> None:
    chain = path(borrowing(0, 0, 100, 10), pool(100, 100))
    ruling = chain.ask(cost=10)
    leaf, lender = chain.sharings
    numbers = ruling.receipt()
    states = [node.state for node in ruling.after.nodes]
    back = (
        refunded(leaf, states[0], NOW_US, 10, NOW_US, numbers[:3]),
        refunded(lender, states[1], NOW_US, 10, NOW_US, numbers[3:]),
    )
    assert None not in back
    chain.states = [*back]
    assert chain.ask(cost=10).is_admitted
    assert refunded(lender, states[1], NOW_US + SECOND_US, 10, NOW_US, numbers[3:]) is None


def test_a_change_of_parameters_keeps_both_buckets_and_forgets_whose_turn_it_is() -> None:
    old, new = borrowing(10, 10, 20, 20), borrowing(10, 5, 20, 40)
    chain = path(old, pool())
    chain.ask(cost=6)
    chain.ask(cost=6)
    state = chain.states[0]
    assert state is not None
    kept = carry_over(old, new, state, NOW_US, "keep")
    scaled = carry_over(old, new, state, NOW_US, "proportional")
    assert kept is not None
    assert scaled is not None
    assert (new.own and new.own.level(kept[:2], NOW_US).remaining) == 0
    assert [new.most.level(found[2:4], NOW_US).remaining for found in (kept, scaled) if new.most] == [28, 16]
    assert kept[4:] == (0, 0, 0)
    assert carry_over(old, new, state, NOW_US, "reset") is None


@dataclass
class Tree:
    """Keys of teams of an organisation; every guaranteed share fits, and so do their bursts into the reserves."""

    org: Pool
    team: Borrowing
    key: Borrowing
    teams: int
    keys: int


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    teams, keys = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    key_rate, key_burst = draw(st.integers(1, 20)), draw(st.integers(1, 10))
    team_rate = key_rate * keys + draw(st.integers(0, 30))
    team_burst = key_burst * keys + draw(st.integers(1, 20))
    rate = team_rate * teams + draw(st.integers(0, 200))
    burst = team_burst * teams + draw(st.integers(1, 100))
    team_ceiling = draw(st.integers(team_rate, rate))
    ceiling = draw(st.integers(key_rate, max(key_rate, team_ceiling)))
    return Tree(
        pool(rate, burst, team_burst * teams),
        borrowing(team_rate, team_burst, team_ceiling, draw(st.integers(team_burst, burst)), key_burst * keys),
        borrowing(key_rate, key_burst, ceiling, draw(st.integers(key_burst, burst))),
        teams,
        keys,
    )


@settings(max_examples=30, deadline=None)
@given(tree=trees(), seed=st.integers(0, 10**6))
def test_no_bound_is_exceeded_and_no_guaranteed_request_is_refused(tree: Tree, seed: int) -> None:
    """Over random trees of three levels and random arrivals."""
    chance = Random(seed)
    sharings: dict[str, Pool | Borrowing] = {"org": tree.org, "team": tree.team, "key": tree.key}
    states: dict[tuple[str, int, int], State | None] = {}
    tallies: dict[tuple[str, int, int], Tally] = {}
    admitted: dict[tuple[str, int, int], list[int]] = {}
    now_us, refused = NOW_US, 0
    for _ in range(600):
        now_us += int(chance.expovariate(tree.org.rate * chance.choice((0.5, 2, 4))) * SECOND_US)
        team, key = (0, 0) if chance.random() < 0.6 else (chance.randrange(tree.teams), chance.randrange(tree.keys))
        names = [("key", team, key), ("team", team, 0), ("org", 0, 0)]
        links = [Link(sharings[name[0]], states.get(name), tallies.get(name)) for name in names]
        ruling = decide(links, now_us, 1, "normal")
        leaf = ruling.before.nodes[0]
        is_own = leaf.wait_us(1, leaf.sharing.burst) == 0 and ruling.before.ceilings_wait_us(1) == 0
        refused += is_own and ruling.charged_from != 0
        for ask in ruling.asks:
            if tally := ruling.learn(ask):
                tallies[names[ask.lender]] = tally
        if ruling.is_admitted:
            for name, node in zip(names, ruling.after.nodes, strict=True):
                states[name] = node.state
                admitted.setdefault(name, []).append(now_us)
    assert refused == 0
    for name, times_us in admitted.items():
        sharing = sharings[name[0]]
        bound = sharing.bucket if isinstance(sharing, Pool) else sharing.most
        assert bound is None or _is_within(times_us, bound)


def _is_within(times_us: list[int], bucket: TokenBucket) -> bool:
    """Whether no window of any length has more than rate × length + burst."""
    lowest = math.inf
    for index, at_us in enumerate(times_us):
        ahead = index * bucket.P - (at_us - NOW_US) * bucket.Q
        lowest = min(lowest, ahead)
        if ahead - lowest + bucket.P > bucket.size * bucket.P:
            return False
    return True
