"""What a limit allows, in the units in which demand is measured."""

from dataclasses import dataclass
from typing import Any

from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import DAY_US, SECOND_US, Algorithm, per_text
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.calendar_quota import LONGEST_DAYS, CalendarQuota
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog


@dataclass(frozen=True, slots=True)
class Allowance:
    """`units` in each window in the long run, and `burst` more at once after a quiet time."""

    units: float
    window_s: float
    window_words: str  # s, min, 5 min
    burst: int = 0

    @property
    def per_second(self) -> float:
        return self.units / self.window_s

    def most_in(self, seconds: float) -> float:
        """The most units that can pass in that time, including the whole burst."""
        return self.per_second * seconds + self.burst


def allowance_of(algorithm: Algorithm) -> Allowance | None:
    """None: it does not limit a rate, or (borrowing without a ceiling) only what its parent has left does."""
    match algorithm:
        case TokenBucket() | Gcra() | LeakyBucket():
            return _of_bucket(algorithm)
        case Pool():
            return _of_bucket(algorithm.bucket)
        case Borrowing():
            return _of_bucket(algorithm.most) if algorithm.most else None
        case FixedWindow() | SlidingCounter() | SlidingLog():
            return Allowance(algorithm.limit, algorithm.window_us / SECOND_US, per_text(algorithm.window_us))
        case CalendarQuota():
            days = LONGEST_DAYS[algorithm.period]
            return Allowance(algorithm.limit, days * DAY_US / SECOND_US, algorithm.period)
    return None


def guaranteed_of(algorithm: Algorithm) -> Allowance | None:
    """What a limit that borrows has of its own."""
    return _of_bucket(algorithm.own) if isinstance(algorithm, Borrowing) and algorithm.own else None


def _of_bucket(bucket: TokenBucket | Gcra | LeakyBucket) -> Allowance:
    per_us = bucket.typed_per_us
    return Allowance(bucket.typed_rate, per_us / SECOND_US, per_text(per_us), bucket.capacity)


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    held: int | float  # its present value


def parameters_of(algorithm: Algorithm) -> tuple[Parameter, Parameter | None]:
    """The parameters that people change: the amount, and the burst if there is one."""
    fields = algorithm.describe()
    match algorithm:
        case TokenBucket() | Gcra() | LeakyBucket():
            return Parameter("rate", fields["rate"]), Parameter(algorithm.size_field, fields[algorithm.size_field])
        case Pool():
            return Parameter("rate", fields["rate"]), Parameter("burst", algorithm.burst)
        case Borrowing():
            size = Parameter("burst", algorithm.burst) if algorithm.assured else None
            return Parameter("assured", algorithm.assured), size
        case AdaptiveConcurrency():
            return Parameter("max", algorithm.most), None
    return Parameter("limit", fields["limit"]), None


def amount_fields(algorithm: Algorithm, amount: Any, size: int | None = None) -> dict[str, Any]:
    """The fields of an override that gives this amount, and this size at once.

    A ceiling is raised with the guaranteed share, which may not be above it; a start is lowered with the maximum.
    """
    if isinstance(algorithm, Borrowing) and amount == 0:  # a burst and a reserve belong to a guaranteed share
        return {"assured": 0, "burst": None, **({"reserve": 0} if algorithm.reserve else {})}
    main, burst = parameters_of(algorithm)
    fields = {main.name: amount, **({burst.name: size} if burst and size else {})}
    if isinstance(algorithm, Borrowing) and algorithm.ceiling and isinstance(amount, int):
        most = max(algorithm.ceiling_burst or 1, size or 0 if algorithm.assured else amount)
        higher = {"ceiling": amount} if amount > algorithm.ceiling else {}
        fields |= higher | ({"ceiling_burst": most} if most != algorithm.ceiling_burst else {})
    if isinstance(algorithm, AdaptiveConcurrency) and isinstance(amount, int) and amount < algorithm.start:
        fields["start"] = amount
    return fields
