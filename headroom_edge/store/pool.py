"""A bounded pool of connections for threads. Threads that find no free connection wait and are batched.

The first waiter leads: it takes the next free connection, sends the commands of all waiters in one write, and hands out
the replies. So many threads cost few round trips, and a single thread never waits.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from headroom_edge.errors import StoreError, StoreLostError, StoreTimeoutError, StoreUnsentError

DIAL_AT_MOST_S: Final = 60.0


class Connection(Protocol):
    def exchange(self, commands: Sequence[bytes], deadline: float) -> list[Any]: ...
    def is_fit(self) -> bool: ...
    def close(self) -> None: ...


class _Waiter:
    """Commands that wait for a connection. `done` is released when replies, an error or a connection to lead arrive."""

    __slots__ = ("batch", "commands", "connection", "deadline", "done", "error", "gone", "replies")

    def __init__(self, commands: Sequence[bytes], deadline: float) -> None:
        self.commands = commands
        self.deadline = deadline
        # A held lock serves as a one-shot event; threading.Event costs several times as much.
        self.done = threading.Lock()
        self.done.acquire()
        self.connection: Connection | None = None  # if set, this waiter must lead the batch over it
        self.batch: list[_Waiter] = []
        self.replies: list[Any] = []
        self.error: StoreError | None = None
        self.gone = False  # its thread gave up, so it must never lead

    def succeed(self, replies: list[Any]) -> None:
        self.replies = replies
        self.done.release()

    def fail(self, error: StoreError) -> None:
        self.error = error
        self.done.release()


class ConnectionPool:
    def __init__(self, dial: Callable[[], Connection], size: int) -> None:
        self._dial = dial
        self._size = size
        self._lock = threading.Lock()
        self._free: list[Connection] = []
        # A signal may interrupt the main thread between any two lines. What it held must not count for ever, so open
        # connections are counted by weak references, and a dial that never ends is forgotten.
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._dials: dict[object, float] = {}
        self._waiting: list[_Waiter] = []
        self._closed = False

    def exchange(self, commands: Sequence[bytes], deadline: float) -> list[Any]:
        with self._lock:
            connection = self._take()
            if connection is None:
                waiter = self._join(commands, deadline)
        if connection is None:
            return self._wait(waiter)
        return self._use(connection, commands, deadline)

    def _join(self, commands: Sequence[bytes], deadline: float) -> _Waiter:
        if self._closed:
            raise StoreUnsentError("the limiter is closed")
        waiter = _Waiter(commands, deadline)
        self._waiting.append(waiter)
        self._grow()
        return waiter

    def _take(self) -> Connection | None:
        while self._free:
            connection = self._free.pop()
            if connection.is_fit():
                return connection
            connection.close()
            self._open.discard(connection)
        return None

    def _grow(self) -> None:
        now = time.monotonic()
        self._dials = {dial: since for dial, since in self._dials.items() if now - since < DIAL_AT_MOST_S}
        if self._closed or len(self._open) + len(self._dials) >= self._size:
            return
        dial = object()
        self._dials[dial] = now
        # In its own thread, because a TLS handshake may take longer than the caller's budget.
        try:
            threading.Thread(target=self._connect, args=(dial,), name="headroom-dial", daemon=True).start()
        except RuntimeError:  # no more threads can be started; go on without this connection
            del self._dials[dial]

    def _connect(self, dial: object) -> None:
        try:
            connection = self._dial()
        except (StoreError, OSError, ValueError) as error:
            self._dial_failed(dial, error if isinstance(error, StoreError) else StoreLostError(str(error)))
            return
        with self._lock:
            self._dials.pop(dial, None)
            self._open.add(connection)
        self._give(connection)

    def _dial_failed(self, dial: object, error: StoreError) -> None:
        with self._lock:
            self._dials.pop(dial, None)
            if self._open or self._dials:
                return
            stranded, self._waiting = self._waiting, []
        for waiter in stranded:
            waiter.fail(error)

    def _use(self, connection: Connection, commands: Sequence[bytes], deadline: float) -> list[Any]:
        try:
            replies = connection.exchange(commands, deadline)
        except BaseException:
            self._drop(connection)
            raise
        self._give(connection)
        return replies

    def _give(self, connection: Connection) -> None:
        with self._lock:
            if self._closed:
                connection.close()
            elif self._waiting:
                batch, self._waiting = self._waiting, []
                self._appoint(connection, batch)
            else:
                self._free.append(connection)

    @staticmethod
    def _appoint(connection: Connection, batch: list[_Waiter]) -> None:
        leader = batch[0]
        leader.batch, leader.connection = batch, connection
        leader.done.release()

    def _drop(self, connection: Connection) -> None:
        """Close a connection after an error: late replies must not reach another caller."""
        connection.close()
        with self._lock:
            self._open.discard(connection)
            if self._waiting:
                self._grow()

    def _wait(self, waiter: _Waiter) -> list[Any]:
        try:
            has_news = waiter.done.acquire(timeout=max(0.0, waiter.deadline - time.monotonic()))
        except BaseException:
            if not self._gives_up(waiter) and waiter.connection is not None:
                self._pass_on(waiter.connection, waiter.batch[1:])
            raise
        if not has_news and self._gives_up(waiter):
            raise StoreTimeoutError("no reply within the budget")
        if waiter.connection is not None:
            return self._lead(waiter.connection, waiter)
        if waiter.error is not None:
            raise waiter.error
        return waiter.replies

    def _gives_up(self, waiter: _Waiter) -> bool:
        """False if the result came at the last moment. Later replies are discarded."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                return True
            waiter.gone = waiter.connection is None and waiter.error is None and not waiter.replies
            return waiter.gone

    def _lead(self, connection: Connection, leader: _Waiter) -> list[Any]:
        followers = leader.batch[1:]
        if leader.deadline <= time.monotonic():
            self._pass_on(connection, followers)
            raise StoreTimeoutError("no connection was free within the budget")
        commands = [command for waiter in leader.batch for command in waiter.commands]
        try:
            replies = self._use(connection, commands, leader.deadline)
        except StoreError as error:
            for waiter in followers:
                waiter.fail(error)
            raise
        except BaseException:
            for waiter in followers:
                waiter.fail(StoreLostError("the thread that sent the batch was interrupted"))
            raise
        start = len(leader.commands)
        for waiter in followers:
            end = start + len(waiter.commands)
            waiter.succeed(replies[start:end])
            start = end
        return replies[: len(leader.commands)]

    def _pass_on(self, connection: Connection, followers: list[_Waiter]) -> None:
        with self._lock:
            self._waiting = [waiter for waiter in followers if not waiter.gone] + self._waiting
        self._give(connection)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
            stranded, self._waiting = self._waiting, []
        for connection in free:
            connection.close()
        for waiter in stranded:
            waiter.fail(StoreUnsentError("the connections were closed"))
