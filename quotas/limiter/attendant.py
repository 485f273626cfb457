"""The daemon thread that does a limiter's chores over a connection of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from quotas.limiter.breaker import State
from quotas.limiter.chores import TICK_S
from quotas.limiter.core import Core
from quotas.limiter.errors import StoreError
from quotas.limiter.wire import Wire


class Attendant:
    def __init__(self, core: Core, dial: Callable[[], Wire], patience_s: float) -> None:
        self._core = core
        self._dial = dial
        self._patience_s = patience_s
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._started = False
        self._wire: Wire | None = None

    def ensure(self) -> None:
        if not self._started:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._started:
                return
            self._started = True
            # Without the thread checks still work; only `local` does not learn.
            with suppress(RuntimeError):
                threading.Thread(target=self._attend, name="headroom-attendant", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _attend(self) -> None:
        while not self._stopped.wait(TICK_S):
            # While the breaker is open a request finds out whether the store is back, not we.
            if self._core.breaker.state is State.CLOSED:
                self.attend()
        if self._wire is not None:
            self._wire.close()

    def attend(self) -> None:
        chores = self._core.chores.take()
        if not chores:
            return
        try:
            wire = self._wire or self._dial()
            self._wire = None
            replies = wire.exchange([chore.command for chore in chores], time.monotonic() + self._patience_s)
        except StoreError:
            self._core.chores.settle(chores, None)
            return
        self._wire = wire
        self._core.chores.settle(chores, replies)
