"""The store of a limiter for an event loop, by the kind of its address."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from headroom_edge.store.address import Address, ClusterAddress, SentinelAddress, StoreAddress
from headroom_edge.store.breaker import Breaker, BreakerSettings, BreakerState
from headroom_edge.store.cluster_pipeline import ClusterPipeline
from headroom_edge.store.pipeline import Answer, Pipeline, dial_at
from headroom_edge.store.routing import Place
from headroom_edge.store.sentinel import dial_primary_on_loop, watch_on_loop

ONLY = Place("", 0)  # stands for the only server, where there is no cluster


class LoopStore(Protocol):
    """Bound to an event loop. A limiter that is used on another one opens another store."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    def call(self, commands: Sequence[bytes], budget_s: float, answer: Answer) -> None: ...
    def ask(
        self, commands: Sequence[bytes], budget_s: float, *, is_counted: bool = True
    ) -> asyncio.Future[list[Any]]: ...
    @property
    def is_reachable(self) -> bool: ...
    def close(self) -> list[asyncio.Task[None]]:
        """Returns the tasks that are about to end."""


class Breakers:
    """One for each server. They outlive the connections, which belong to one event loop."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._found: dict[Place, Breaker] = {}

    def of(self, place: Place) -> Breaker:
        if place not in self._found:
            self._found[place] = Breaker(self._settings)
        return self._found[place]

    @property
    def worst(self) -> Breaker:
        """Of a server that does not answer, if there is one."""
        found = list(self._found.values()) or [self.of(ONLY)]
        return next((each for each in found if each.state is not BreakerState.CLOSED), found[0])

    def keep(self, places: set[Place]) -> None:
        self._found = {place: breaker for place, breaker in self._found.items() if place in places}


class WatchedPipeline(Pipeline):
    """The primary that Sentinels watch."""

    def __init__(self, address: SentinelAddress, patience_s: float, connect_timeout_s: float, breaker: Breaker) -> None:
        super().__init__(partial(dial_primary_on_loop, address, connect_timeout_s), patience_s, breaker)
        self._watching = self.loop.create_task(watch_on_loop(address, self, connect_timeout_s))

    def close(self) -> list[asyncio.Task[None]]:
        self._watching.cancel()
        return [self._watching, *super().close()]


def open_on_loop(address: StoreAddress, patience_s: float, connect_timeout_s: float, breakers: Breakers) -> LoopStore:
    match address:
        case Address():
            return Pipeline(partial(dial_at, address, connect_timeout_s), patience_s, breakers.of(ONLY))
        case ClusterAddress():
            return ClusterPipeline(address, patience_s, connect_timeout_s, breakers)
        case SentinelAddress():
            return WatchedPipeline(address, patience_s, connect_timeout_s, breakers.of(ONLY))
