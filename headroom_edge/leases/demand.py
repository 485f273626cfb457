"""How many units a process asks for: what it used lately, for the length of one lease."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

LEAST: Final = 8  # calls in the length of a lease; below that a lease saves nothing, and the store grants none
FIRST: Final = 16
MOST_CALLS: Final = 1_000_000
MOST_COST: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Want:
    calls: int
    cost: int


NOTHING: Final = Want(0, 0)


class Demand:
    """Counts the requests of one lease key. Its caller holds a lock."""

    __slots__ = ("_calls", "_cost", "_since_s", "_wanted")

    def __init__(self) -> None:
        self._since_s = float("-inf")
        self._calls = self._cost = 0  # requests since then that no block paid for
        self._wanted = 0

    def begin(self, now: float, length_s: float) -> None:
        """Without a block: begin a new period if the last one has passed."""
        if now - self._since_s > length_s:
            self.restart(now)

    def count(self, price: int) -> None:
        """Count a request that no block pays for."""
        self._calls += 1
        self._cost += price

    def restart(self, now: float) -> None:
        self._since_s = now
        self._calls = self._cost = 0

    @property
    def is_enough(self) -> bool:
        return self._calls >= LEAST

    def want_first(self) -> Want:
        """Without a block: NOTHING until there were enough requests in the length of one lease."""
        if not self.is_enough:
            self._wanted = 0
            return NOTHING
        return self._want(FIRST, self._calls, self._cost)

    def want_next(self, now: float, length_s: float, spent_calls: int, spent_cost: int) -> Want:
        """After a block. At most twice as many as before, because a short burst would look like a huge demand."""
        calls, cost = self._calls + spent_calls, self._cost + spent_cost
        passed_s = max(now - self._since_s, 1e-6)
        demand = calls * length_s / passed_s
        if demand < LEAST:
            self._wanted = 0
            return NOTHING
        return self._want(min(ceil(demand), max(FIRST, 2 * self._wanted)), calls, cost)

    def _want(self, wanted: int, calls: int, cost: int) -> Want:
        self._wanted = min(wanted, MOST_CALLS)
        return Want(self._wanted, min(MOST_COST, max(self._wanted, ceil(self._wanted * cost / calls))))
