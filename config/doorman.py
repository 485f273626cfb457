"""Who answers at the port before the web process can: 503, with what is being done."""

from __future__ import annotations

import html
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

# The supervisor waits so long for one caller at most; whoever sends nothing is left alone.
PATIENCE_SECONDS: Final = 0.2
LONGEST_HEAD: Final = 16_384
AGAIN_SECONDS: Final = 2
_PAGE: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Headroom is starting</title>'
    "<h1>Headroom is starting</h1><p>{doing}</p><p>This page looks again by itself.</p>"
)


@dataclass
class Doorman:
    """Holds the port from the first moment on; the web process inherits it, so nobody is ever refused."""

    listener: socket.socket
    doing: Callable[[], str]

    def answer(self) -> None:
        """One caller that has come."""
        with suppress(OSError):
            caller, _ = self.listener.accept()
            with caller:
                caller.settimeout(PATIENCE_SECONDS)
                caller.sendall(self._said(_head_of(caller)))

    def _said(self, head: bytes) -> bytes:
        wants_page = b"text/html" in head.lower()
        kind, body = ("text/html; charset=utf-8", self._page()) if wants_page else ("application/json", self._json())
        status = HTTPStatus.SERVICE_UNAVAILABLE
        fields = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            f"Retry-After: {AGAIN_SECONDS}\r\nCache-Control: no-store\r\nConnection: close\r\n"
        )
        again = f"Refresh: {AGAIN_SECONDS}\r\n" if wants_page else ""
        return f"{fields}{again}\r\n".encode() + body

    def _page(self) -> bytes:
        return _PAGE.format(doing=html.escape(self.doing())).encode()

    def _json(self) -> bytes:
        return json.dumps({"status": "starting", "reason": self.doing()}).encode()


def _head_of(caller: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < LONGEST_HEAD:
        part = caller.recv(LONGEST_HEAD)
        if not part:
            break
        head += part
    return head
