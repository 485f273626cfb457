"""A granted block of units, how it is spent, and what the store must hear about it afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from headroom_edge.check import Check, encode_call
from headroom_edge.decision import Decision

MICROSECONDS: Final = 1_000_000
CLOSED: Final = -1  # `left` of a block that was settled, or is being settled
_has_gil: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
FREE_THREADED: Final = not _has_gil()


@dataclass(frozen=True, slots=True)
class Grant:
    """What hr_lease replies besides the decision. Without a block, `calls` and `cost` are 0."""

    calls: int
    cost: int
    lasts_us: int
    receipt: bytes
    dimensions: tuple[str, ...]  # that the plan uses

    @classmethod
    def parse(cls, reply: Any) -> Self:
        calls, cost, lasts_us, receipt, names = reply
        return cls(int(calls), int(cost), int(lasts_us), bytes(receipt), tuple(name.decode() for name in names))


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of a block. The store settles a receipt once, so this may be sent again if its reply was lost."""

    check: Check
    spent_calls: int
    spent_cost: int
    back_calls: int
    back_cost: int
    receipt: bytes
    closed_s: float  # on the monotonic clock

    def words(self) -> tuple[str | bytes, ...]:
        numbers = (self.spent_calls, self.spent_cost, self.back_calls, self.back_cost)
        return (*map(str, numbers), self.receipt)

    def command(self, shards: int) -> bytes:
        return encode_call("hr_return", self.check, shards, *self.words())


NOTHING_TO_SETTLE: Final = ("0", "0", "0", "0", "")


class Block:
    """Units to spend until `end_s`: 1 call and the request's cost for each request.

    Threads spend without a lock. CPython hands the GIL over only at calls, at jumps backwards and at the start of a
    function, and runs signal handlers there too. `take`, `close` and `give_back` read and write `left` and `calls`
    between such places and allocate nothing but numbers, so no garbage collection runs in between either. Keep it so:
    a call in the middle would let two threads spend the same unit. (A line tracer such as a debugger is a call between
    lines.) On a free-threaded build there is no GIL, and the book's lock is held around them; see FREE_THREADED.
    """

    __slots__ = ("began_s", "calls", "decision", "end_s", "granted_calls", "granted_cost", "left", "receipt")

    def __init__(self, grant: Grant, decision: Decision, began_s: float) -> None:
        """`began_s`: the monotonic clock before the call for it was sent, so that it ends before the store's does."""
        self.left = self.granted_cost = grant.cost
        self.calls = self.granted_calls = grant.calls
        self.receipt = grant.receipt
        self.decision = decision  # of the request that brought it, with rows
        self.began_s = began_s
        self.end_s = began_s + grant.lasts_us / MICROSECONDS

    def take(self, price: int, now: float) -> int:
        """Spend one call of this cost. Returns the cost that is left, or a negative number if it was not spent."""
        left = self.left - price
        calls = self.calls - 1
        if now >= self.end_s or calls < 0:
            return CLOSED
        if left >= 0:
            self.left = left
            self.calls = calls
        return left

    def give_back(self, price: int, now: float) -> bool:
        """Undo one `take` while the block can still be spent."""
        if now >= self.end_s or self.left < 0:
            return False
        self.left += price
        self.calls += 1
        return True

    def close(self, now: float) -> Settlement | None:
        """End the block. Returns what to settle; None if it was closed before."""
        left, calls, self.left = self.left, self.calls, CLOSED
        if left < 0:
            return None
        spent_calls, spent_cost = self.granted_calls - calls, self.granted_cost - left
        return Settlement(self.decision.check, spent_calls, spent_cost, calls, left, self.receipt, now)

    @property
    def is_open(self) -> bool:
        return self.left >= 0
