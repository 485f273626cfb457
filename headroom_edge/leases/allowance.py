"""One lease key held in the hand, for loops in which even the arguments of a check cost too much."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from headroom_edge.check import Check
from headroom_edge.decision import Decision
from headroom_edge.leases.block import FREE_THREADED
from headroom_edge.leases.lease import Lease

Find = Callable[[Check], Lease | None]


class _Allowance:
    """Its blocks are those of `check()` with the same arguments."""

    __slots__ = ("_check", "_find", "_lease", "denied")

    def __init__(self, check: Check, find: Find) -> None:
        self._check = check
        self._find = find
        self._lease: Lease | None = None
        self.denied: Decision | None = None  # the latest decision that did not allow it

    def _take(self, cost: int | None) -> bool:
        """Spend from the block, if there is one. False says nothing about the limits."""
        lease = self._lease
        block = None if lease is None else lease.block
        if lease is None or block is None:
            return False
        if cost is None:
            return block.take(lease.plan.price, monotonic()) >= 0
        return type(cost) is int and cost > 0 and block.take(cost, monotonic()) >= 0

    def _question(self, cost: int | None) -> Check:
        check = self._check
        return (
            check if cost is None else Check(check.tenant, check.endpoint, check.subject, cost, priority=check.priority)
        )

    def _heard(self, decision: Decision) -> bool:
        # Without the GIL, a block is only spent under the book's lock.
        self._lease = None if FREE_THREADED else self._find(self._check)
        if not decision.allowed:
            self.denied = decision
        return decision.allowed


class Allowance(_Allowance):
    """`allowance.spend()` is True if the request is allowed. If not, `allowance.denied` has the decision."""

    __slots__ = ("_decide",)

    def __init__(self, check: Check, find: Find, decide: Callable[[Check], Decision]) -> None:
        super().__init__(check, find)
        self._decide = decide

    def spend(self, cost: int | None = None) -> bool:
        return self._take(cost) or self._heard(self._decide(self._question(cost)))


class AsyncAllowance(_Allowance):
    """`await allowance.spend()`. It suspends only if the store must be asked."""

    __slots__ = ("_decide",)

    def __init__(self, check: Check, find: Find, decide: Callable[[Check], Awaitable[Decision]]) -> None:
        super().__init__(check, find)
        self._decide = decide

    async def spend(self, cost: int | None = None) -> bool:
        return self._take(cost) or self._heard(await self._decide(self._question(cost)))
