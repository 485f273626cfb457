"""A Valkey server that a test may hurt."""

from __future__ import annotations

import itertools
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from config.embedded import ServerError, ServerProcess, ValkeyOptions, start_valkey


def free_port() -> int:
    """Below the ports that the system gives to connections: one of them may be taken before the server has it.

    Each test process has a range of its own, and does not give the same port twice in a row.
    """
    for port in _PORTS:
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError


def _ports() -> Iterator[int]:
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
    ports = list(range(12_000 + 2_000 * process, 14_000 + 2_000 * process))
    begin = os.getpid() % len(ports)  # two runs at a time do not begin at the same one
    return itertools.cycle(ports[begin:] + ports[:begin])


_PORTS = _ports()


class SpareValkey:
    """Keeps its port and its folder over kill() and start(), so clients see the same address come back.

    Start it from the test's main thread: the server ends with the thread that started it.
    """

    def __init__(
        self, folder: Path, *, socket: Path | None = None, durable: bool = False, extra: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self._socket = socket
        self._durable = durable
        self._extra = ("--enable-debug-command", "local", *extra)
        self._server = self._launch_on_free_port()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.resume()
        self._server.stop()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._server.process.pid

    @property
    def is_running(self) -> bool:
        return self._server.process.poll() is None

    def client(self, socket_timeout: float = 120) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=socket_timeout, retry=Retry(NoBackoff(), 0))

    def start(self) -> None:
        self._server = self._launch()

    def stop(self) -> None:
        self._server.stop()

    def kill(self) -> None:
        self._server.process.kill()
        self._server.process.wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.kill(self.pid, number)

    def _launch_on_free_port(self) -> ServerProcess:
        for _ in range(5):
            try:
                return self._launch()
            except ServerError:
                # Another process may have taken the port between the look and the start.
                self.port = free_port()
        return self._launch()

    def _launch(self) -> ServerProcess:
        options = ValkeyOptions(socket=self._socket, port=self.port, durable=self._durable, extra=self._extra)
        return start_valkey(self.folder, options)
