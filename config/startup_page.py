"""Answers requests during the start, before the web process can: 503, with the step that is running."""

from __future__ import annotations

import html
import json
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

# The longest time that the supervisor waits for one client, which may send nothing.
PATIENCE_SECONDS: Final = 0.2
LONGEST_HEAD: Final = 16_384
AGAIN_SECONDS: Final = 2
_PAGE: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Headroom is starting</title>'
    "<h1>Headroom is starting</h1><p>{doing}</p><p>This page reloads automatically.</p>"
)


@dataclass
class StartupPage:
    """Serves the port from the first moment. The web process inherits it later, so no connection is refused."""

    listener: socket.socket
    doing: Callable[[], str]

    def answer(self) -> None:
        """Answer one waiting connection."""
        with suppress(OSError):
            client, _ = self.listener.accept()
            with client:
                client.settimeout(PATIENCE_SECONDS)
                client.sendall(self._response(_head_of(client)))

    def _response(self, head: bytes) -> bytes:
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


def _head_of(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < LONGEST_HEAD:
        part = client.recv(LONGEST_HEAD)
        if not part:
            break
        head += part
    return head
