"""One pipelined connection to the store on an event loop: replies come in the order of the questions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis

from quotas.limiter.address import Address
from quotas.limiter.errors import StoreError, StoreLostError
from quotas.limiter.wire import check_greeting, greeting, is_demoted


class Question:
    """Commands on their way, and the future that gets their replies."""

    __slots__ = ("answer", "budget_s", "commands", "deadline", "replies")

    def __init__(
        self, commands: Sequence[bytes], answer: asyncio.Future[list[Any]], budget_s: float, deadline: float
    ) -> None:
        self.commands = commands
        self.answer = answer
        self.budget_s = budget_s
        self.deadline = deadline
        self.replies: list[Any] = []

    def fail(self, error: StoreError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Stream(asyncio.Protocol):
    def __init__(self, on_lost: Callable[[Stream], None]) -> None:
        self._on_lost = on_lost
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._demoted = False
        # A question whose caller has given up stays in its place, so that no reply slips to another.
        self.asked: deque[Question] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are of a class of their own.
        self._transport = cast("asyncio.Transport", transport)

    def send(self, questions: Sequence[Question]) -> None:
        self.asked.extend(questions)
        if self._transport is not None:
            self._transport.write(b"".join([command for question in questions for command in question.commands]))

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:
                self._match(reply)
        except (hiredis.ProtocolError, LookupError):
            # Bytes that are no reply, or a reply to nothing: whatever comes after cannot be trusted.
            self.drop(StoreLostError("the store sent what nobody asked for"))
        if self._demoted:
            self.drop(StoreLostError("the store has become a replica"))

    def _match(self, reply: Any) -> None:
        question = self.asked[0]
        question.replies.append(reply)
        if is_demoted(reply):
            self._demoted = True
        if len(question.replies) == len(question.commands):
            self.asked.popleft()
            if not question.answer.done():
                question.answer.set_result(question.replies)

    def connection_lost(self, exc: Exception | None) -> None:
        self.drop(StoreLostError(f"the connection broke: {exc or 'closed by the store'}"))

    def drop(self, error: StoreError) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        transport.abort()
        stranded, self.asked = self.asked, deque()
        for question in stranded:
            question.fail(error)
        self._on_lost(self)


async def dial(address: Address, timeout_s: float, on_lost: Callable[[Stream], None]) -> Stream:
    """A stream whose store has answered; StoreLostError if there is none within the time."""
    stream = Stream(on_lost)
    try:
        async with asyncio.timeout(timeout_s):
            await _connect(address, stream)
            hello = Question(greeting(address), asyncio.get_running_loop().create_future(), timeout_s, float("inf"))
            stream.send([hello])
            check_greeting(await hello.answer)
    except (OSError, TimeoutError, ValueError, StoreError) as error:
        lost = StoreLostError(f"{address} cannot be reached: {error or 'no answer in time'}")
        stream.drop(lost)
        raise lost from None
    except BaseException:
        stream.drop(StoreLostError("the limiter was closed"))
        raise
    return stream


async def _connect(address: Address, stream: Stream) -> None:
    loop = asyncio.get_running_loop()
    if address.path:
        await loop.create_unix_connection(lambda: stream, address.path)
    else:
        await loop.create_connection(lambda: stream, address.host, address.port, ssl=address.tls)
