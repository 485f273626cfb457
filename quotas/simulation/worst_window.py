"""The busiest windows of what was admitted, against what a limit promises: rate × time + burst."""

from __future__ import annotations

from dataclasses import dataclass, field

from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.bucket import Gcra, TokenBucket
from headroom_edge.algorithms.sharing import Borrowing, Pool

Bound = TokenBucket | Gcra


def bound_of(algorithm: Algorithm) -> Bound | None:
    """The bucket that bounds all that passes the limit; None: it has another kind of bound."""
    if isinstance(algorithm, Pool):
        return algorithm.bucket
    if isinstance(algorithm, Borrowing):
        return algorithm.most
    if isinstance(algorithm, TokenBucket | Gcra) and not algorithm.max_wait_us:
        return algorithm
    return None


@dataclass(slots=True)
class WorstWindow:
    """Finds, over all windows that begin and end with an arrival, the one that comes closest to its bound.

    Whole numbers: a unit is P, a microsecond is Q, as in the bucket itself.
    """

    bound: Bound
    begin_us: int = 0
    end_us: int = 0
    units: int = 0  # in the worst window
    _passed: int = 0
    _lows: tuple[int, int, int] | None = None  # the lowest (units before × P − time × Q) so far, its units and time
    _most: int | None = field(default=None)

    def add(self, now_us: int, units: int) -> None:
        height = self._passed * self.bound.P - now_us * self.bound.Q
        if self._lows is None or height <= self._lows[0]:
            self._lows = (height, self._passed, now_us)
        self._passed += units
        excess = height + units * self.bound.P - self._lows[0]
        if self._most is None or excess > self._most:
            self._most = excess
            self.units, self.begin_us, self.end_us = self._passed - self._lows[1], self._lows[2], now_us

    @property
    def allowed(self) -> float:
        """Units that the limit promises at most in the worst window."""
        span_us = self.end_us - self.begin_us
        return self.bound.size + span_us * self.bound.Q / self.bound.P

    @property
    def is_exceeded(self) -> bool:
        return self._most is not None and self._most > self.bound.size * self.bound.P

    @property
    def excess(self) -> float:
        """Units above the bound; below 0: units that were left."""
        return ((self._most or 0) / self.bound.P) - self.bound.size

    @property
    def span_s(self) -> float:
        return (self.end_us - self.begin_us) / SECOND_US
