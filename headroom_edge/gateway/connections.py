"""The connections of one process to its clients: how many there may be, how long they wait, and what they hold."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING, Final

from uvicorn.server import ServerState

if TYPE_CHECKING:
    from headroom_edge.gateway.bounds import BoundedProtocol

MOST_CONNECTIONS: Final = 1_000  # in one process
# Of all requests that have arrived in part: those of strangers, and those of callers who are known.
UNFINISHED_BYTES: Final = {False: 4_194_304, True: 67_108_864}
# What one of them takes, as measured, besides what has arrived: its connection and its task, and each of its fields.
REQUEST_BYTES: Final = 8_192
FIELD_BYTES: Final = 160
# A request arrives within 10 s: it is given up after these seconds, plus at most one sweep.
PATIENCE_SECONDS: Final = 9.0
SWEEP_SECONDS: Final = 0.5
# A refused client is still read for this time. Else it would get a reset connection instead of the response.
LINGER_SECONDS: Final = 1.0
MOST_LINGERING: Final = 100  # of those clients
OTHER_FILES: Final = 200  # descriptors for all but connections


class Unfinished:
    """Requests of which a part has arrived: how many bytes of each, those that began first in front."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._sizes: dict[BoundedProtocol, int] = {}

    def put(self, connection: BoundedProtocol, size: int) -> None:
        """Beyond the bound others are turned away, or `connection` if all others wait for this server."""
        self._held += size - self._sizes.get(connection, 0)
        self._sizes[connection] = size
        while self._held > self._most:
            late = (one for one in self._sizes if not one.waits_for_server())
            next(late, connection).turn_away()

    def drop(self, connection: BoundedProtocol) -> None:
        self._held -= self._sizes.pop(connection)


class Connections:
    """Those of one server: which wait for their client, which are refused and still read. Longest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.waiting: dict[BoundedProtocol, float] = {}  # since when, by `now`
        self.lingering: dict[BoundedProtocol, float] = {}
        self.unfinished = {is_known: Unfinished(most) for is_known, most in UNFINISHED_BYTES.items()}
        self.now = 0.0  # the loop's clock at the last sweep, which is exact enough and costs nothing
        self._sweep()

    def make_room(self, count: int) -> bool:
        """Whether one more may stay, with which there are so many."""
        if count <= MOST_CONNECTIONS:
            return True
        oldest = next((one for one in self.waiting if not one.waits_for_server()), None)
        if oldest is not None:
            oldest.give_up()
        return oldest is not None

    def linger(self, connection: BoundedProtocol) -> None:
        self.lingering[connection] = self.now
        if len(self.lingering) > MOST_LINGERING:
            next(iter(self.lingering)).end()

    def _sweep(self) -> None:
        self.now = self._loop.time()
        late = self.now - PATIENCE_SECONDS
        while (oldest := next(iter(self.waiting), None)) is not None and self.waiting[oldest] <= late:
            oldest.give_up()
        late = self.now - LINGER_SECONDS
        while (oldest := next(iter(self.lingering), None)) is not None and self.lingering[oldest] <= late:
            oldest.end()
        self._loop.call_later(SWEEP_SECONDS, self._sweep)


def allow_connections() -> None:
    """Raise the process's limit of open files, if the system allows it, so that it can have the most connections."""
    wanted = MOST_CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def connections_of(state: ServerState, loop: asyncio.AbstractEventLoop) -> Connections:
    found: Connections = vars(state).setdefault("headroom_connections", None) or Connections(loop)
    vars(state)["headroom_connections"] = found
    return found
