"""A minimal HTTP client for measuring: sends the same bytes repeatedly and reads only status and length."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

CONNECTIONS = 64
OK = b"HTTP/1.1 200"
LENGTH = b"content-length: "
# An answer without the store, which must not be taken for speed: the header, and the field of /v1/check.
DEGRADED = (b"headroom-degraded: ", b'"degraded":"')


@dataclass(slots=True)
class LoadResult:
    seconds: float
    latencies_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.latencies_s) / self.seconds

    def quantile(self, share: float) -> float:
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Connection(asyncio.Protocol):
    def __init__(self, request: bytes) -> None:
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._pending = b""
        self._answer: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment] # uvloop has its own transport classes

    def ask(self) -> asyncio.Future[None]:
        self._answer = self._loop.create_future()
        self._transport.write(self._request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        data = self._pending + data if self._pending else data
        if not _is_whole(data):
            self._pending = data
            return
        self._pending = b""
        if self._answer is None or self._answer.done():
            return
        if data.startswith(OK) and not _is_degraded(data.lower()):
            self._answer.set_result(None)
        else:
            self._answer.set_exception(RuntimeError(f"the server answered {data[:200]!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(RuntimeError("the server hung up"))

    def close(self) -> None:
        self._transport.close()


def _is_degraded(data: bytes) -> bool:
    return any(mark in data for mark in DEGRADED)


def _is_whole(data: bytes) -> bool:
    head = data.find(b"\r\n\r\n")
    at = data.lower().find(LENGTH)
    return head >= 0 and at >= 0 and len(data) >= head + 4 + int(data[at + len(LENGTH) : data.index(b"\r", at)])


def request(method: str, path: str, body: bytes = b"", **fields: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: bench", *(f"{k.replace('_', '-')}: {v}" for k, v in fields.items())]
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def connect(port: int, sent: bytes, count: int) -> list[Connection]:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: Connection(sent), "127.0.0.1", port) for _ in range(count)]
    return [connection for _, connection in made]


async def as_fast_as_it_goes(port: int, sent: bytes, count: int, connections: int = CONNECTIONS) -> LoadResult:
    """Sends `count` requests in total; each connection sends the next one as soon as it has a response."""
    measured = LoadResult(0.0)
    opened = await connect(port, sent, connections)

    async def keep_asking(connection: Connection) -> None:
        for _ in range(count // connections):
            start = time.perf_counter()
            await connection.ask()
            measured.latencies_s.append(time.perf_counter() - start)
        connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(keep_asking(connection) for connection in opened))
    measured.seconds = time.perf_counter() - start
    return measured


async def at_a_rate(port: int, sent: bytes, rate: float, seconds: float) -> LoadResult:
    """Sends at evenly spaced times, however slow the responses are.

    Latency counts from the time the request was due, not from the time a connection was free for it.
    """
    measured = LoadResult(seconds)
    free = asyncio.Queue[Connection]()
    opened = await connect(port, sent, CONNECTIONS)
    for connection in opened:
        free.put_nowait(connection)

    async def ask(due: float) -> None:
        connection = await free.get()
        await connection.ask()
        measured.latencies_s.append(time.perf_counter() - due)
        free.put_nowait(connection)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due = start + number / rate
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            group.create_task(ask(due))
    for connection in opened:
        connection.close()
    return measured
