"""Which limits let less through than before, in windows that peaks are measured in.

Only limits on the tenant as a whole: what a single key or user asked for at most is not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from headroom_edge.algorithms.base import Algorithm
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.sliding import SlidingCounter, SlidingLog
from headroom_edge.algorithms.units import SECOND_US, ceil_div
from headroom_edge.algorithms.windows import CalendarQuota, FixedWindow
from quotas.policy.compare import NOT_ENFORCED, Plan, compared
from quotas.policy.resolve import Effective
from quotas.policy.spec import Unit

WINDOWS_S = (1, 10, 60)


@dataclass(frozen=True, slots=True)
class Tightened:
    scope: str  # what it counts over: `*` or an endpoint
    limit: str
    unit: Unit
    before: str  # in words
    after: str
    percent: float  # of what could pass in the window that loses most
    most: Mapping[int, float]  # window in seconds → what can pass now; only windows in which that is less


def tightened(before: Plan, after: Plan) -> list[Tightened]:
    found: dict[tuple[str, str], Tightened] = {}
    for endpoint in compared(before, after):
        were, factor = before.enforced(endpoint), after.cost(endpoint) / before.cost(endpoint)
        for key, now in after.enforced(endpoint).items():
            for one in _tightened(were.get(key), now, factor):
                found.setdefault((one.scope, one.limit), one)
    return list(found.values())


def _tightened(was: Effective | None, now: Effective, factor: float) -> Iterator[Tightened]:
    if now.is_global or now.limit.subject.alternatives:
        return
    # What was measured in units of cost was measured at the old cost.
    weight = factor if now.limit.unit == "cost" else 1.0
    most = {window: most_within(now.limit.algorithm, window) / weight for window in WINDOWS_S}
    could = {window: most_within(was.limit.algorithm, window) if was else inf for window in WINDOWS_S}
    less = {window: allowed for window, allowed in most.items() if allowed < could[window]}
    if less:
        percent = max(100.0 if could[window] == inf else 100 * (1 - less[window] / could[window]) for window in less)
        words = was.limit.algorithm.words() if was else NOT_ENFORCED
        after = now.limit.algorithm.words()
        yield Tightened(now.scope, now.limit.name, now.limit.unit, words, after, round(percent, 1), less)


def most_within(algorithm: Algorithm, window_s: int) -> float:
    """The most that can pass in a window of that length; of aligned windows, in one that is aligned too."""
    if isinstance(algorithm, TokenBucket | Gcra | LeakyBucket):
        return algorithm.capacity + algorithm.rate * window_s * SECOND_US / algorithm.per_us
    if isinstance(algorithm, FixedWindow | SlidingLog | SlidingCounter):
        return algorithm.limit * ceil_div(window_s * SECOND_US, algorithm.window_us)
    if isinstance(algorithm, CalendarQuota):
        return algorithm.limit
    return inf
