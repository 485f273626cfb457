"""Converts between a rate with its burst and the parameters of algorithms."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor, log10

from headroom_edge.algorithms import FixedWindow, Gcra, LeakyBucket, SlidingCounter, SlidingLog, TokenBucket
from headroom_edge.algorithms.base import DAY_US, EXACT_MAX, SECOND_US, Algorithm, ParameterError, format_duration
from headroom_edge.algorithms.bucket import MOST_DECIMALS
from headroom_edge.algorithms.sliding_log import LONGEST_LOG
from quotas.calibration.burst import Point
from quotas.calibration.counts import MINUTE_S

MINUTE_US = 60 * SECOND_US
SPANS_US = (SECOND_US, MINUTE_US, 60 * MINUTE_US, DAY_US)
CLOSE = 1.01  # the most by which rounding up may raise the rate


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


BUCKETS = (TokenBucket, Gcra, LeakyBucket)
WINDOWS = (FixedWindow, SlidingCounter, SlidingLog)


def is_sized(algorithm: Algorithm) -> bool:
    """Whether its parameters follow from a rate and a burst."""
    return isinstance(algorithm, (*BUCKETS, *WINDOWS))


def point_of(algorithm: Algorithm) -> Point:
    """Its sustained rate, and its burst."""
    if isinstance(algorithm, BUCKETS):
        return Point(algorithm.rate * SECOND_US / algorithm.per_us, algorithm.size)
    if isinstance(algorithm, WINDOWS):
        return Point(algorithm.limit * SECOND_US / algorithm.window_us, algorithm.limit)
    raise ValueError(f"{algorithm.name} has no rate and burst")


def per_minute(algorithm: Algorithm) -> float:
    """The most units that it lets through in one minute."""
    point = point_of(algorithm)
    return point.rate * MINUTE_S + (0 if isinstance(algorithm, WINDOWS) else point.burst)


def seen_by(algorithm: Algorithm, needed: Point) -> Point:
    """What is needed, in terms of this algorithm: a window must allow burst and rate together."""
    if not isinstance(algorithm, WINDOWS):
        return needed
    seconds = algorithm.window_us / SECOND_US
    units = needed.burst + needed.rate * seconds
    return Point(units / seconds, ceil(units))


def resized(algorithm: Algorithm, point: Point) -> Algorithm:
    """The same algorithm sized for that point, which is in terms of `point_of` and `seen_by`.

    It keeps its window, so that people compare numbers of the same unit; the rate is rounded up by at most 1 %.
    """
    if isinstance(algorithm, BUCKETS):
        return _in_its_window(algorithm, point)
    if isinstance(algorithm, WINDOWS):
        most = LONGEST_LOG if isinstance(algorithm, SlidingLog) else 2**40
        return replace(algorithm, limit=max(1, min(most, ceil(point.burst))))
    raise ValueError(f"{algorithm.name} has no rate and burst")


def _in_its_window(algorithm: TokenBucket | Gcra | LeakyBucket, point: Point) -> Algorithm:
    """With as few decimals as come close enough."""
    for decimals in range(MOST_DECIMALS + 1):
        per_us = algorithm.typed_per_us * 10**decimals
        rate = point.rate * per_us / SECOND_US
        whole = max(1, ceil(rate - 1e-9))
        if whole <= rate * CLOSE or decimals == MOST_DECIMALS or 10 * per_us > EXACT_MAX:
            return replace(algorithm, rate=whole, per_us=per_us, decimals=decimals, size=_sized(point.burst, per_us))
    raise AssertionError("the last one takes every rate")


def resized_exactly(algorithm: Algorithm, rate: float | None, burst: int) -> Algorithm:
    """As `resized`, for numbers that somebody typed: raises ParameterError rather than using others.

    `rate` per second; only a window may go without one. The rate may be rounded up by 1 %.
    """
    if isinstance(algorithm, WINDOWS):
        return _window_exactly(algorithm, rate, burst)
    if rate is None:
        raise ParameterError("rate", "rate is missing; give units per second")
    if not isinstance(algorithm, BUCKETS):
        return resized(algorithm, Point(rate, burst))
    found = resized(algorithm, Point(rate, burst))
    if point_of(found).rate > rate * CLOSE or point_of(found).burst < burst:  # its own window cannot say it
        wanted = bucket(Point(rate, burst))
        found = replace(algorithm, rate=wanted.rate, per_us=wanted.per_us, size=wanted.size, decimals=0)
    if isinstance(found, BUCKETS):
        _check_bucket(found, rate, burst)
    return found


def _window_exactly(algorithm: FixedWindow | SlidingCounter | SlidingLog, rate: float | None, burst: int) -> Algorithm:
    try:
        found = replace(algorithm, limit=burst)
    except ParameterError as error:
        # Burst is what its limit is called here.
        raise ParameterError("burst", error.message) from None
    here = point_of(found).rate
    if rate is not None and not here / CLOSE <= rate <= here * CLOSE:
        words = f"a limit of {burst:,} per {format_duration(algorithm.window_us)} is {_plain(here)} per second"
        raise ParameterError("rate", f"{words}; leave rate out, or change burst")
    return found


def _check_bucket(found: TokenBucket | Gcra | LeakyBucket, rate: float, burst: int) -> None:
    there = point_of(found)
    if there.rate > rate * CLOSE:
        words = f"{found.rate} per {format_duration(found.per_us)} ({_plain(there.rate)} per second)"
        message = f"the lowest rate near it that can be counted is {words}; use that, or a higher rate"
        raise ParameterError("rate", message)
    if there.burst < burst:
        raise ParameterError("burst", f"burst is at most {there.burst:,} at this rate; lower it")


def _plain(number: float) -> str:
    """Six digits, without an exponent. Rounded down: typed again, it must not be above the number."""
    digits = max(1, 5 - floor(log10(number)))
    return f"{floor(number * 10**digits) / 10**digits:.{digits}f}".rstrip("0").rstrip(".")
