"""A faulty proxy in front of the web process: it answers some requests itself, and loses some responses."""

from __future__ import annotations

import http.client
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


LOST = Reply(0)  # the request is passed on, the response is lost
PASSED = Reply(1)


class Front:
    """`faults` are for the first requests, in order; what follows is passed on."""

    def __init__(self, port: int, *faults: Reply, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Request] = []
        self._faults = list(faults)
        self._port = port
        front = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

            def _any(self) -> None:
                front.handle(self)

            do_GET = do_POST = _any  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.scheme = "http" if tls is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        request = Request(handler.command, handler.path, dict(handler.headers.items()), body)
        self.seen.append(request)
        reply = self._faults.pop(0) if self._faults else PASSED
        if reply in (LOST, PASSED):
            passed = self._pass_on(request)
            if reply is LOST:
                handler.close_connection = True
                return
            reply = passed
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(reply.body)))
        handler.end_headers()
        handler.wfile.write(reply.body)

    def _pass_on(self, request: Request) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        connection.request(request.method, request.path, request.body, request.headers)
        answer = connection.getresponse()
        body = answer.read()
        hidden = ("content-length", "transfer-encoding", "connection")
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in hidden}
        connection.close()
        return Reply(answer.status, headers, body)
