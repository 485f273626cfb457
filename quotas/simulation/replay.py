"""Replays arrivals through limits with the reference limiter."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from quotas.policies.spec import Limit
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.reference_limiter import ReferenceLimiter, Request
from quotas.simulation.reference_plan import ReferencePlan


@dataclass(frozen=True, slots=True)
class ReplayedArrival:
    arrival: Arrival
    allowed: bool
    wait_us: int
    limit: str  # the limit that denied; empty: allowed
    cause: str = ""  # of a denial by a limit that shares: ceiling, share or pool
    lender: str = ""  # the limit that lent; empty: nobody


@dataclass(slots=True)
class ReplayTotals:
    allowed: int = 0
    denied: int = 0
    max_wait_us: int = 0
    denied_by: Counter[str] = field(default_factory=Counter)

    def add(self, decided: ReplayedArrival) -> None:
        if decided.allowed:
            self.allowed += 1
            self.max_wait_us = max(self.max_wait_us, decided.wait_us)
        else:
            self.denied += 1
            self.denied_by[decided.limit] += 1


def replay(limits: Sequence[Limit], arrivals: Iterable[Arrival]) -> Iterator[ReplayedArrival]:
    """Every dimension of a subject has the arrival's subject as its value."""
    plan, limiter = ReferencePlan.of_limits(*limits), ReferenceLimiter()
    dimensions = {name for one in limits for names in one.subject.alternatives for name in names}
    releases: list[tuple[int, int, Request]] = []  # due, order of arrival, who
    for number, arrival in enumerate(arrivals):
        while releases and releases[0][0] <= arrival.t_us:
            due_us, _, gone = heappop(releases)
            limiter.release(plan, due_us, gone, "ok")
        request = Request("", dict.fromkeys(dimensions, arrival.subject), arrival.cost, str(number))
        decided = _decide(limiter, plan, arrival, request)
        if plan.has_concurrency and decided.allowed and arrival.duration_us is not None:
            heappush(releases, (arrival.t_us + decided.wait_us + arrival.duration_us, number, request))
        yield decided


def _decide(limiter: ReferenceLimiter, plan: ReferencePlan, arrival: Arrival, request: Request) -> ReplayedArrival:
    ruling = limiter.rule(plan, arrival.t_us, request)
    return ReplayedArrival(arrival, not ruling.denied_by, ruling.wait_us, ruling.denied_by)
