"""A TCP proxy that misbehaves on demand, for clients that must survive a bad wire.

with Proxy("127.0.0.1", port) as wire:
    wire.delay(0.05)        # each chunk, in both directions, is held back this long
    wire.blackhole()        # connects, swallows everything, says nothing
    wire.reset()            # RST on all connections, and on each new one
    wire.half_close()       # the server's side ends (FIN); what the client sends is swallowed
    wire.refuse()           # nobody listens: connection refused
    wire.heal()
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from enum import Enum
from typing import Final, Self

from tests.valkeys import free_port

CHUNK: Final = 65536
POLL_SECONDS: Final = 0.05
MAX_CONNECTIONS: Final = 512
RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Fault(Enum):
    NONE = "none"
    BLACKHOLE = "blackhole"
    RESET = "reset"
    HALF_CLOSE = "half_close"
    REFUSE = "refuse"


class Proxy:
    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._fault = Fault.NONE
        self._delay_seconds = 0.0
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.dialled = 0  # connections since the start, those that were reset at once included
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        # Not one of the system's: it would give that to a connection while `refuse` has no listener.
        self.port = free_port()
        self._listener = self._listen(self.port)
        self._run(self._accept, self._listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._listener.close()
        self._drop_all()
        for thread in self._threads:
            thread.join(60)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def connections(self) -> int:
        with self._lock:
            return len(self._pairs)

    def delay(self, seconds: float) -> None:
        self._delay_seconds = seconds

    def blackhole(self) -> None:
        self._fault = Fault.BLACKHOLE

    def reset(self) -> None:
        self._fault = Fault.RESET
        self._drop_all(rst=True)

    def half_close(self) -> None:
        self._fault = Fault.HALF_CLOSE
        with self._lock:
            pairs = list(self._pairs)
        for client, _server in pairs:
            with suppress(OSError):
                client.shutdown(socket.SHUT_WR)

    def refuse(self) -> None:
        self._fault = Fault.REFUSE
        # Closing alone leaves the accept() of the other thread listening.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._drop_all(rst=True)

    def heal(self) -> None:
        refused = self._fault is Fault.REFUSE
        self._fault = Fault.NONE
        self._delay_seconds = 0.0
        # Half-closed and swallowed connections cannot be mended: the client has to dial again.
        self._drop_all()
        if refused:
            self._listener = self._listen(self.port)
            self._run(self._accept, self._listener)

    @staticmethod
    def _listen(port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), backlog=MAX_CONNECTIONS)
        listener.settimeout(POLL_SECONDS)
        return listener

    def _run(self, target: object, *args: object) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while not self._closed.is_set():
            try:
                client, _address = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self.dialled += 1
            self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        if self._fault is Fault.RESET or self.connections >= MAX_CONNECTIONS:
            _close(client, rst=True)
            return
        try:
            server = socket.create_connection(self._upstream, timeout=60)
        except OSError:
            _close(client, rst=True)
            return
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            side.settimeout(POLL_SECONDS)
        pair = (client, server)
        with self._lock:
            self._pairs.append(pair)
        if self._fault is Fault.HALF_CLOSE:
            client.shutdown(socket.SHUT_WR)
        self._run(self._pump, pair, client, server)
        self._run(self._pump, pair, server, client)

    def _pump(self, pair: tuple[socket.socket, socket.socket], source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while not self._closed.is_set():
                try:
                    data = source.recv(CHUNK)
                except TimeoutError:
                    continue
                if not data:
                    break
                self._forward(data, sink)
        self._drop(pair, rst=False)

    def _forward(self, data: bytes, sink: socket.socket) -> None:
        self._closed.wait(self._delay_seconds)
        if self._fault is Fault.NONE:
            sink.sendall(data)

    def _drop_all(self, *, rst: bool = False) -> None:
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._drop(pair, rst=rst)

    def _drop(self, pair: tuple[socket.socket, socket.socket], *, rst: bool) -> None:
        with self._lock:
            if pair not in self._pairs:
                return
            self._pairs.remove(pair)
        for side in pair:
            _close(side, rst=rst)


def _close(side: socket.socket, *, rst: bool) -> None:
    with suppress(OSError):
        if rst:
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST_ON_CLOSE)
        else:
            side.shutdown(socket.SHUT_RDWR)
    side.close()
