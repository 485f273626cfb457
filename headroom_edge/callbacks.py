"""Conversations by callbacks, for a server that answers from the callback: no task and no future per request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headroom_edge.check import Check, encode_check
from headroom_edge.core import CHECK, Conversation, Core
from headroom_edge.decision import Decision
from headroom_edge.store.on_loop import LoopStore

T = TypeVar("T")
Failed = Callable[[Exception], None]


class CallbackRun(Generic[T]):
    """One conversation under way. It is itself the Answer of each of its round trips.

    A run cannot be cancelled: a store that has been asked may have counted, so the decision is always learnt.
    """

    __slots__ = ("_asked_s", "_budget_s", "_done", "_failed", "_pipeline", "_talk")

    def __init__(
        self,
        talk: Conversation[T],
        pipeline: LoopStore,
        budget_s: float,  # for all round trips together
        done: Callable[[T], None],
        failed: Failed,  # gets what the conversation or `done` raises, and must not raise
    ) -> None:
        self._talk = talk
        self._pipeline = pipeline
        self._budget_s = budget_s
        self._done = done
        self._failed = failed
        self._asked_s = time.monotonic()

    def begin(self) -> None:
        self._go_on(None)

    def done(self) -> bool:
        return False

    def set_result(self, replies: list[Any], /) -> None:
        self._go_on(replies)

    def _go_on(self, heard: list[Any] | None) -> None:
        try:
            commands = self._talk.send(heard)  # type: ignore[arg-type] # None begins a generator
        except StopIteration as end:
            self._end(end.value)
        except Exception as error:  # noqa: BLE001 - a bug in one conversation must not end the others' connection
            self._failed(error)
        else:
            now = time.monotonic()
            self._budget_s = max(0.0, self._budget_s - (now - self._asked_s))
            self._asked_s = now
            self._pipeline.call(commands, self._budget_s, self)

    def _end(self, answer: T) -> None:
        try:
            self._done(answer)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error)


@dataclass(frozen=True, slots=True)
class CallbackDriver:
    """Runs conversations on one event loop. One of `done` and `failed` is called, maybe before the call returns."""

    core: Core
    pipeline: LoopStore
    budget_s: float

    def start(self, talk: Conversation[T], done: Callable[[T], None], failed: Failed) -> None:
        CallbackRun(talk, self.pipeline, self.budget_s, done, failed).begin()

    def check(self, check: Check, done: Callable[[Decision], None], failed: Failed, *, rows: bool = True) -> None:
        """As `start` with `core.check`, for less."""
        core = self.core
        if core.is_direct(check.endpoint):
            command = encode_check(CHECK, check, core.shards, rows=rows)
            self.pipeline.call((command,), self.budget_s, CheckRun(check, self, done, failed, rows=rows))
        else:
            self.start(core.check(check, rows), done, failed)


class CheckRun:
    """One check under way, without a generator unless the store lacks the function."""

    __slots__ = ("_asked_s", "_check", "_done", "_driver", "_failed", "_rows")

    def __init__(
        self, check: Check, driver: CallbackDriver, done: Callable[[Decision], None], failed: Failed, *, rows: bool
    ) -> None:
        self._check = check
        self._driver = driver
        self._done = done
        self._failed = failed
        self._rows = rows
        self._asked_s = time.monotonic()

    def done(self) -> bool:
        return False

    def set_result(self, replies: list[Any], /) -> None:
        try:
            decision = self._driver.core.answered(self._check, replies[0])
            if decision is None:
                self._ask_at_length()
            else:
                self._done(decision)
        except Exception as error:  # noqa: BLE001 - as in CallbackRun
            self._failed(error)

    def _ask_at_length(self) -> None:
        driver = self._driver
        left_s = max(0.0, driver.budget_s - (time.monotonic() - self._asked_s))
        talk = driver.core.check(self._check, self._rows)
        CallbackRun(talk, driver.pipeline, left_s, self._done, self._failed).begin()
