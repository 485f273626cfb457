"""What a limit promises, checked on the requests that really passed, at the time at which each was served."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from typing import Any

from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog


class OvershootError(AssertionError):
    """More passed than the limit allows."""


class Truth(ABC):
    @abstractmethod
    def excess(self, now_us: int, units: int) -> int:
        """Adds units that pass now. Above 0: the limit is exceeded."""

    def serve(self, now_us: int, units: int) -> None:
        excess = self.excess(now_us, units)
        if excess > 0:
            raise OvershootError(f"{excess} above the limit at {now_us}")


class BucketTruth(Truth):
    """Exact, in 1/Q microseconds."""

    def __init__(self, bucket: TokenBucket) -> None:
        self.bucket, self.tat = bucket, 0

    def excess(self, now_us: int, units: int) -> int:
        now = now_us * self.bucket.Q
        self.tat = max(self.tat, now) + units * self.bucket.P
        return self.tat - now - self.bucket.size * self.bucket.P - self.bucket.max_wait_us * self.bucket.Q


class WindowTruth(Truth):
    def __init__(self, window: FixedWindow) -> None:
        self.window, self.counts = window, Counter[int]()

    def excess(self, now_us: int, units: int) -> int:
        number = now_us // self.window.window_us
        self.counts[number] += units
        return self.counts[number] - self.window.limit


class CalendarTruth(Truth):
    def __init__(self, quota: CalendarQuota) -> None:
        self.quota, self.counts = quota, Counter[int]()

    def excess(self, now_us: int, units: int) -> int:
        period = bisect_right(self.quota.starts, now_us // 1_000_000)
        self.counts[period] += units
        return self.counts[period] - self.quota.limit


class CounterTruth(Truth):
    """The estimate of the sliding counter itself, from the true counts."""

    def __init__(self, counter: SlidingCounter) -> None:
        self.counter, self.counts = counter, Counter[int]()

    def excess(self, now_us: int, units: int) -> int:
        span = self.counter.window_us
        number, elapsed = divmod(now_us, span)
        self.counts[number] += units
        estimate = self.counts[number] * span + self.counts[number - 1] * (span - elapsed)
        return estimate - self.counter.limit * span


class LogTruth(Truth):
    def __init__(self, log: SlidingLog) -> None:
        self.log, self.served = log, list[int]()

    def excess(self, now_us: int, units: int) -> int:
        self.served += [now_us] * units
        del self.served[: bisect_right(self.served, now_us - self.log.window_us)]
        return len(self.served) - self.log.limit


def truth_of(algorithm: Any) -> Truth:
    by_kind: dict[str, Any] = {
        "t": BucketTruth,
        "g": BucketTruth,
        "f": WindowTruth,
        "q": CalendarTruth,
        "s": CounterTruth,
        "o": LogTruth,
    }
    found: Truth = by_kind[algorithm.kind](algorithm)
    return found
