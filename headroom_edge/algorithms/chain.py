"""One decision over a chain: a leaf, what it borrows from, and so on up to the pool. Judged and charged as one unit.

State of a pool: TAT and fraction of its bucket, then alpha and its epoch. Of a borrowing limit: TAT and fraction of its
own share, the same of its ceiling, its fair TAT, then alpha and its epoch as a lender.

Buckets are exact, in whole numbers, so no bound depends on what follows. The fair share only steers: every loan moves
the fair TAT of the lender's child by cost ÷ (weight × alpha), and while somebody is refused, a child whose fair TAT is
too far ahead may not borrow. Alpha is a double that follows the demand: every 100 ms it becomes as large as the
lender's room allows. What that needs to know of an epoch is counted in memory, because a refusal writes nothing. Lua
computes the same doubles in the same order.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from headroom_edge.algorithms.base import EXACT_MAX, Level, State, Verdict, ceil_div
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import Priority, filled

EPOCH_US: Final = 100_000
EPOCHS_KEPT: Final = 10  # after a longer pause alpha starts anew
AHEAD_US: Final = 50_000  # how far ahead of the clock the fair TAT of a child that borrows may be
FAIR_MOST_US: Final = 60_000_000  # no loan moves it further ahead than this
EASY_MOST_US: Final = 100_000  # nor than this while nobody is refused: what nobody else wanted is soon forgiven
TALLIES_KEPT: Final = 4_096  # of so many lenders; when there are more, all are dropped
NEVER: Final = -1
LONG_AGO: Final = -2

Cause = Literal["", "ceiling", "share", "pool"]
Sharing = Pool | Borrowing


@dataclass(frozen=True, slots=True)
class Tally:
    """What a lender remembers of an epoch. Losing it costs some fairness, never a bound."""

    epoch: int
    alpha: float
    own: int = 0  # units that were charged, but not lent by it
    passed: int = 0  # units that were asked for and passed the fair share
    refused: int = 0  # requests
    least: int = 0  # the smallest weight that asked; 0: nobody did
    refused_in: int = LONG_AGO  # the latest epoch with a refusal


def rate_of(sharing: Sharing) -> TokenBucket | None:
    return sharing.bucket if isinstance(sharing, Pool) else sharing.own


def lending_level(sharing: Sharing, priority: Priority) -> int:
    """How many units of its burst may be lent at once to requests of this priority."""
    return filled(sharing.burst - sharing.reserve, priority)


@dataclass(slots=True)
class Link:
    """One limit of the chain at the moment of the request."""

    sharing: Sharing
    state: State | None
    tally: Tally | None = None  # as a lender; None: nothing is known, or its record is not stored


@dataclass(slots=True)
class Node:
    """A link, with its buckets measured at one moment."""

    sharing: Sharing
    state: State  # repaired, if the clock went back
    now_us: int
    lends: int  # its lending level
    is_contended: bool = False  # as a lender: it refused somebody in this epoch or the last
    rate: TokenBucket | None = field(init=False)
    ceiling: TokenBucket | None = field(init=False)
    backlog: int = field(init=False, default=0)
    ceiling_backlog: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.rate, self.ceiling = rate_of(self.sharing), None
        parts = list(self.state)
        if self.rate:
            self.backlog, kept = self.rate.backlog(self.state[:2], self.now_us)
            parts[:2] = kept or (0, 0)
        if isinstance(self.sharing, Borrowing) and self.sharing.most:
            self.ceiling = self.sharing.most
            self.ceiling_backlog, kept = self.ceiling.backlog(self.state[2:4], self.now_us)
            parts[2:4] = kept or (0, 0)
        self.state = tuple(parts)

    @property
    def fair_tat_us(self) -> int:
        """Further ahead than a loan can move it means that the clock went back: it starts anew."""
        fair = self.state[4]
        return 0 if fair > self.now_us + FAIR_MOST_US else fair

    @property
    def fair_wait_us(self) -> int:
        return max(0, self.fair_tat_us - self.now_us - AHEAD_US)

    @property
    def alpha(self) -> float:
        return self.state[-2]

    @property
    def epoch(self) -> int:
        return self.state[-1]

    def wait_us(self, cost: int, units: int) -> int:
        """Until the bucket has room for `cost` below this level; NEVER if it never has."""
        if self.rate is None or cost > units:
            return NEVER
        return max(0, ceil_div(self.backlog + (cost - units) * self.rate.P, self.rate.Q))

    def left(self, units: int) -> int:
        if self.rate is None:
            return 0
        return max(0, units * self.rate.P - self.backlog) // self.rate.P

    def ceiling_wait_us(self, cost: int) -> int:
        if self.ceiling is None:
            return 0
        if cost > self.ceiling.size:
            return NEVER
        return max(0, ceil_div(self.ceiling_backlog + (cost - self.ceiling.size) * self.ceiling.P, self.ceiling.Q))

    @property
    def ceiling_left(self) -> int:
        return self.ceiling.level_at(self.ceiling_backlog).remaining if self.ceiling else EXACT_MAX

    def level(self) -> Level:
        """Of its own bucket, or else of its ceiling."""
        if self.rate:
            return self.rate.level_at(self.backlog)
        return self.ceiling.level_at(self.ceiling_backlog) if self.ceiling else Level(0, 0)


@dataclass(frozen=True, slots=True)
class Lending:
    """Alpha of a lender as of now, and the tally to go on with."""

    alpha: float
    epoch: int
    tally: Tally | None  # None: a new one
    was_contended: bool  # somebody was refused in this epoch or the last

    def after(self, ask: "Ask") -> Tally:
        """The tally of the present epoch, with what it learns from a request."""
        known = self.tally
        if known is None or known.epoch != self.epoch:
            refused_in = known.refused_in if known and known.epoch < self.epoch else LONG_AGO
            known = Tally(self.epoch, self.alpha, refused_in=refused_in)
        return Tally(
            self.epoch,
            known.alpha,
            known.own + ask.own,
            known.passed + ask.passed,
            known.refused + ask.refused,
            min(known.least or ask.weight, ask.weight or known.least),
            self.epoch if ask.refused else known.refused_in,
        )


def lending(rate: TokenBucket, alpha: float, epoch: int, tally: Tally | None, now_us: int, weight: int) -> Lending:
    """The arguments `alpha` and `epoch` are stored, `weight` is that of the child that asks."""
    present = now_us // EPOCH_US
    if tally and tally.epoch >= epoch:
        alpha, epoch = tally.alpha, tally.epoch
    else:
        tally = None
    was_contended = tally is not None and epoch <= present and present - tally.refused_in <= 1
    if present > epoch:
        alpha = _rolled(rate, alpha, present - epoch, tally, weight)
    return Lending(alpha, present, tally, was_contended)


def _rolled(rate: TokenBucket, alpha: float, epochs: int, tally: Tally | None, weight: int) -> float:
    per_s = rate.Q * 1_000_000 / rate.P
    most = per_s / (tally.least if tally and tally.least else weight)
    if epochs > EPOCHS_KEPT:
        return most
    factor = 2.0
    if tally and tally.refused:
        room = max(1.0, per_s * 0.1 - tally.own)
        factor = min(2.0, max(0.5, room / max(1, tally.passed)))
    return max(per_s * 1e-9, min(most, alpha * factor))


@dataclass(frozen=True, slots=True)
class Ask:
    """What a lender's tally learns from a request."""

    lender: int  # its place in the chain
    own: int = 0
    passed: int = 0
    refused: int = 0
    weight: int = 0  # of the child that wanted to borrow


@dataclass(slots=True)
class Chain:
    """A chain at one moment, leaf first."""

    nodes: tuple[Node, ...]

    @property
    def first_lender(self) -> int:
        """A pool that is asked itself lends to everybody, without a fair share."""
        return 0 if isinstance(self.nodes[0].sharing, Pool) else 1

    @property
    def lenders(self) -> range:
        return range(self.first_lender, len(self.nodes))

    def own_wait_us(self, cost: int) -> int:
        if self.first_lender == 0:
            return NEVER
        return _longest(node.wait_us(cost, node.sharing.burst) for node in self.nodes)

    def room_wait_us(self, lender: int, cost: int) -> int:
        """Until the lender and all above it have room."""
        node = self.nodes[lender]
        above = (upper.wait_us(cost, upper.sharing.burst) for upper in self.nodes[lender + 1 :])
        return _longest((node.wait_us(cost, node.lends), *above))

    def fair_wait_us(self, lender: int) -> int:
        """0 while the lender has refused nobody: then there is nobody to be fair to."""
        return self.nodes[lender - 1].fair_wait_us if lender and self.nodes[lender].is_contended else 0

    def ceilings_wait_us(self, cost: int) -> int:
        return _longest(node.ceiling_wait_us(cost) for node in self.nodes)

    def loan_wait_us(self, lender: int, cost: int) -> int:
        return _longest((self.room_wait_us(lender, cost), self.fair_wait_us(lender)))

    def pause_us(self, lender: int) -> int:
        """How long a first refusal keeps the child of a lender from borrowing: it counts for two epochs at most."""
        if lender == 0:
            return 0
        child = self.nodes[lender - 1]
        return min(child.fair_wait_us, (child.now_us // EPOCH_US + 2) * EPOCH_US - child.now_us)

    def retry_us(self, cost: int, cause: Cause) -> int:
        """A loan of a lender that has just refused somebody is counted on only if there is nothing else. After a denial
        for another cause than a ceiling, every lender has."""
        likely, doubtful = [self.own_wait_us(cost)], list[int]()
        for lender in self.lenders:
            wait_us = self.loan_wait_us(lender, cost)
            if self.nodes[lender].is_contended:
                doubtful.append(wait_us)
            else:
                likely.append(wait_us if cause == "ceiling" else _longest((wait_us, self.pause_us(lender))))
        shortest = _shortest(likely)
        return _longest((self.ceilings_wait_us(cost), _shortest(doubtful) if shortest == NEVER else shortest))

    def soonest_us(self, cost: int) -> int:
        """As `retry_us`, with every loan counted on."""
        waits = (self.own_wait_us(cost), *(self.loan_wait_us(lender, cost) for lender in self.lenders))
        return _longest((self.ceilings_wait_us(cost), _shortest(waits)))

    def left(self) -> int:
        """How much the leaf could have at once now: of its own, or as a loan."""
        best, above = 0, EXACT_MAX
        for index in reversed(range(len(self.nodes))):
            node = self.nodes[index]
            if index >= self.first_lender and self.fair_wait_us(index) == 0:
                best = max(best, min(above, node.left(node.lends)))
            above = min(above, node.left(node.sharing.burst))
        if self.first_lender:
            best = max(best, above)
        return min(best, *(node.ceiling_left for node in self.nodes))

    def level(self, index: int) -> Level:
        if index:
            return self.nodes[index].level()
        left = self.left()
        return Level(left, max(0, self.soonest_us(left + 1)))


@dataclass(frozen=True, slots=True)
class Ruling:
    before: Chain
    after: Chain  # the same as `before` if it is denied
    lendings: tuple[Lending | None, ...]
    is_admitted: bool
    lender: int | None  # who lent to a child; None: it had its own, or it is denied
    charged_from: int  # the first limit whose bucket is charged; all above it are, too
    fair_us: int  # by how much the loan moved a fair TAT
    cause: Cause  # of a denial
    retry_us: int
    asks: tuple[Ask, ...]

    def verdict(self, index: int) -> Verdict:
        """The limits above the leaf always admit: the leaf speaks for its chain."""
        level = self.after.level(index)
        is_admitted = self.is_admitted or index > 0
        return Verdict(is_admitted, level.remaining, level.reset_us, 0 if is_admitted else self.retry_us, 0)

    def receipt(self) -> tuple[int, ...]:
        """What a refund needs: of every limit the TAT of its bucket; of a borrowing one also its ceiling's, and by how
        much its fair TAT moved. 0 where nothing was charged."""
        found: list[int] = []
        for index, node in enumerate(self.after.nodes):
            found.append(node.state[0] if self.is_admitted and node.rate and index >= self.charged_from else 0)
            if isinstance(node.sharing, Borrowing):
                found.append(node.state[2] if self.is_admitted and node.ceiling else 0)
                found.append(self.fair_us if self.lender == index + 1 else 0)
        return tuple(found)

    def learn(self, ask: Ask) -> Tally | None:
        """The tally of a lender after this request."""
        lending = self.lendings[ask.lender]
        return lending.after(ask) if lending else None


def decide(links: Sequence[Link], now_us: int, cost: int, priority: Priority) -> Ruling:
    nodes = tuple(
        Node(link.sharing, link.state or (0,) * link.sharing.width, now_us, lending_level(link.sharing, priority))
        for link in links
    )
    chain = Chain(nodes)
    lendings = tuple(_lending(chain, index, link.tally) for index, link in enumerate(links))
    for node, one in zip(nodes, lendings, strict=True):
        node.is_contended = one is not None and one.was_contended
    if chain.ceilings_wait_us(cost):
        return _denied(chain, lendings, cost, "ceiling", ())
    if chain.own_wait_us(cost) == 0:
        return _admitted(chain, lendings, cost, None, 0, ())
    asks: list[Ask] = []
    cause: Cause = "pool"
    for lender in chain.lenders:
        if nodes[lender].rate is None:
            continue
        room_us, is_fair = chain.room_wait_us(lender, cost), chain.fair_wait_us(lender) == 0
        if room_us == 0 and is_fair:
            return _admitted(chain, lendings, cost, lender, lender, asks)
        # To make room for what can never be lent, it would pace everybody down to nothing.
        if room_us != NEVER:
            passed = cost if is_fair and lender else 0
            asks.append(Ask(lender, passed=passed, refused=1, weight=_weight_below(chain, lender) if lender else 0))
        if not is_fair:
            cause = "share"
    return _denied(chain, lendings, cost, cause, asks)


def _lending(chain: Chain, index: int, tally: Tally | None) -> Lending | None:
    node = chain.nodes[index]
    if node.rate is None or index < chain.first_lender:
        return None
    return lending(node.rate, node.alpha, node.epoch, tally, node.now_us, _weight_below(chain, index))


def _weight_below(chain: Chain, lender: int) -> int:
    below = chain.nodes[lender - 1].sharing if lender else None
    return below.counts_as if isinstance(below, Borrowing) else 1


def _denied(chain: Chain, lendings: tuple[Lending | None, ...], cost: int, cause: Cause, asks: Sequence[Ask]) -> Ruling:
    retry_us = chain.retry_us(cost, cause)
    return Ruling(chain, chain, lendings, False, None, len(chain.nodes), 0, cause, retry_us, tuple(asks))


def _admitted(
    chain: Chain,
    lendings: tuple[Lending | None, ...],
    cost: int,
    lender: int | None,
    charged_from: int,
    asks: Sequence[Ask],
) -> Ruling:
    nodes, learnt, fair_us = [], list(asks), 0
    for index, node in enumerate(chain.nodes):
        state, lends = list[Any](node.state), lendings[index]
        if node.ceiling:
            state[2:4] = node.ceiling.state_at(node.ceiling_backlog + cost * node.ceiling.P, node.now_us)
        if node.rate and index >= charged_from:
            state[:2] = node.rate.state_at(node.backlog + cost * node.rate.P, node.now_us)
            if lends:
                state[-2:] = lends.alpha, lends.epoch
                is_loan = index == lender and index > 0
                weight = _weight_below(chain, index) if is_loan else 0
                learnt.append(Ask(index, 0 if is_loan else cost, cost if is_loan else 0, 0, weight))
        above = lendings[index + 1] if lender == index + 1 else None
        if above and isinstance(node.sharing, Borrowing):
            start_us = max(node.fair_tat_us, node.now_us)
            step_us = math.floor(cost * 1_000_000 / (node.sharing.counts_as * above.alpha))
            most_us = node.now_us + (FAIR_MOST_US if above.was_contended else EASY_MOST_US)
            state[4] = max(start_us, min(start_us + step_us, most_us))
            fair_us = state[4] - start_us
        nodes.append(Node(node.sharing, tuple(state), node.now_us, node.lends, node.is_contended))
    borrowed = lender or None  # a pool that is asked itself does not count as borrowed from
    after = Chain(tuple(nodes))
    return Ruling(chain, after, lendings, True, borrowed, charged_from, fair_us, "", 0, tuple(learnt))


def refunded(
    sharing: Sharing, state: State, now_us: int, cost: int, given_us: int, receipt: Sequence[int]
) -> State | None:
    """The state after giving back what the receipt names, as far as it is still charged. None: nothing is."""
    after, is_changed = list(state), False
    rate, ceiling = rate_of(sharing), sharing.most if isinstance(sharing, Borrowing) else None
    if rate and state[0] and (given := rate.refund(state[:2], now_us, cost, given_us, receipt[0])):
        after[:2], is_changed = given, True
    if ceiling and state[2] and (given := ceiling.refund(state[2:4], now_us, cost, given_us, receipt[1])):
        after[2:4], is_changed = given, True
    if len(receipt) > 1 and receipt[2] and state[4] > now_us:
        after[4], is_changed = max(now_us, state[4] - receipt[2]), True
    return tuple(after) if is_changed else None


def _longest(waits: Iterable[int]) -> int:
    found = tuple(waits)
    return NEVER if NEVER in found else max(found)


def _shortest(waits: Iterable[int]) -> int:
    return min((wait for wait in waits if wait != NEVER), default=NEVER)
