"""Callers that keep asking while a test hurts the store, and what they were told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from headroom_edge import Check, Decision
from quotas.policies.spec import Configuration
from tests.figures import percentile
from tests.headroom_edge.limiter.both import Either, until
from tests.headroom_edge.limiter.world import COSTLY_ENDPOINT, ENDPOINT, TENANT, configuration, limit

OTHER_ENDPOINT: Final = "unregistered"
# The failure mode of each endpoint in `modes()`.
MODES: Final = {ENDPOINT: "closed", COSTLY_ENDPOINT: "open", OTHER_ENDPOINT: "local"}
ENDPOINTS: Final = tuple(MODES)
PAUSE_S: Final = 0.001
AMPLE_MS: Final = 60_000


def modes() -> Configuration:
    """Limits that nobody reaches, one failure mode an endpoint. Concurrency, because its replies name the caller."""
    slots = limit("slots", "concurrency", limit=1_000_000, hold="1s", on_failure="local")
    closed = limit("slots", "concurrency", limit=1_000_000, hold="1s", on_failure="closed")
    open_ = limit("slots", "concurrency", limit=1_000_000, hold="1s", on_failure="open")
    return configuration(slots, endpoints={ENDPOINT: (closed,), COSTLY_ENDPOINT: (open_,)})


@dataclass
class Load:
    limiter: Either
    answers: list[Decision] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def ask(self, endpoint: str = ENDPOINT) -> Decision:
        check = Check(TENANT, endpoint, holder=f"caller-{next(self._numbers)}")
        start = time.monotonic()
        (decision,) = self.limiter.check_many([check])
        self.took_s.append(time.monotonic() - start)
        self.answers.append(decision)
        return decision

    @contextmanager
    def running(self, callers: int = 6) -> Iterator[None]:
        stop = threading.Event()

        def call(endpoint: str) -> None:
            try:
                while not stop.wait(PAUSE_S):
                    self.ask(endpoint)
            except BaseException as error:  # noqa: BLE001 - whatever reaches a caller is what the test looks for
                self.errors.append(error)

        threads = [
            threading.Thread(target=call, args=(ENDPOINTS[number % len(ENDPOINTS)],)) for number in range(callers)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(120)

    @property
    def degraded(self) -> list[Decision]:
        return [decision for decision in self.answers if decision.degraded]

    def learn(self) -> None:
        """Until the limiter knows every failure mode. Before that its default decides, so nothing is written down."""
        until(self._has_learnt)

    def _has_learnt(self) -> bool:
        checks = [Check(TENANT, endpoint, holder="learner") for endpoint in ENDPOINTS]
        told = [self.limiter.check_many([check], budget_ms=AMPLE_MS)[0] for check in checks]
        self.limiter.attend()
        plan = self.limiter.core.failures._plans.get((TENANT, OTHER_ENDPOINT))
        return plan is not None and not any(decision.degraded for decision in told)

    def is_well(self) -> bool:
        return not any(self.ask(endpoint).degraded for endpoint in ENDPOINTS)

    def assert_nobody_was_harmed(self) -> None:
        """No error reached a caller, no reply a stranger, and each limit followed its own failure mode."""
        assert self.errors == []
        for decision in self.answers:
            if decision.degraded:
                assert decision.failure == MODES[decision.check.endpoint]
                assert decision.allowed == (decision.failure != "closed")
            else:
                assert decision.holder == decision.check.holder

    def latencies(self) -> str:
        p50, p99 = (percentile(self.took_s, share) * 1_000 for share in (0.5, 0.99))
        return f"{len(self.took_s)} checks, p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {max(self.took_s) * 1_000:.1f} ms"
