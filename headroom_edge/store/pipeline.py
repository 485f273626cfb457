"""The event loop's connection to the store. It is pipelined: all calls of one tick are sent in one write."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import hiredis

from headroom_edge.errors import StoreError, StoreLostError, StoreTimeoutError
from headroom_edge.store.address import Address
from headroom_edge.store.connection import check_greeting, greeting, is_demoted

# More pending calls than this mean that the store has stopped answering.
UNDER_WAY_AT_MOST: Final = 10_000


class Answer(Protocol):
    """Gets the replies, or the error. A future is one, which wakes its task later; another is called back at once.

    One of the two is called, once, unless it is done before. Neither may raise: other calls wait behind this one.
    """

    def done(self) -> bool: ...
    def set_result(self, replies: list[Any], /) -> None: ...
    def set_exception(self, error: StoreError, /) -> None: ...


class PendingCall:
    """Commands that await their replies, and who gets them."""

    __slots__ = ("answer", "budget_s", "commands", "deadline", "is_told", "replies")

    def __init__(self, commands: Sequence[bytes], answer: Answer, budget_s: float, deadline: float) -> None:
        self.commands = commands
        self.answer = answer
        self.budget_s = budget_s
        self.deadline = deadline
        self.replies: list[Any] = []
        self.is_told = False

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the replies any more."""
        return self.is_told or self.answer.done()

    def fail(self, error: StoreError) -> None:
        if not self.is_over:
            self.is_told = True
            self.answer.set_exception(error)

    def succeed(self) -> None:
        if not self.is_over:
            self.is_told = True
            self.answer.set_result(self.replies)


class Stream(asyncio.Protocol):
    def __init__(self, on_lost: Callable[[Stream], None]) -> None:
        self._on_lost = on_lost
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._demoted = False
        # A call whose caller gave up keeps its place, so that its replies are not taken for another's.
        self.pending: deque[PendingCall] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio.Transport.
        self._transport = cast("asyncio.Transport", transport)

    def send(self, calls: Sequence[PendingCall]) -> None:
        self.pending.extend(calls)
        if self._transport is not None:
            self._transport.write(b"".join([command for call in calls for command in call.commands]))

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:
                self._match(reply)
        except (hiredis.ProtocolError, LookupError):
            # Not a reply, or one that belongs to no call: nothing after it can be trusted.
            self.drop(StoreLostError("the store sent unrequested data"))
        if self._demoted:
            self.drop(StoreLostError("the store has become a replica"))

    def _match(self, reply: Any) -> None:
        call = self.pending[0]
        call.replies.append(reply)
        if is_demoted(reply):
            self._demoted = True
        if len(call.replies) == len(call.commands):
            self.pending.popleft()
            call.succeed()

    def connection_lost(self, exc: Exception | None) -> None:
        self.drop(StoreLostError(f"the connection broke: {exc or 'closed by the store'}"))

    def drop(self, error: StoreError) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        transport.abort()
        stranded, self.pending = self.pending, deque()
        self._on_lost(self)
        for call in stranded:
            call.fail(error)


async def dial(address: Address, timeout_s: float, on_lost: Callable[[Stream], None]) -> Stream:
    """Connect, and wait for the store's first reply. Raises StoreLostError after `timeout_s`."""
    stream = Stream(on_lost)
    try:
        async with asyncio.timeout(timeout_s):
            await _connect(address, stream)
            greeted: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
            stream.send([PendingCall(greeting(address), greeted, timeout_s, float("inf"))])
            check_greeting(await greeted)
    except (OSError, TimeoutError, ValueError, StoreError) as error:
        lost = StoreLostError(f"{address} cannot be reached: {error or 'no reply in time'}")
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


class Pipeline:
    """Reconnects as needed. Bound to the event loop in which it was created."""

    def __init__(self, address: Address, patience_s: float, connect_timeout_s: float) -> None:
        self.loop = asyncio.get_running_loop()
        self._address = address
        self._patience_s = patience_s  # without a reply for this long, the connection counts as stuck
        self._connect_timeout_s = connect_timeout_s
        self._stream: Stream | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._unsent: list[PendingCall] = []
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._closed = False

    def ask(self, commands: Sequence[bytes], budget_s: float) -> asyncio.Future[list[Any]]:
        answer: asyncio.Future[list[Any]] = self.loop.create_future()
        self.call(commands, budget_s, answer)
        return answer

    def call(self, commands: Sequence[bytes], budget_s: float, answer: Answer) -> None:
        """`answer` may get its error before this returns."""
        call = PendingCall(commands, answer, budget_s, time.monotonic() + budget_s)
        if self._closed or len(self._unsent) >= UNDER_WAY_AT_MOST:
            call.fail(StoreLostError("the limiter is closed, or too many checks wait for the store"))
            return
        self._unsent.append(call)
        if self._timer is None or call.deadline < self._timer_s:
            self._watch(call.deadline)
        if self._stream is None:
            self._ensure_dialling()
        elif not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        # The budget starts now: the time that a busy loop took so far is not the store's.
        now = time.monotonic()
        for call in self._unsent:
            call.deadline = now + call.budget_s
        self._send()

    def _send(self) -> None:
        calls = [call for call in self._unsent if not call.is_over]
        if self._stream is None or not calls:
            return
        self._unsent = []
        self._stream.send(calls)
        if len(self._stream.pending) > UNDER_WAY_AT_MOST:
            self._stream.drop(StoreTimeoutError("the store has stopped answering"))

    def _ensure_dialling(self) -> None:
        if self._dialling is None and not self._closed:
            self._dialling = self.loop.create_task(self._dial())

    async def _dial(self) -> None:
        failure: StoreError | None = None
        try:
            self._stream = await dial(self._address, self._connect_timeout_s, self._lost)
        except StoreError as error:
            failure = error
        finally:
            self._dialling = None
        if failure is None:
            self._send()
            return
        stranded, self._unsent = self._unsent, []
        for call in stranded:
            call.fail(failure)  # whoever asks again now starts the next attempt

    def _lost(self, stream: Stream) -> None:
        if stream is self._stream:
            self._stream = None
            if self._unsent:
                self._ensure_dialling()

    def _watch(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = deadline
        # Wait two more turns of the loop, so that a busy loop first reads the replies that arrived in the meantime.
        later = max(0.0, deadline - time.monotonic())
        self._timer = self.loop.call_later(later, self.loop.call_soon, self.loop.call_soon, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = time.monotonic()
        pending = self._stream.pending if self._stream is not None else ()
        late = [call for call in pending if call.deadline <= now]
        for call in (*late, *self._unsent):
            if call.deadline <= now:
                call.fail(StoreTimeoutError("no reply within the budget"))
        self._unsent = [call for call in self._unsent if call.deadline > now]
        if self._stream is not None and any(call.budget_s >= self._patience_s for call in late):
            self._stream.drop(StoreTimeoutError("no reply within the budget"))
        self._watch_next()

    def _watch_next(self) -> None:
        pending = self._stream.pending if self._stream is not None else ()
        deadlines = [call.deadline for call in (*pending, *self._unsent) if not call.is_over]
        if deadlines:
            self._watch(min(deadlines))

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
        closed = StoreLostError("the limiter is closed")
        for call in self._unsent:
            call.fail(closed)
        if self._stream is not None:
            self._stream.drop(closed)
