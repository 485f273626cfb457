"""Global limits in a cluster. No I/O.

They count all tenants, so their records cannot lie in a tenant's shard. They have a home, `hr:{all}`, with plans of
their own, those of a tenant named `*`. A request pays there first, from a block that this process has leased if it can,
and then asks its tenant's shard. If that denies it, the home gets its units back.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final

from headroom_edge.check import Check
from headroom_edge.decision import Decision
from headroom_edge.keys import EVERYONE
from headroom_edge.leases.book import LeaseBook
from headroom_edge.leases.decision import LeasedDecision
from headroom_edge.leases.dues import DenialReport, Dues

ELSEWHERE: Final = "global"  # the reason of a shard that was asked before the home
ENDPOINTS_KEPT: Final = 10_000
REPORTS_AT_ONCE: Final = 1_000


@dataclass(slots=True)
class HomeCheck(Check):
    """What a request asks the home of global limits. Its arguments were found valid with the request's own check."""

    def __post_init__(self) -> None:
        pass


@dataclass(slots=True)
class PaidCheck(Check):
    """A check of a request that the home of global limits has allowed."""

    is_paid: ClassVar[bool] = True

    def __post_init__(self) -> None:
        pass


def home_of(check: Check) -> HomeCheck:
    return HomeCheck(EVERYONE, check.endpoint, check.subject, check.cost, check.holder, check.priority)


def paid(check: Check, home: Decision) -> PaidCheck:
    # A holder that the home made up is the shard's too: one id releases both slots. A block never holds any.
    holder = check.holder or ("" if isinstance(home, LeasedDecision) else home.holder)
    return PaidCheck(check.tenant, check.endpoint, check.subject, check.cost, holder, check.priority)


class GlobalLimits:
    def __init__(self, lease_ms: int, shards: int) -> None:
        self.book = LeaseBook(lease_ms, shards, of_globals=True)
        self.endpoints: set[str] = set()  # those that are known to have some; a shard tells of others
        self._lock = threading.Lock()
        self._denials = Dues()

    def learn(self, endpoint: str) -> None:
        if len(self.endpoints) >= ENDPOINTS_KEPT:  # callers invent names
            self.endpoints.clear()
        self.endpoints.add(endpoint)

    def heard(self, endpoint: str, decision: Decision) -> None:
        """The home's decision. Without a limit there is none any more, and the next check goes to the shard alone."""
        if decision.allowed and not decision.degraded and not decision.limit:
            self.endpoints.discard(endpoint)

    def denied(self, check: Check, decision: Decision) -> None:
        """The tenant's shard has not seen this request, so it is told later."""
        with self._lock:
            self._denials.deny(check.tenant, check.endpoint, decision.limit, check.cost or 1)

    def put_back(self, report: DenialReport) -> None:
        with self._lock:
            self._denials.put(report)

    def take_reports(self) -> list[DenialReport]:
        with self._lock:
            return [due for due in self._denials.take(REPORTS_AT_ONCE) if isinstance(due, DenialReport)]


def refused(check: Check, home: Decision, *, rows: bool) -> Decision:
    return Decision(
        check,
        False,
        home.reason,
        home.limit,
        home.quota,
        home.remaining,
        home.reset_us,
        home.retry_us,
        0,
        home.revision,
        check.holder,
        failure=home.failure,
        raw_rows=home.raw_rows if rows else (),
    )


_AT_ONCE: Final = frozenset(("allowed", "failure", "parts"))
_LATER: Final = frozenset(each.name for each in fields(Decision)) - _AT_ONCE


class CombinedDecision(Decision):
    """Of the tenant's shard and of the home. Most callers look at `allowed` alone, so the rest is worked out on demand.

    Until then its slots are empty, and Python asks `__getattr__`, as in LeasedDecision.
    """

    __slots__ = ("_check", "_rows")

    _check: Check
    _rows: bool  # whether the caller asked for rows

    def __getattr__(self, name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._fill()
        return object.__getattribute__(self, name)

    def _fill(self) -> None:
        own, home = self.parts
        is_home = own.allowed and home.limit and (not own.limit or home.remaining < own.remaining)
        tightest = home if is_home else own
        self.check = self._check
        self.reason, self.revision = own.reason, own.revision
        self.limit, self.quota = tightest.limit, tightest.quota
        self.remaining, self.reset_us = tightest.remaining, tightest.reset_us
        self.retry_us, self.wait_us = own.retry_us, max(own.wait_us, home.wait_us)
        self.holder = own.holder or home.holder
        self.raw_receipt = own.raw_receipt
        self.raw_rows = [*own.raw_rows, *home.raw_rows] if self._rows else ()


def combined(check: Check, own: Decision, home: Decision, *, rows: bool) -> Decision:
    """One decision of the tenant's shard and of the home, which both allowed, or which the shard denied."""
    decision = object.__new__(CombinedDecision)
    decision.allowed = own.allowed
    # What a limit of the tenant denies is no matter of the home's failure mode.
    decision.failure = own.failure or (home.failure if own.allowed else None)
    decision.parts = (own, home)
    decision._check = check
    decision._rows = rows
    return decision
