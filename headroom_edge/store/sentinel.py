"""A primary that Sentinels watch: where it is, and when another server takes over.

The Sentinels are asked at each dial. A subscription tells at once when they have promoted a replica, so that nobody
waits for the connections to the former primary to fail.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from hiredis import ReplyError

from headroom_edge.check import pack
from headroom_edge.errors import StoreError, StoreLostError
from headroom_edge.store.address import Address, SentinelAddress
from headroom_edge.store.connection import BlockingConnection, Peer
from headroom_edge.store.node import Node
from headroom_edge.store.pipeline import Pipeline, Stream, dial_at

SWITCHED: Final = b"+switch-master"
SUBSCRIBE: Final = pack(("SUBSCRIBE", SWITCHED))
LISTEN_S: Final = 1.0  # then look whether anybody still uses the limiter
SILENT_S: Final = 30.0  # then see whether the Sentinel is still there
PAUSE_S: Final = 0.5


def question(name: str) -> bytes:
    return pack(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name))


def primary_of(address: SentinelAddress, reply: Any, sentinel: Address) -> Address:
    if isinstance(reply, ReplyError) or not reply:
        raise StoreLostError(f"the Sentinel at {sentinel} knows no primary named {address.name}")
    host, port = reply
    return address.primary.at(host.decode(), int(port))


def dial_primary(address: SentinelAddress, timeout_s: float) -> BlockingConnection:
    return BlockingConnection(find_primary(address, timeout_s), timeout_s, Peer.PRIMARY)


def find_primary(address: SentinelAddress, timeout_s: float) -> Address:
    trouble: StoreError = StoreLostError("no Sentinel was asked")
    for sentinel in address.sentinels:
        try:
            connection = BlockingConnection(sentinel, timeout_s, Peer.SENTINEL)
            try:
                (reply,) = connection.exchange([question(address.name)], time.monotonic() + timeout_s)
            finally:
                connection.close()
            return primary_of(address, reply, sentinel)
        except StoreError as error:
            trouble = error
    raise StoreLostError(f"no Sentinel names the primary: {trouble}")


def is_switch(message: Any, name: str) -> bool:
    """A message is `message, channel, "<name> <old host> <old port> <new host> <new port>"`."""
    if not isinstance(message, list) or len(message) != 3 or message[0] != b"message":
        return False
    return bool(message[2].split(b" ")[0] == name.encode())


class SentinelWatch:
    """Listens in a thread of its own, and renews the node when the primary has changed."""

    def __init__(self, address: SentinelAddress, node: Node, timeout_s: float) -> None:
        self._address = address
        self._node = weakref.ref(node)  # a limiter that nobody uses any more must not be kept by its watch
        self._timeout_s = timeout_s
        self._stopped = threading.Event()
        with suppress(RuntimeError):  # without a thread, the primary is still asked for at each dial
            threading.Thread(target=self._run, name="headroom-sentinel", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _is_over(self) -> bool:
        return self._stopped.is_set() or self._node() is None

    def _run(self) -> None:
        was_away = False
        while not self._is_over():
            for sentinel in self._address.sentinels:
                if self._is_over():
                    return
                try:
                    self._listen(sentinel, was_away)
                    was_away = False
                except StoreError:
                    was_away = True
            self._stopped.wait(PAUSE_S)

    def _listen(self, sentinel: Address, was_away: bool) -> None:
        connection = BlockingConnection(sentinel, self._timeout_s, Peer.SENTINEL)
        try:
            connection.exchange([SUBSCRIBE], time.monotonic() + self._timeout_s)
            if was_away:
                # Nobody listened for a while, so a switch may have been missed.
                self._renew()
            heard_s = time.monotonic()
            while not self._is_over() and time.monotonic() - heard_s < SILENT_S:
                message = connection.listen(LISTEN_S)
                if is_switch(message, self._address.name):
                    self._renew()
                if message is not None:
                    heard_s = time.monotonic()
        finally:
            connection.close()

    def _renew(self) -> None:
        node = self._node()
        if node is not None:
            node.renew()


async def find_primary_on_loop(address: SentinelAddress, timeout_s: float) -> Address:
    trouble: StoreError = StoreLostError("no Sentinel was asked")
    for sentinel in address.sentinels:
        try:
            stream = await dial_at(sentinel, timeout_s, nobody, Peer.SENTINEL)
            try:
                async with asyncio.timeout(timeout_s):
                    (reply,) = await stream.ask([question(address.name)])
            finally:
                stream.drop(StoreLostError("done"))
            return primary_of(address, reply, sentinel)
        except StoreError as error:
            trouble = error
        except TimeoutError:
            trouble = StoreLostError(f"the Sentinel at {sentinel} does not answer")
    raise StoreLostError(f"no Sentinel names the primary: {trouble}")


def nobody(_: Stream) -> None:
    pass


async def watch_on_loop(address: SentinelAddress, pipeline: Pipeline, timeout_s: float) -> None:
    """Listens until it is cancelled, and renews the pipeline when the primary has changed."""
    was_away = False
    while True:
        for sentinel in address.sentinels:
            try:
                await _listen_on_loop(address, sentinel, pipeline.renew, timeout_s, was_away)
                was_away = False
            except (StoreError, TimeoutError):
                was_away = True
        await asyncio.sleep(PAUSE_S)


async def _listen_on_loop(
    address: SentinelAddress, sentinel: Address, renew: Callable[[], None], timeout_s: float, was_away: bool
) -> None:
    """Returns after a while, to see whether the Sentinel is still there. Raises StoreError if it is not."""
    lost = asyncio.Event()

    def tell(_: Stream) -> None:
        lost.set()

    def hear(message: Any) -> None:
        if is_switch(message, address.name):
            renew()

    stream = await dial_at(sentinel, timeout_s, tell, Peer.SENTINEL)
    try:
        async with asyncio.timeout(timeout_s):
            await stream.ask([SUBSCRIBE])
        stream.on_message = hear
        if was_away:
            renew()
        with suppress(TimeoutError):
            await asyncio.wait_for(lost.wait(), SILENT_S)
            raise StoreLostError("the Sentinel closed the connection")
    finally:
        stream.drop(StoreLostError("done"))
