"""Runs a conversation by callbacks, for a server that answers from the callback: no task and no future per request."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from headroom_edge.core import Commands, Conversation
from headroom_edge.errors import StoreError
from headroom_edge.store.pipeline import Pipeline

T = TypeVar("T")


class CallbackRun(Generic[T]):
    """One conversation under way. It is itself the Answer of each of its round trips.

    A run cannot be cancelled: a store that has been asked may have counted, so the decision is always learnt.
    """

    __slots__ = ("_asked_s", "_budget_s", "_done", "_failed", "_pipeline", "_talk")

    def __init__(
        self,
        talk: Conversation[T],
        pipeline: Pipeline,
        budget_s: float,  # for all round trips together
        done: Callable[[T], None],
        failed: Callable[[Exception], None],  # gets what the conversation or `done` raises, and must not raise
    ) -> None:
        self._talk = talk
        self._pipeline = pipeline
        self._budget_s = budget_s
        self._done = done
        self._failed = failed
        self._asked_s = time.monotonic()

    def begin(self) -> None:
        self._go_on(self._talk.send, None)

    def done(self) -> bool:
        return False

    def set_result(self, replies: list[Any], /) -> None:
        self._go_on(self._talk.send, replies)

    def set_exception(self, error: StoreError, /) -> None:
        self._go_on(self._talk.throw, error)

    def _go_on(self, resume: Callable[[Any], Commands], heard: list[Any] | StoreError | None) -> None:
        try:
            commands = resume(heard)
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
