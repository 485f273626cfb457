"""The web process as `make up` runs it, on the database and the Redis of a test."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.data_folders import ROOT
from tests.processes import environment

PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: Any
    took_s: float


@dataclass(frozen=True, slots=True)
class Web:
    port: int
    token: str
    log: Path

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        began = time.monotonic()
        http_connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            http_connection.request(method, path, None if body is None else json.dumps(body), self._headers(headers))
            answer = http_connection.getresponse()
            text = answer.read()
        finally:
            http_connection.close()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        content = json.loads(text) if is_json else text.decode()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, named, content, time.monotonic() - began)

    def send(self, method: str, path: str, body: object) -> socket.socket:
        """Sends a request and leaves; close the socket to be gone before the answer."""
        content = json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in self._headers({}).items()]
        wire = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        wire.sendall("\r\n".join([*lines, "", ""]).encode() + content)
        return wire

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **named}


@contextmanager
def serving(redis_url: str, token: str, folder: Path, **variables: str) -> Iterator[Web]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.set_inheritable(True)
        log = folder / "web.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "config.web", "--fd", str(listener.fileno())],
                cwd=ROOT,
                env=environment(redis_url, HEADROOM_HTTPS="0", **variables),
                pass_fds=[listener.fileno()],
                stdout=output,
                stderr=output,
            )
        web = Web(listener.getsockname()[1], token, log)
        try:
            _wait_for(web, process)
            yield web
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def _wait_for(web: Web, process: subprocess.Popen[bytes]) -> None:
    """The port is open before the process serves it, so a process that ended would let callers wait."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None, web.log.read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", web.port), 1) as wire:
            wire.sendall(b"GET /v1/schema HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            if wire.recv(1):
                return
        assert time.monotonic() < deadline, web.log.read_text()
