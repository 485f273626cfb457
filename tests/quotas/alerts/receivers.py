"""Servers that alerts are sent to: one that answers, and some that drip."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

HEAD: Final = b"HTTP/1.1 200 OK\r\n" + b"X-Slow: a\r\n" * 1_000
GREETING: Final = b"220-" + b"slow " * 1_000


class Receiver(ThreadingHTTPServer):
    """Keeps what it gets. `on_message` runs before it answers."""

    daemon_threads = True
    status = 204

    def __init__(self, on_message: Callable[[], None] = lambda: None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.on_message = on_message

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        data = self.rfile.read(int(self.headers["Content-Length"]))
        server.got.append((self.path, dict(self.headers), data))
        server.on_message()
        self.send_response(server.status)
        self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def receiving(on_message: Callable[[], None] = lambda: None) -> Iterator[Receiver]:
    with Receiver(on_message) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


class Dripper:
    """Sends `text` byte by byte, one each `every_s`, to whoever connects. `ended` counts the clients that left."""

    def __init__(self, text: bytes, every_s: float) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._text, self._every_s = text, every_s
        self.accepted = self.ended = 0
        self.is_closed = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def serve(self) -> None:
        while not self.is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._drip, args=(client,), daemon=True).start()

    def _drip(self, client: socket.socket) -> None:
        with client:
            for position in range(len(self._text)):
                if self.is_closed:
                    return
                try:
                    client.sendall(self._text[position : position + 1])
                except OSError:
                    break
                time.sleep(self._every_s)
        self.ended += 1

    def close(self) -> None:
        self.is_closed = True
        # Wakes up accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextlib.contextmanager
def dripping(text: bytes, every_s: float) -> Iterator[Dripper]:
    server = Dripper(text, every_s)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        server.close()
