"""The event loop's way to the store: all questions of one tick in one write, one timer for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from quotas.limiter.address import Address
from quotas.limiter.errors import StoreError, StoreLostError, StoreTimeoutError
from quotas.limiter.stream import Question, Stream, dial

# More than this under way means that the store has stopped answering.
UNDER_WAY_AT_MOST: Final = 10_000


class Line:
    """Belongs to the loop that runs when it is made."""

    def __init__(self, address: Address, patience_s: float, connect_timeout_s: float) -> None:
        self.loop = asyncio.get_running_loop()
        self._address = address
        self._patience_s = patience_s  # no answer for this long: the connection is stuck
        self._connect_timeout_s = connect_timeout_s
        self._stream: Stream | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._unsent: list[Question] = []
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def ask(self, commands: Sequence[bytes], budget_s: float) -> asyncio.Future[list[Any]]:
        answer: asyncio.Future[list[Any]] = self.loop.create_future()
        question = Question(commands, answer, budget_s)
        question.deadline = time.monotonic() + budget_s
        if self._closed or len(self._unsent) >= UNDER_WAY_AT_MOST:
            question.fail(StoreLostError("the limiter is closed, or too many checks wait for the store"))
            return answer
        self._unsent.append(question)
        if self._stream is not None:
            if not self._flushing:
                self._flushing = True
                self.loop.call_soon(self._flush)
        elif self._dialling is None:
            self._dialling = self.loop.create_task(self._dial())
        self._watch(budget_s)
        return answer

    def _flush(self) -> None:
        self._flushing = False
        stream = self._stream
        if stream is None or not self._unsent:
            return
        if len(stream.asked) + len(self._unsent) > UNDER_WAY_AT_MOST:
            stream.drop(StoreTimeoutError("the store has stopped answering"))
            return
        questions, self._unsent = self._unsent, []
        # What a busy loop took before this moment is not the store's time.
        now = time.monotonic()
        for question in questions:
            question.deadline = now + question.budget_s
        stream.send(questions)

    async def _dial(self) -> None:
        try:
            self._stream = await dial(self._address, self._connect_timeout_s, self._lost)
        except StoreError as error:
            stranded, self._unsent = self._unsent, []
            for question in stranded:
                question.fail(error)
        finally:
            self._dialling = None
        self._flush()
