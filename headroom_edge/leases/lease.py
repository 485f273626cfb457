"""What a limiter knows about one subject of one plan: its block, its demand, and its latest denial."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final

from headroom_edge.check import DIMENSIONS_MAX, Check, SubjectValues
from headroom_edge.decision import Decision
from headroom_edge.leases.block import MICROSECONDS, Block, Settlement
from headroom_edge.leases.decision import aged
from headroom_edge.leases.demand import NOTHING, Demand, Want

PLAN_S: Final = 60.0
SHORTEST_DENIAL_S: Final = 0.02
SCARCE_BELOW: Final = 32  # requests; the store grants a quarter of what is left, and at least 8
EXACT_BELOW: Final = 1_000  # units of a limit; a smaller one has too little room for the blocks of several processes
USUAL_MS: Final = 100  # the longest lease of a limit that does not say
NEVER_LEASED: Final = frozenset("lcapb")  # queues, slots and limits that share, by the plan's letters for algorithms
UNKNOWN: Final = 2**62  # a price that no block can pay
# The values of a plan's dimensions: None without any, the value of a single one, or a tuple.
Values = str | None | tuple[str | None, ...]
LIMIT: Final = "limit"  # the only reason that is remembered: waiting helps, and others are counted differently


class LeasedPlan:
    """What replies told about the plan of a tenant and endpoint."""

    __slots__ = ("as_of", "dimensions", "learnt_s", "leases", "length_s", "names", "of", "price")

    def __init__(self, dimensions: tuple[str, ...], as_of: int) -> None:
        self.dimensions = dimensions  # that the plan's subjects use
        self.as_of = as_of  # the newest revision that was known of its shard; a later one may have changed the plan
        self.price = UNKNOWN  # the endpoint's default cost
        self.length_s = 0.0  # of the longest lease; 0: a limit forbids leases
        self.learnt_s = float("-inf")
        # For the fast path: the leases that have a block, by their values; how to read these from a subject that has
        # all of them; and the names of dimensions that were found valid.
        self.leases: dict[Values, Lease] = {}
        self.of: Callable[[SubjectValues], Values] | None = itemgetter(*dimensions) if dimensions else None
        self.names: set[str] = set()

    def values(self, subject: SubjectValues) -> Values:
        names = self.dimensions
        if len(names) == 1:
            return subject.get(names[0])
        return tuple(subject.get(name) for name in names) if names else None

    def is_old(self, now: float) -> bool:
        """An override may begin or end without a revision, so the plan's text is read again now and then."""
        return now - self.learnt_s > PLAN_S

    def accepts(self, subject: SubjectValues) -> bool:
        """Whether Check would. False may be wrong: nothing is known of names that were not sent before."""
        names = self.names
        return all(name in names and type(value) is str for name, value in subject.items())

    def know(self, names: Iterable[str]) -> None:
        # No subject has more, so that a subset never has either.
        if len(self.names | set(names)) <= DIMENSIONS_MAX:
            self.names.update(names)


@dataclass(frozen=True, slots=True)
class Denial:
    """A denial that also answers later requests of at least this cost, until it ends."""

    decision: Decision
    price: int
    heard_s: float
    end_s: float

    def answers(self, price: int, now: float, rows: bool) -> bool:
        return now < self.end_s and price >= self.price and (not rows or bool(self.decision.raw_rows))

    def repeated(self, check: Check, now: float, rows: bool) -> Decision:
        first, passed_us = self.decision, int((now - self.heard_s) * MICROSECONDS)
        # Until the end of this denial no request passes, even if the limit has room again before.
        retry_us = max(first.retry_us - passed_us, int((self.end_s - now) * MICROSECONDS), 1)
        return Decision(
            check,
            False,
            first.reason,
            first.limit,
            first.quota,
            first.remaining,
            max(0, first.reset_us - passed_us),
            retry_us,
            0,
            first.revision,
            raw_rows=aged(first.raw_rows, passed_us) if rows else (),
        )


class Lease:
    """One per lease key: tenant, endpoint, and the values of the dimensions that the plan uses."""

    __slots__ = (
        "asking_until_s",
        "block",
        "demand",
        "denial",
        "endpoint",
        "had_block",
        "plan",
        "subject",
        "tenant",
        "values",
    )

    def __init__(self, plan: LeasedPlan, check: Check) -> None:
        self.plan = plan
        self.tenant = check.tenant
        self.endpoint = check.endpoint
        self.values = plan.values(check.subject)
        self.subject: SubjectValues = {}  # the latest one that was found valid
        self.demand = Demand()
        self.block: Block | None = None
        self.had_block = False
        self.denial: Denial | None = None
        self.asking_until_s = float("-inf")  # until then, a request for the next block may be under way

    def price(self, cost: int | None) -> int:
        return self.plan.price if cost is None else cost

    def close(self, now: float) -> Settlement | None:
        block, self.block = self.block, None
        return None if block is None else block.close(now)

    def count(self, price: int, now: float) -> None:
        if self.block is None:
            self.demand.begin(now, self.plan.length_s)
        self.demand.count(1 if price == UNKNOWN else price)

    def next_want(self, now: float, settlement: Settlement | None) -> Want:
        length_s = self.plan.length_s
        if not length_s:
            return NOTHING
        if settlement is None:
            return self.demand.want_first()
        return self.demand.want_next(now, length_s, settlement.spent_calls, settlement.spent_cost)

    def spare(self, decision: Decision, price: int, now: float) -> None:
        """A block was wanted, and too little was left for one: wait until there is more, instead of asking for each
        request. What flows in meanwhile is not lost. A limit that is too small for blocks stays exact, and so does one
        that grants none for another reason, such as a bypass."""
        scarce = min(decision.rows, key=lambda row: row.remaining, default=None)
        if scarce is None or not self.plan.length_s or scarce.quota < EXACT_BELOW or not self.had_block:
            return
        if scarce.remaining >= SCARCE_BELOW * (1 if price == UNKNOWN else price):
            return
        retry_us = int(SHORTEST_DENIAL_S * MICROSECONDS)
        denial = replace(
            decision, allowed=False, reason=LIMIT, limit=scarce.name, quota=scarce.quota, remaining=0, retry_us=retry_us
        )
        self.denial = Denial(denial, 1, now, now + SHORTEST_DENIAL_S)

    def deny(self, decision: Decision, price: int, now: float) -> None:
        lasts_s = min(max(decision.retry_us / MICROSECONDS, SHORTEST_DENIAL_S), self.plan.length_s)
        self.denial = Denial(decision, 1 if price == UNKNOWN else price, now, now + lasts_s)


def longest_lease_ms(profile: Any, most: int) -> int:
    """The longest lease that a plan (hr_profile's text) allows, up to `most`. At 0 no denial is remembered either."""
    try:
        limits = [limit for group in json.loads(profile)["g"] for limit in group["l"] if not limit.get("x")]
        lengths = [0 if limit["k"] in NEVER_LEASED else int(limit.get("le", USUAL_MS)) for limit in limits]
    except (LookupError, TypeError, ValueError):
        return 0  # there is no plan
    return min([most, *(lengths or [USUAL_MS])])
