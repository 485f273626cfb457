"""The opening of a market: sixteen times the load at once, in four classes, on a backend that takes 800/s.

18,000 → 285,000 requests a second on a backend of 80,000, scaled by 100.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

from headroom_edge.plan.priority import PRIORITIES, Priority

CAPACITY, BURST = 800, 400
OPENS_S, ENDS_S = 2, 6
SECOND_US = 1_000_000

Rates = Mapping[Priority, tuple[int, int]]  # requests a second before and after the opening

OPENING: Rates = {"critical": (25, 400), "high": (40, 600), "normal": (60, 1_000), "sheddable": (55, 850)}
CRITICAL_ABOVE_CAPACITY: Rates = {"critical": (25, 1_200), "normal": (60, 400)}


@dataclass(frozen=True, slots=True)
class Arrival:
    at_us: int
    priority: Priority


def arrivals(rates: Rates, seed: int = 2) -> list[Arrival]:
    """Each class at random times of its own, in order of time."""
    random, found = Random(seed), []
    for priority, (before, after) in rates.items():
        at_s = random.expovariate(before)
        while at_s < ENDS_S:
            found.append(Arrival(int(at_s * SECOND_US), priority))
            at_s += random.expovariate(before if at_s < OPENS_S else after)
    return sorted(found, key=lambda arrival: (arrival.at_us, PRIORITIES.index(arrival.priority)))


def worst_window(admitted_us: Iterable[int], window_us: int = SECOND_US) -> int:
    """The most that were admitted in any window of that length."""
    times, worst, first = sorted(admitted_us), 0, 0
    for last, at_us in enumerate(times):
        while at_us - times[first] >= window_us:
            first += 1
        worst = max(worst, last - first + 1)
    return worst


def excess(admitted_us: Iterable[int], rate: int = CAPACITY, burst: int = BURST) -> int:
    """By how much the pool was exceeded in the worst of all windows, of whatever length. Not above 0: never."""
    # From one admission to another, rate × time comes in, and as many go out as their numbers differ by, and one.
    worst, lowest = -burst * SECOND_US, 0
    for number, at_us in enumerate(sorted(admitted_us)):
        level = number * SECOND_US - rate * at_us
        lowest = min(lowest, level) if number else level
        worst = max(worst, level + SECOND_US - lowest - burst * SECOND_US)
    return -(-worst // SECOND_US)


def by_class(found: Iterable[Arrival], from_s: int = 0) -> Counter[str]:
    return Counter(arrival.priority for arrival in found if arrival.at_us >= from_s * SECOND_US)
