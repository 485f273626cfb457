"""A decision that a block paid for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from headroom_edge.check import SubjectValues
from headroom_edge.decision import Decision
from headroom_edge.leases.block import MICROSECONDS, Block

# Positions in a row of hr_check's reply.
NAME, QUOTA, REMAINING, RESET, RETRY, UNIT = 0, 2, 4, 5, 6, 9
REQUESTS: Final = b"requests"
_AT_ONCE: Final = frozenset(("allowed", "failure"))
_LATER: Final = frozenset(field.name for field in fields(Decision)) - _AT_ONCE


class LeasedDecision(Decision):
    """Made on every leased check, so most fields are only worked out when one of them is read.

    Until then their slots are empty, and Python asks `__getattr__`. `allowed` and `failure` are set from the start.
    """

    __slots__ = ("_block", "_calls", "_cost", "_left", "_now", "_price", "_rows", "_subject")

    _block: Block
    _subject: SubjectValues | None
    _cost: int | None  # as the caller gave it
    _price: int  # what was spent; 0 after a refund
    _left: int  # of the block's cost and calls, after this request
    _calls: int
    _now: float
    _rows: bool  # whether the caller asked for rows

    def __getattr__(self, name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._fill()
        return object.__getattribute__(self, name)

    def _fill(self) -> None:
        block, granted = self._block, self._block.decision
        passed_us = int((self._now - block.began_s) * MICROSECONDS)
        spent_calls, spent_cost = block.granted_calls - self._calls, block.granted_cost - self._left
        rows = aged(granted.raw_rows, passed_us, spent_calls, spent_cost)
        # Of the same class: the home of global limits has a tenant that no caller may name.
        asked = type(granted.check)
        self.check = asked(granted.check.tenant, granted.check.endpoint, self._subject or {}, self._cost)
        self.reason = "ok"
        self.revision = granted.revision
        self.retry_us = self.wait_us = 0
        self.holder = ""
        self.raw_receipt = self.parts = ()
        self.raw_rows = rows if self._rows else ()
        self.limit, self.quota, self.remaining, self.reset_us = granted.limit, granted.quota, 0, 0
        if rows:
            tightest = min(rows, key=_remaining)
            self.limit, self.quota = tightest[NAME].decode(), tightest[QUOTA]
            self.remaining, self.reset_us = tightest[REMAINING], tightest[RESET]

    def give_back(self, now: float) -> int:
        """Undo the spending, once. Returns the number of limits that get it back."""
        price, self._price = self._price, 0
        if not price or not self._block.give_back(price, now):
            return 0
        return len(self._block.decision.raw_rows)


_new = object.__new__


def leased(
    block: Block, subject: SubjectValues | None, cost: int | None, price: int, left: int, now: float, rows: bool
) -> LeasedDecision:
    # Without a constructor, which would cost half as much as all the rest of a leased check.
    decision = _new(LeasedDecision)
    decision.allowed = True
    decision.failure = None
    decision._block = block
    decision._subject = subject
    decision._cost = cost
    decision._price = price
    decision._left = left
    decision._calls = block.calls
    decision._now = now
    decision._rows = rows
    return decision


def _remaining(row: Sequence[Any]) -> int:
    remaining: int = row[REMAINING]
    return remaining


def aged(rows: Sequence[Sequence[Any]], passed_us: int, calls: int = 0, cost: int = 0) -> list[list[Any]]:
    """The rows of a reply as they are a moment later, after so much was spent."""
    return [_aged(row, passed_us, calls if row[UNIT] == REQUESTS else cost) for row in rows]


def _aged(row: Sequence[Any], passed_us: int, spent: int) -> list[Any]:
    later = list(row)
    later[REMAINING] = max(0, row[REMAINING] - spent)
    later[RESET] = max(0, row[RESET] - passed_us)
    later[RETRY] = row[RETRY] if row[RETRY] <= 0 else max(1, row[RETRY] - passed_us)
    return later
