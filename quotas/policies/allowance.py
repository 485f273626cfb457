"""What a limit allows, in the units in which demand is measured."""

from dataclasses import dataclass

from headroom_edge.algorithms.base import DAY_US, SECOND_US, Algorithm, per_text
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.calendar_quota import LONGEST_DAYS, CalendarQuota
from headroom_edge.algorithms.fixed_window import FixedWindow
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
    """None: it does not limit a rate."""
    match algorithm:
        case TokenBucket() | Gcra() | LeakyBucket():
            per_us = algorithm.typed_per_us
            return Allowance(algorithm.typed_rate, per_us / SECOND_US, per_text(per_us), algorithm.capacity)
        case FixedWindow() | SlidingCounter() | SlidingLog():
            return Allowance(algorithm.limit, algorithm.window_us / SECOND_US, per_text(algorithm.window_us))
        case CalendarQuota():
            days = LONGEST_DAYS[algorithm.period]
            return Allowance(algorithm.limit, days * DAY_US / SECOND_US, algorithm.period)
    return None


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
    return Parameter("limit", fields["limit"]), None
