"""Decisions while the store is down, by each plan's failure mode as remembered from earlier replies."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headroom_edge.check import NOBODY, Check
from headroom_edge.decision import Decision, Failure
from headroom_edge.keys import EVERYONE
from headroom_edge.local import LocalLimiter, local_plan
from headroom_edge.recent_cache import RecentCache

logger = logging.getLogger("headroom_edge")

MODES_KEPT: Final = 65_536
PLANS_KEPT: Final = 16_384
REPORTS_KEPT: Final = 10_000
WANTED_AT_MOST: Final = 10_000
LOG_EVERY_S: Final = 5.0
# When the store returns is unknown; the breaker probes it again within a second.
CLOSED_RETRY_US: Final = 1_000_000
LET_THROUGH: Final = "g"
REFUSED: Final = "c"

Key = tuple[str, str]  # tenant, endpoint


@dataclass(frozen=True, slots=True)
class KnownPlan:
    revision: int
    text: str  # as hr_profile gives it


@dataclass(frozen=True, slots=True)
class DegradedReport:
    """Degraded decisions of one tenant and endpoint that were not yet reported to the store."""

    tenant: str
    endpoint: str
    outcome: str
    count: int
    cost: int


class FailureModes:
    def __init__(self, default: Failure, *, where: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self.default = default  # until a reply tells the plan's own mode
        self._where = where
        self._clock = clock
        self._lock = threading.Lock()
        self._modes: RecentCache[Key, Failure] = RecentCache(MODES_KEPT)
        self._plans: RecentCache[Key, KnownPlan] = RecentCache(PLANS_KEPT)
        self._wanted: dict[Key, int] = {}
        self._reports: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._logged_s = float("-inf")
        self._unlogged = 0
        self.local = LocalLimiter()
        self.share = 1  # the number of enforcers that divide a `local` limit among them
        self.degraded = 0  # decisions made without the store since the start

    def learn(self, key: Key, mode: Failure, revision: int) -> None:
        """Remember a reply's failure mode. On the hot path, so nothing is written unless it is new."""
        if self._modes.get(key) != mode:
            self._modes.put(key, mode)
        if mode == "local":
            known = self._plans.get(key)
            if (known is None or known.revision != revision) and len(self._wanted) < WANTED_AT_MOST:
                self._wanted[key] = revision

    def take_wanted(self, most: int) -> list[tuple[Key, int]]:
        """Return up to `most` plans of `local` limits to fetch: new ones, and those of an older revision."""
        taken = [(key, self._wanted[key]) for key in list(self._wanted)[:most]]
        for key, _ in taken:
            self._wanted.pop(key, None)
        return taken

    def learn_plan(self, key: Key, revision: int, text: str) -> None:
        # Thousands of tenants share a plan, so its text is kept once.
        self._plans.put(key, KnownPlan(revision, sys.intern(text)))

    def decide(self, check: Check, *, reason: str, cause: str, mode: Failure | None = None) -> Decision:
        """`mode`: instead of the plan's."""
        key = (check.tenant, check.endpoint)
        # Who names no tenant would be refused by the store, so an outage must not let them in.
        mode = mode or self._modes.get(key) or ("closed" if check.tenant == NOBODY else self.default)
        plan = self._plans.get(key) if mode == "local" else None
        if mode == "local" and plan is None:
            # The plan was not fetched yet, so the default decides, as before the first reply.
            mode = self.default if self.default != "local" else "open"
        decision = self._by_plan(check, plan) if plan else _flat(check, mode, reason)
        self._count(decision, cause)
        return decision

    def _by_plan(self, check: Check, plan: KnownPlan) -> Decision:
        answer = self.local.decide(local_plan(plan.text, self.share), check)
        return answer.decision(check, plan.revision)

    def _count(self, decision: Decision, cause: str) -> None:
        check = decision.check
        cell = (check.tenant, check.endpoint, LET_THROUGH if decision.allowed else REFUSED)
        with self._lock:
            self.degraded += 1
            self._unlogged += 1
            self._report(cell, check)
            now = self._clock()
            if now - self._logged_s < LOG_EVERY_S:
                return
            self._logged_s, unlogged, self._unlogged = now, self._unlogged, 0
        logger.warning(
            "degraded: %d decisions without the store at %s since the last message; latest: %s, %s (%s)",
            unlogged,
            self._where,
            decision.failure,
            "allowed" if decision.allowed else "denied",
            cause,
        )

    def _report(self, cell: tuple[str, str, str], check: Check) -> None:
        count, cost = self._reports.get(cell, (0, 0))
        # What global limits decide is counted with their tenant, whose shard is asked next.
        if check.tenant != EVERYONE and (count or len(self._reports) < REPORTS_KEPT):
            self._reports[cell] = (count + 1, cost + (check.cost or 1))

    def report_refused(self, check: Check) -> None:
        """The request was refused because global limits could not be asked."""
        with self._lock:
            self._report((check.tenant, check.endpoint, REFUSED), check)

    def take_reports(self) -> list[DegradedReport]:
        with self._lock:
            taken, self._reports = self._reports, {}
        return [DegradedReport(*cell, *sums) for cell, sums in taken.items()]

    def put_back(self, report: DegradedReport) -> None:
        cell = (report.tenant, report.endpoint, report.outcome)
        with self._lock:
            count, cost = self._reports.get(cell, (0, 0))
            self._reports[cell] = (count + report.count, cost + report.cost)


def _flat(check: Check, mode: Failure, reason: str) -> Decision:
    allowed = mode == "open"
    retry_us = 0 if allowed else CLOSED_RETRY_US
    return Decision(check, allowed, reason, "", 0, 0, 0, retry_us, 0, 0, check.holder, failure=mode)
