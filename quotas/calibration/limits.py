"""From what calibration found to a limit that can be enforced, and back."""

from __future__ import annotations

from math import ceil

from headroom_edge.algorithms import FixedWindow, TokenBucket
from headroom_edge.algorithms.base import EXACT_MAX
from headroom_edge.algorithms.units import DAY_US, SECOND_US
from quotas.calibration.arrival_curve import Point

MINUTE_US = 60 * SECOND_US
SPANS_US = (SECOND_US, MINUTE_US, 60 * MINUTE_US, DAY_US)
CLOSE = 1.01  # a whole rate may be so much above the true one


def bucket(point: Point) -> TokenBucket:
    """In the shortest span in which the rate is a whole number within 1 %, rounded up."""
    for per_us in SPANS_US:
        rate = point.rate * per_us / SECOND_US
        whole = max(1, ceil(rate - 1e-9))
        if whole <= rate * CLOSE or per_us == SPANS_US[-1]:
            return TokenBucket(whole, per_us, _sized(point.burst, per_us))
    raise AssertionError("the last span takes every rate")


def _sized(burst: int, per_us: int) -> int:
    """The bucket counts exactly up to 2^52 µs of refill."""
    return max(1, min(burst, EXACT_MAX // per_us))


def minute_window(units: float) -> FixedWindow:
    return FixedWindow(max(1, ceil(units - 1e-9)), MINUTE_US)


def minute_allowance(algorithm: TokenBucket | FixedWindow) -> float:
    """The most units that it lets through in one minute."""
    if isinstance(algorithm, FixedWindow):
        return algorithm.limit * MINUTE_US / algorithm.window_us
    return algorithm.size + algorithm.rate * MINUTE_US / algorithm.per_us
