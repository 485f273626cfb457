"""Replays the arrivals of all members of a pool through the pool, in one order of time.

The same decisions as the reference limiter, many times faster. A member's share of what is lent depends on what all the
others ask for, so members cannot be replayed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.chain import (
    AHEAD_US,
    EASY_MOST_US,
    EPOCH_US,
    EPOCHS_KEPT,
    FAIR_MOST_US,
    LONG_AGO,
    rate_of,
)
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import USUAL, Priority, filled
from quotas.observations.arrays import Flags, Ints

# What became of an arrival. BORROWED: from the pool; BETWEEN: from the limit between.
OWN, BORROWED, CEILING, SHARE, POOL, BETWEEN = range(6)
CAUSES: Mapping[str, int] = {"ceiling": CEILING, "share": SHARE, "pool": POOL}  # why it was denied
MOST_ARRIVALS = 5_000_000  # in one replay, which takes half a minute
TOLD_EVERY = 5_000  # arrivals

Arrival = tuple[int, int, int]  # time, number of the member, cost


@dataclass(frozen=True, slots=True)
class PoolMember:
    """One member and what it asked for, in order of time. An arrival may stand for several units at once."""

    name: str
    share: Borrowing | None  # None: it asks the pool itself, and has what its priority may fill
    times_us: Ints
    costs: Ints
    priority: Priority = USUAL
    between: str = ""  # the limit that it borrows from; empty: the pool itself


@dataclass(frozen=True, slots=True)
class MemberReplay:
    """What became of a member's arrivals."""

    name: str
    costs: Ints
    outcomes: Ints  # OWN, BORROWED, BETWEEN, or the cause of the denial, for each arrival

    @property
    def asked(self) -> int:
        return int(self.costs.sum())

    @property
    def own(self) -> int:
        return self._units(self.outcomes == OWN)

    @property
    def borrowed(self) -> int:
        return self._units((self.outcomes == BORROWED) | (self.outcomes == BETWEEN))

    @property
    def denied(self) -> int:
        return sum(self.denied_by.values())

    @property
    def denied_by(self) -> dict[str, int]:
        """Units by the cause of their denial."""
        return {cause: self._units(self.outcomes == number) for cause, number in CAUSES.items()}

    def _units(self, flags: Flags) -> int:
        return int(self.costs[flags].sum())


def replay_pool(
    pool: Pool,
    members: Sequence[PoolMember],
    between: Mapping[str, Borrowing] | None = None,
    told: Callable[[float], None] = lambda _: None,
) -> list[MemberReplay]:
    """One result per member, in their order. Raises ValueError above MOST_ARRIVALS.

    `between`: the limits between the pool and those members that name one. `told` hears which part is done.
    """
    times_us = np.concatenate([member.times_us for member in members] or [np.empty(0, np.int64)])
    if len(times_us) > MOST_ARRIVALS:
        raise ValueError(f"{len(times_us):,} arrivals are too many for one replay of a pool; at most {MOST_ARRIVALS:,}")
    order = np.argsort(times_us, kind="stable")
    lengths = [len(member.times_us) for member in members]
    whose = np.repeat(np.arange(len(members)), lengths)[order]
    costs = np.concatenate([member.costs for member in members] or [np.empty(0, np.int64)])[order]
    outcomes = np.empty(len(order), np.int64)
    arrivals = zip(times_us[order].tolist(), whose.tolist(), costs.tolist(), strict=True)
    outcomes[order] = _decide(pool, members, between or {}, _watched(arrivals, len(order), told))
    parts = np.split(outcomes, np.cumsum(lengths)[:-1]) if members else []
    return [MemberReplay(member.name, member.costs, part) for member, part in zip(members, parts, strict=True)]


class _Node:
    """A limit of the tree: its buckets, its turn to borrow, and how it lends.

    The time of a bucket is kept in 1/Q microseconds, so that it has no fraction. `alpha` says how fast each unit of
    weight may borrow; every epoch it adapts to what was asked for (headroom_edge.algorithms.chain).
    """

    __slots__ = (
        *("alpha", "ceiling", "ceiling_tat", "epoch", "fair_us", "full", "is_stored", "least", "lendable"),
        *("own", "p", "passed", "per_s", "q", "rate", "refused", "refused_in", "tat", "weight"),
    )

    def __init__(self, sharing: Pool | Borrowing) -> None:
        rate = rate_of(sharing)
        self.rate, self.ceiling = rate, sharing.most if isinstance(sharing, Borrowing) else None
        self.p, self.q = (rate.P, rate.Q) if rate else (1, 1)
        self.full, self.lendable = sharing.burst * self.p, sharing.burst - sharing.reserve
        self.weight = sharing.counts_as if isinstance(sharing, Borrowing) else 1
        self.tat = self.ceiling_tat = self.fair_us = 0
        self.per_s = self.q * SECOND_US / self.p
        self.alpha, self.epoch = 0.0, 0
        self.own = self.passed = self.refused = 0
        self.refused_in = LONG_AGO
        self.least = 0  # the smallest weight that wanted to borrow; 0: nobody did
        self.is_stored = False  # only a charge writes a record; without it, nothing is remembered

    def after(self, now_us: int, cost: int) -> int:
        """The backlog of its rate with this request."""
        return max(self.tat - now_us * self.q, 0) + cost * self.p

    def is_full(self, now_us: int, cost: int) -> bool:
        return self.rate is None or self.after(now_us, cost) > self.full

    def is_above_ceiling(self, now_us: int, cost: int) -> bool:
        bound = self.ceiling
        if bound is None:
            return False
        backlog = max(self.ceiling_tat - now_us * bound.Q, 0) + cost * bound.P
        return backlog > bound.size * bound.P

    def charge_ceiling(self, now_us: int, cost: int) -> None:
        self.is_stored = True
        if self.ceiling:
            self.ceiling_tat = max(self.ceiling_tat, now_us * self.ceiling.Q) + cost * self.ceiling.P

    def roll(self, now_us: int, weight: int) -> None:
        """Begins a new epoch, if it is time, in which a child of this weight asks first."""
        present = now_us // EPOCH_US
        if present <= self.epoch and self.is_stored:
            return
        most = self.per_s / (self.least if self.least and self.is_stored else weight)
        if present - self.epoch > EPOCHS_KEPT or not self.is_stored:
            self.alpha = most
        else:
            factor = 2.0
            if self.refused:
                room = max(1.0, self.per_s * 0.1 - self.own)
                factor = min(2.0, max(0.5, room / max(1, self.passed)))
            self.alpha = max(self.per_s * 1e-9, min(most, self.alpha * factor))
        if not self.is_stored:
            self.refused_in = LONG_AGO
        self.epoch = present
        self.own = self.passed = self.refused = self.least = 0

    def is_contended(self, now_us: int) -> bool:
        return self.is_stored and now_us // EPOCH_US - self.refused_in <= 1

    def refuse(self, child: _Node | None, cost: int, *, is_fair: bool) -> None:
        self.refused += 1
        self.refused_in = self.epoch
        if child:
            self.hear(child.weight)
            self.passed += cost if is_fair else 0

    def hear(self, weight: int) -> None:
        """A child of this weight wants to borrow."""
        if not 0 < self.least <= weight:
            self.least = weight

    def lend(self, child: _Node, now_us: int, cost: int) -> None:
        self.hear(child.weight)
        self.passed += cost
        step_us = int(cost * SECOND_US / (child.weight * self.alpha))
        start_us = max(child.fair_us, now_us)
        most_us = now_us + (FAIR_MOST_US if self.is_contended(now_us) else EASY_MOST_US)
        child.fair_us = max(start_us, min(start_us + step_us, most_us))


class _Path:
    """The chain of one member, leaf first."""

    __slots__ = ("first_lender", "levels", "nodes")

    def __init__(self, nodes: Sequence[_Node], member: PoolMember) -> None:
        self.nodes = nodes
        self.levels = [filled(node.lendable, member.priority) * node.p for node in nodes]
        self.first_lender = 1 if member.share else 0  # a pool that is asked itself lends to everybody

    def ask(self, now_us: int, cost: int) -> int:
        nodes = self.nodes
        for node in nodes:
            if node.is_above_ceiling(now_us, cost):
                return CEILING
        if self.first_lender and not any(node.is_full(now_us, cost) for node in nodes):
            self._charge(0, now_us, cost)
            return OWN
        outcome = self._borrow(now_us, cost)
        return OWN if outcome == BORROWED and not self.first_lender else outcome

    def _borrow(self, now_us: int, cost: int) -> int:
        cause = POOL
        for place in range(self.first_lender, len(self.nodes)):
            lender = self.nodes[place]
            if lender.rate is None:
                continue
            child = self.nodes[place - 1] if place else None
            is_fair = child is None or not lender.is_contended(now_us) or child.fair_us <= now_us + AHEAD_US
            if is_fair and self._has_room(place, now_us, cost):
                self._charge(place, now_us, cost)
                return BORROWED if place == len(self.nodes) - 1 else BETWEEN
            if self._can_ever_lend(place, cost):  # otherwise it learns nothing
                lender.roll(now_us, child.weight if child else 1)
                lender.refuse(child, cost, is_fair=is_fair)
            if not is_fair:
                cause = SHARE
        return cause

    def _can_ever_lend(self, place: int, cost: int) -> bool:
        if cost * self.nodes[place].p > self.levels[place]:
            return False
        return all(node.rate is not None and cost * node.p <= node.full for node in self.nodes[place + 1 :])

    def _has_room(self, place: int, now_us: int, cost: int) -> bool:
        if self.nodes[place].after(now_us, cost) > self.levels[place]:
            return False
        return not any(node.is_full(now_us, cost) for node in self.nodes[place + 1 :])

    def _charge(self, lender: int, now_us: int, cost: int) -> None:
        """Rates from the lender (own: from the leaf) upwards, ceilings all along."""
        for place, node in enumerate(self.nodes):
            if place >= lender and node.rate:
                if place >= self.first_lender:
                    node.roll(now_us, self.nodes[place - 1].weight if place else 1)
                    if place == lender and place:
                        node.lend(self.nodes[place - 1], now_us, cost)
                    else:
                        node.own += cost
                node.tat = now_us * node.q + node.after(now_us, cost)
            node.charge_ceiling(now_us, cost)


def _watched(arrivals: Iterable[Arrival], total: int, told: Callable[[float], None]) -> Iterator[Arrival]:
    for done, arrival in enumerate(arrivals):
        if done % TOLD_EVERY == 0:
            told(done / total)
        yield arrival


def _decide(
    pool: Pool,
    members: Sequence[PoolMember],
    between: Mapping[str, Borrowing],
    arrivals: Iterable[Arrival],
) -> list[int]:
    root, inner = _Node(pool), {name: _Node(share) for name, share in between.items()}
    paths = []
    for member in members:
        leaf = [_Node(member.share)] if member.share else []
        middle = [inner[member.between]] if member.between else []
        paths.append(_Path([*leaf, *middle, root], member))
    return [paths[number].ask(now_us, cost) for now_us, number, cost in arrivals]
