"""One server, as threads ask it: its connections and its circuit breaker.

A call never raises because of the store: a command that got no reply has a StoreError in the place of its reply. So one
server of a cluster may be gone while the others answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from headroom_edge.errors import StoreError, StoreRefusedError
from headroom_edge.store.breaker import Breaker, BreakerSettings, BreakerState, Permit
from headroom_edge.store.pool import Connection, ConnectionPool

OPEN: Final = StoreRefusedError("the breaker is open")


class ToAll(list[bytes]):
    """Commands for every server, whatever its breaker says. Of several replies the worst counts."""


class Node:
    def __init__(self, dial: Callable[[], Connection], size: int, settings: BreakerSettings) -> None:
        self._dial = dial
        self._size = size
        self.breaker = Breaker(settings)
        self._open_pools()

    def _open_pools(self) -> None:
        self._pool = ConnectionPool(self._dial, self._size)
        self._chores = ConnectionPool(self._dial, 1)  # so that no check waits for a chore

    def exchange(self, commands: Sequence[bytes], deadline: float) -> list[Any]:
        if type(commands) is ToAll:
            return _values(self._pool, commands, deadline)
        breaker = self.breaker
        permit = breaker.enter()
        if permit is Permit.REFUSED:
            return [OPEN] * len(commands)
        try:
            replies = self._pool.exchange(commands, deadline)
        except StoreError as error:
            breaker.failed(permit)
            return [error] * len(commands)
        except BaseException:
            # The caller was interrupted, which says nothing about the store. But a probe without an outcome would
            # block all others.
            if permit is Permit.PROBE:
                breaker.failed(permit)
            raise
        breaker.succeeded(permit)
        return replies

    def attend(self, commands: Sequence[bytes], deadline: float) -> list[Any]:
        """For chores, which neither probe the server nor count as failures."""
        if self.breaker.state is not BreakerState.CLOSED:
            return [OPEN] * len(commands)
        return _values(self._chores, commands, deadline)

    @property
    def is_reachable(self) -> bool:
        return self.breaker.state is BreakerState.CLOSED

    def renew(self) -> None:
        """Another server has taken over its address: drop all connections."""
        pools = self._pool, self._chores
        self._open_pools()
        self.breaker.reset()
        for pool in pools:
            pool.close()

    def close(self) -> None:
        self._pool.close()
        self._chores.close()


def _values(pool: ConnectionPool, commands: Sequence[bytes], deadline: float) -> list[Any]:
    try:
        return pool.exchange(commands, deadline)
    except StoreError as error:
        return [error] * len(commands)
