"""The store of a limiter for threads, by the kind of its address."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from headroom_edge.store.address import Address, ClusterAddress, SentinelAddress, StoreAddress
from headroom_edge.store.breaker import Breaker, BreakerSettings
from headroom_edge.store.cluster import Cluster
from headroom_edge.store.connection import BlockingConnection
from headroom_edge.store.node import Node
from headroom_edge.store.sentinel import SentinelWatch, dial_primary


class ThreadStore(Protocol):
    def exchange(self, commands: Sequence[bytes], deadline: float) -> list[Any]:
        """Each is a reply, an error that a server replied, or a StoreError."""

    def attend(self, commands: Sequence[bytes], deadline: float) -> list[Any]:
        """The same for chores: over connections of their own, and only where the breaker is closed."""

    @property
    def breaker(self) -> Breaker: ...
    @property
    def is_reachable(self) -> bool: ...
    def close(self) -> None: ...


class WatchedNode(Node):
    """The primary that Sentinels watch."""

    def __init__(
        self, address: SentinelAddress, connect_timeout_s: float, size: int, settings: BreakerSettings
    ) -> None:
        super().__init__(partial(dial_primary, address, connect_timeout_s), size, settings)
        self._watch = SentinelWatch(address, self, connect_timeout_s)

    def close(self) -> None:
        self._watch.stop()
        super().close()


def open_store(
    address: StoreAddress, connect_timeout_s: float, connections: int, breaker: BreakerSettings
) -> ThreadStore:
    match address:
        case Address():
            return Node(partial(BlockingConnection, address, connect_timeout_s), connections, breaker)
        case ClusterAddress():
            return Cluster(address, connect_timeout_s, connections, breaker)
        case SentinelAddress():
            return WatchedNode(address, connect_timeout_s, connections, breaker)
