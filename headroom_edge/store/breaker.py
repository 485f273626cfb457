"""Circuit breaker: stops asking a store that does not answer, and probes it with single requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final


class BreakerState(Enum):
    CLOSED = "closed"  # requests ask the store
    OPEN = "open"  # no request asks the store
    HALF_OPEN = "half_open"  # one request probes the store, the others do not ask


class Permit(Enum):
    """What a request may do: ask the store, ask it as the probe, or not ask it."""

    ASK = "ask"
    PROBE = "probe"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    failures: int = 5  # the breaker opens at this many failures ...
    of: int = 20  # ... among this many latest requests
    forget_s: float = 10.0  # older failures are ignored
    cooldown_s: float = 0.5  # from opening to the probe

    def __post_init__(self) -> None:
        if not 1 <= self.failures <= self.of:
            raise ValueError("failures must be at least 1 and at most `of`, the number of requests considered.")
        if self.cooldown_s <= 0 or self.forget_s <= 0:
            raise ValueError("cooldown_s and forget_s must be above 0.")


DEFAULT: Final = BreakerSettings()


class Breaker:
    def __init__(self, settings: BreakerSettings = DEFAULT, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._mask = (1 << settings.of) - 1
        self._history = 0  # one bit per request, the newest lowest; 1: failed
        self._last_failure_s = 0.0
        self._opened_s = 0.0
        self.state = BreakerState.CLOSED
        self.opened = 0  # how often the breaker has opened
        self.probes = 0  # how many requests were probes

    def enter(self) -> Permit:
        if self.state is BreakerState.CLOSED:
            return Permit.ASK
        with self._lock:
            return self._enter_slowly()

    def _enter_slowly(self) -> Permit:
        if self.state is BreakerState.CLOSED:
            return Permit.ASK
        if self.state is BreakerState.HALF_OPEN or self._clock() - self._opened_s < self._settings.cooldown_s:
            return Permit.REFUSED
        self.state = BreakerState.HALF_OPEN
        self.probes += 1
        return Permit.PROBE

    def succeeded(self, permit: Permit) -> None:
        # No lock here: losing the bit of a success does no harm.
        if permit is Permit.ASK:
            if self._history:
                self._history = (self._history << 1) & self._mask
            return
        with self._lock:
            self.state = BreakerState.CLOSED
            self._history = 0

    def reset(self) -> None:
        """Another server has taken over: what is known of the former one does not count any more."""
        with self._lock:
            self.state = BreakerState.CLOSED
            self._history = 0

    def failed(self, permit: Permit) -> None:
        with self._lock:
            if permit is Permit.PROBE:
                self._open()
            elif self.state is BreakerState.CLOSED:
                self._count_failure()

    def _count_failure(self) -> None:
        now = self._clock()
        if now - self._last_failure_s > self._settings.forget_s:
            self._history = 0
        self._last_failure_s = now
        self._history = (self._history << 1 | 1) & self._mask
        if self._history.bit_count() >= self._settings.failures:
            self.opened += 1
            self._open()

    def _open(self) -> None:
        self.state = BreakerState.OPEN
        self._opened_s = self._clock()
