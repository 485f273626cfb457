"""One deadline for a whole exchange with another server, however it spends the time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

Place = tuple[str, int]  # an IP address and a port


class Deadline:
    """Ends the connections made through it once the time is up; the block then raises TimeoutError.

    A limit for each read is not enough: a peer that sends a byte from time to time would never exceed it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._handles: list[socket.socket] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._timer.join()
        for handle in self._handles:
            handle.close()
        # Also without an error: what was read until the cut may look like a complete answer.
        if self.is_over:
            raise TimeoutError(f"the exchange was not over after {self._seconds:g} s") from error

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def left(self) -> float:
        """Seconds, always more than 0."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("no time is left")
        return seconds

    def connect(self, places: Iterable[Place]) -> socket.socket:
        """A connection to the first place that accepts one."""
        problem = OSError("there is no address to connect to")
        for place in places:
            try:
                connection = socket.create_connection(place, timeout=self.left())
            except OSError as error:
                problem = error
            else:
                self._hold(connection)
                return connection
        raise problem

    def _hold(self, connection: socket.socket) -> None:
        # A duplicate reaches the connection even after TLS has taken over the socket.
        handle = connection.dup()
        with self._lock:
            self._handles.append(handle)
        if self.is_over:
            self._cut()

    def _cut(self) -> None:
        with self._lock:
            for handle in self._handles:
                with suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)
