"""A client that sends what it likes, as slowly as it likes, for servers that must bear it."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

PATIENCE_SECONDS = 120.0


class RawClient:
    def __init__(self, port: int, sent: bytes = b"") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        if sent:
            self.send(sent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """False if the server has closed the connection."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def send_all(self, chunks: Iterable[bytes]) -> bytes:
        """Until the server responds or closes; the start of what it said."""
        for chunk in chunks:
            if self.has_news() or not self.send(chunk):
                break
        return self.answer()

    def answer(self) -> bytes:
        """The start of what the server says; empty if it has closed."""
        try:
            return self.socket.recv(65_536)
        except OSError:
            return b""

    def has_news(self, timeout_s: float = 0.0) -> bool:
        poll = select.poll()  # select() refuses high descriptors
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1_000))

    def rest(self) -> bytes:
        """All that the server says until it closes."""
        said = b""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                part = self.socket.recv(65_536)
            except OSError:
                return said
            if not part:
                return said
            said += part
        raise AssertionError(f"the server keeps the connection open after {said[:200]!r}")


def status_of(said: bytes) -> int:
    """0 if the server closed without a response."""
    return int(said.split(b" ", 2)[1]) if said else 0


def head(method: str, path: str, *fields: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *fields, "", ""]).encode()
