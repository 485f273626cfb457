"""The event loop's connection to one server. It is pipelined: all calls of one tick are sent in one write.

As with threads (node.py), a call never raises because of the store: a command that got no reply has a StoreError in the
place of its reply.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, cast

import hiredis

from headroom_edge.errors import StoreAddressError, StoreError, StoreLostError, StoreTimeoutError
from headroom_edge.store.address import Address
from headroom_edge.store.breaker import Breaker, BreakerState, Permit
from headroom_edge.store.connection import Peer, check_greeting, greeting, is_demoted
from headroom_edge.store.node import OPEN, ToAll

# More pending calls than this mean that the store has stopped answering.
UNDER_WAY_AT_MOST: Final = 10_000


class Answer(Protocol):
    """Gets the replies. A future is one, which wakes its task later; another is called back at once.

    It is called once, unless it is done before. It must not raise: other calls wait behind this one.
    """

    def done(self) -> bool: ...
    def set_result(self, replies: list[Any], /) -> None: ...


class PendingCall:
    """Commands that await their replies, and who gets them."""

    __slots__ = ("answer", "breaker", "budget_s", "commands", "deadline", "has_errors", "is_told", "permit", "replies")

    def __init__(
        self,
        commands: Sequence[bytes],
        answer: Answer,
        budget_s: float,
        deadline: float,
        breaker: Breaker | None = None,  # None: the outcome does not count
        permit: Permit = Permit.ASK,
    ) -> None:
        self.commands = commands
        self.answer = answer
        self.budget_s = budget_s
        self.deadline = deadline
        self.breaker = breaker
        self.permit = permit
        self.replies: list[Any] = []
        self.has_errors = False
        self.is_told = False

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the replies any more."""
        return self.is_told or self.answer.done()

    def fail(self, error: StoreError) -> None:
        if self.is_told:
            return
        if self.answer.done():
            self.abandon()
            return
        self.is_told = True
        if self.breaker is not None:
            self.breaker.failed(self.permit)
        self.answer.set_result([error] * len(self.commands))

    def succeed(self) -> None:
        if self.is_told:
            return
        self.is_told = True
        if self.breaker is not None:
            self.breaker.succeeded(self.permit)
        if not self.answer.done():
            self.answer.set_result(self.replies)

    def abandon(self) -> None:
        """The caller was cancelled, which says nothing about the store. But a probe without an outcome would block all
        others."""
        if self.is_told:
            return
        self.is_told = True
        if self.breaker is not None and self.permit is Permit.PROBE:
            self.breaker.failed(self.permit)


# Takes a call over that got an error as reply, such as a redirection. Returns whether it did.
Review = Callable[[PendingCall], bool]


class Stream(asyncio.Protocol):
    def __init__(self, on_lost: Callable[[Stream], None], review: Review | None = None) -> None:
        self._on_lost = on_lost
        self._review = review
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._demoted = False
        self.on_message: Callable[[Any], None] | None = None  # for a subscription
        # A call whose caller gave up keeps its place, so that its replies are not taken for another's.
        self.pending: deque[PendingCall] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio.Transport.
        self._transport = cast("asyncio.Transport", transport)

    def send(self, calls: Sequence[PendingCall]) -> None:
        self.pending.extend(calls)
        if self._transport is not None:
            self._transport.write(b"".join([command for call in calls for command in call.commands]))

    async def ask(self, commands: Sequence[bytes]) -> list[Any]:
        """Raises StoreError if the connection breaks."""
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.send([PendingCall(commands, answer, 0.0, float("inf"))])
        replies = await answer
        if isinstance(replies[0], StoreError):
            raise replies[0]
        return replies

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:
                if self.on_message is None or self.pending:
                    self._match(reply)
                else:
                    self.on_message(reply)
        except (hiredis.ProtocolError, LookupError):
            # Not a reply, or one that belongs to no call: nothing after it can be trusted.
            self.drop(StoreLostError("the store sent unrequested data"))
        if self._demoted:
            self.drop(StoreLostError("the store has become a replica"))

    def _match(self, reply: Any) -> None:
        call = self.pending[0]
        call.replies.append(reply)
        if isinstance(reply, hiredis.ReplyError):
            call.has_errors = True
            if is_demoted(reply):
                self._demoted = True
        if len(call.replies) == len(call.commands):
            self.pending.popleft()
            if not (call.has_errors and self._review is not None and self._review(call)):
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


async def dial_at(
    address: Address,
    timeout_s: float,
    on_lost: Callable[[Stream], None],
    peer: Peer = Peer.SINGLE,
    review: Review | None = None,
) -> Stream:
    """Connect, and wait for the store's first reply. Raises StoreLostError after `timeout_s`."""
    stream = Stream(on_lost, review)
    try:
        async with asyncio.timeout(timeout_s):
            await _connect(address, stream)
            check_greeting(await stream.ask(greeting(address, peer)), address, peer)
    except StoreAddressError as error:
        stream.drop(error)
        raise
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


# Connects, and raises StoreError if it cannot. Gets what to do when the connection is lost.
Dial = Callable[[Callable[[Stream], None]], Awaitable[Stream]]


class Pipeline:
    """Reconnects as needed. Bound to the event loop in which it was created."""

    def __init__(
        self, dial: Dial, patience_s: float, breaker: Breaker, on_trouble: Callable[[], None] = lambda: None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.breaker = breaker
        self._dial_now = dial
        self._on_trouble = on_trouble  # called when the server is lost, late or cannot be reached
        self._patience_s = patience_s  # without a reply for this long, the connection counts as stuck
        self._stream: Stream | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._unsent: list[PendingCall] = []
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._closed = False

    def ask(self, commands: Sequence[bytes], budget_s: float, *, is_counted: bool = True) -> asyncio.Future[list[Any]]:
        """`is_counted`: the breaker lets it ask, and learns how it went. Chores are not."""
        answer: asyncio.Future[list[Any]] = self.loop.create_future()
        call = self._call(commands, budget_s, answer, is_counted=is_counted)
        if call is not None and call.permit is Permit.PROBE:
            answer.add_done_callback(lambda answer: call.abandon() if answer.cancelled() else None)
        return answer

    def call(self, commands: Sequence[bytes], budget_s: float, answer: Answer) -> None:
        """`answer` may be told before this returns."""
        self._call(commands, budget_s, answer)

    def _call(
        self, commands: Sequence[bytes], budget_s: float, answer: Answer, *, is_counted: bool = True
    ) -> PendingCall | None:
        breaker: Breaker | None = self.breaker
        permit = Permit.ASK
        if not is_counted or type(commands) is ToAll:
            breaker = None
        elif (permit := self.breaker.enter()) is Permit.REFUSED:
            answer.set_result([OPEN] * len(commands))
            return None
        call = PendingCall(commands, answer, budget_s, time.monotonic() + budget_s, breaker, permit)
        if self._closed or len(self._unsent) >= UNDER_WAY_AT_MOST:
            call.fail(StoreLostError("the limiter is closed, or too many checks wait for the store"))
            return None
        self._unsent.append(call)
        if self._timer is None or call.deadline < self._timer_s:
            self._watch(call.deadline)
        if self._stream is None:
            self._ensure_dialling()
        elif not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)
        return call

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
            self._stream = await self._dial_now(self._lost)
        except StoreError as error:
            failure = error
        finally:
            self._dialling = None
        if failure is None:
            self._send()
            return
        self._on_trouble()
        stranded, self._unsent = self._unsent, []
        for call in stranded:
            call.fail(failure)  # whoever asks again now starts the next attempt

    def _lost(self, stream: Stream) -> None:
        if stream is self._stream:
            self._stream = None
            self._on_trouble()
            if self._unsent:
                self._ensure_dialling()

    def renew(self) -> None:
        """Another server has taken over: drop the connection to the former one."""
        if self._dialling is not None:
            self._dialling.cancel()
            self._dialling = None
        self.breaker.reset()
        if self._stream is not None:
            self._stream.drop(StoreLostError("another server has become the primary"))
        elif self._unsent:
            self._ensure_dialling()

    @property
    def is_reachable(self) -> bool:
        return self.breaker.state is BreakerState.CLOSED

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
        if late:
            self._on_trouble()
        if self._stream is not None and any(call.budget_s >= self._patience_s for call in late):
            self._stream.drop(StoreTimeoutError("no reply within the budget"))
        self._watch_next()

    def _watch_next(self) -> None:
        pending = self._stream.pending if self._stream is not None else ()
        deadlines = [call.deadline for call in (*pending, *self._unsent) if not call.is_over]
        if deadlines:
            self._watch(min(deadlines))
        elif self._closed and self._stream is not None:
            stream, self._stream = self._stream, None
            stream.drop(StoreLostError("the server has left the cluster's map"))

    def retire(self) -> list[PendingCall]:
        """Its server has left the map. What was sent is still answered; returns what was not, to go elsewhere."""
        self._closed = True
        if self._dialling is not None:
            self._dialling.cancel()
        unsent, self._unsent = self._unsent, []
        if self._timer is None:
            self._watch_next()
        return unsent

    def close(self) -> list[asyncio.Task[None]]:
        """Returns the tasks that are about to end."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        ending = [] if self._dialling is None else [self._dialling]
        for task in ending:
            task.cancel()
        closed = StoreLostError("the limiter is closed")
        for call in self._unsent:
            call.fail(closed)
        if self._stream is not None:
            self._stream.drop(closed)
        return ending
