"""Settings of a limiter, for threads and for an event loop alike."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, TypedDict

from headroom_edge.background_chores import Chores
from headroom_edge.core import Core
from headroom_edge.decision import FAILURES, Failure
from headroom_edge.failure import FailureModes
from headroom_edge.global_limits import GlobalLimits
from headroom_edge.heartbeat import HEARTBEAT_S
from headroom_edge.keys import SHARDS
from headroom_edge.leases.book import LeaseBook
from headroom_edge.store.address import ClusterAddress, StoreAddress
from headroom_edge.store.breaker import DEFAULT as DEFAULT_BREAKER
from headroom_edge.store.breaker import BreakerSettings

BUDGET_MS: Final = 20.0
READY_MS: Final = 1_000.0
FAIL_VARIABLE: Final = "HEADROOM_FAIL"
LEASE_MS: Final = 100
LEASE_MS_LEAST, LEASE_MS_MOST = 10, 1_000


class Options(TypedDict, total=False):
    """The fields of Settings as keyword arguments of `from_url`."""

    budget_ms: float
    fail: Failure | None
    shards: int
    rows: bool
    connections: int
    connect_timeout_ms: float
    breaker: BreakerSettings
    heartbeat_s: float
    leases: bool
    lease_ms: int


@dataclass(frozen=True, slots=True)
class Settings:
    budget_ms: float = BUDGET_MS  # for one check, from the call to the decision
    fail: Failure | None = None  # the mode until the plan's own is known; None: $HEADROOM_FAIL, or open
    shards: int = SHARDS
    rows: bool = False  # ask for one row per limit, which RateLimit-Policy needs; costs the store 50 % more
    connections: int = 2
    connect_timeout_ms: float = 1_000.0  # connecting goes on in the background after a check's budget ends
    breaker: BreakerSettings = DEFAULT_BREAKER
    heartbeat_s: float = HEARTBEAT_S
    leases: bool = False  # let busy subjects take units in advance and spend them without asking the store
    lease_ms: int = LEASE_MS  # the longest time for which they are taken, and by which an edit may come late

    def __post_init__(self) -> None:
        for name in ("budget_ms", "connect_timeout_ms", "heartbeat_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0.")
        for name in ("shards", "connections"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1.")
        if type(self.lease_ms) is not int or not LEASE_MS_LEAST <= self.lease_ms <= LEASE_MS_MOST:
            raise ValueError(f"lease_ms must be a whole number from {LEASE_MS_LEAST} to {LEASE_MS_MOST:,}.")
        if self.failure not in FAILURES:
            raise ValueError(f"fail (or ${FAIL_VARIABLE}) must be open, closed or local, not {self.failure!r}.")

    @property
    def failure(self) -> Failure:
        return self.fail or os.environ.get(FAIL_VARIABLE) or "open"  # type: ignore[return-value] # checked above

    def core(self, address: StoreAddress) -> Core:
        failures = FailureModes(self.failure, where=str(address))
        leases = LeaseBook(self.lease_ms, self.shards) if self.leases else None
        elsewhere = GlobalLimits(self.lease_ms, self.shards) if isinstance(address, ClusterAddress) else None
        return Core(
            self.shards,
            self.rows,
            failures,
            Chores(failures, self.shards, self.heartbeat_s, leases=leases, elsewhere=elsewhere),
            leases,
            elsewhere,
        )


LONGEST_BUDGET_S = 3_600.0


def seconds(budget_ms: float) -> float:
    if not budget_ms > 0:
        raise ValueError("budget_ms must be above 0.")
    # An hour is longer than any caller waits, and short enough for every timer.
    return min(budget_ms / 1_000, LONGEST_BUDGET_S)
