"""A primary that Sentinels watch: where it is, and when another server takes over.

The Sentinels are asked at each dial. A subscription tells when they have switched, so that nobody waits for the
connections to the former primary to fail. They switch up to a second after a replica was promoted, so while the primary
does not answer, the replica that they are promoting is tried as well.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Sequence
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
LOOK_S: Final = 0.1  # while the primary is away
SILENT_S: Final = 30.0  # then see whether the Sentinel is still there
PAUSE_S: Final = 0.5
ASK_S: Final = 0.3  # for one Sentinel; there are others


def question(name: str) -> bytes:
    return pack(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name))


def primary_of(address: SentinelAddress, reply: Any, sentinel: Address) -> Address:
    if isinstance(reply, ReplyError) or not reply:
        raise StoreLostError(f"the Sentinel at {sentinel} knows no primary named {address.name}")
    host, port = reply
    return address.primary.at(host.decode(), int(port))


def heirs_of(address: SentinelAddress, reply: Any) -> list[Address]:
    """The replicas that this Sentinel is promoting. Only the one that leads the failover knows them."""
    found = []
    for row in reply if isinstance(reply, list) else ():
        facts = dict(zip(row[::2], row[1::2], strict=False))
        if b"promoted" in facts.get(b"flags", b"").split(b","):
            found.append(address.primary.at(facts[b"ip"].decode(), int(facts[b"port"])))
    return found


def questions(name: str) -> list[bytes]:
    return [question(name), pack(("SENTINEL", "REPLICAS", name))]


def candidates_of(address: SentinelAddress, sentinel: Address, replies: list[Any]) -> list[Address]:
    """Where the primary may be. A server that is none refuses the greeting. Raises StoreError for an unknown name."""
    return [primary_of(address, replies[0], sentinel), *heirs_of(address, replies[1])]


def dial_primary(address: SentinelAddress, timeout_s: float) -> BlockingConnection:
    """Asks one Sentinel after another, until a server that one of them names is a primary."""
    trouble: StoreError = StoreLostError("no Sentinel was asked")
    tried: set[Address] = set()
    for sentinel in address.sentinels:
        try:
            found = candidates_of(address, sentinel, _ask(sentinel, questions(address.name), min(timeout_s, ASK_S)))
        except StoreError as error:
            trouble = error
            continue
        for candidate in found:
            if candidate not in tried:
                tried.add(candidate)
                try:
                    return BlockingConnection(candidate, timeout_s, Peer.PRIMARY)
                except StoreError as error:
                    trouble = error
    raise trouble


def _ask(sentinel: Address, commands: Sequence[bytes], timeout_s: float) -> list[Any]:
    connection = BlockingConnection(sentinel, timeout_s, Peer.SENTINEL)
    try:
        return connection.exchange(commands, time.monotonic() + timeout_s)
    finally:
        connection.close()


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
                is_away = self._is_away()
                message = connection.listen(LOOK_S if is_away else LISTEN_S)
                if is_switch(message, self._address.name):
                    self._renew()
                elif is_away:
                    self._look()
                if message is not None:
                    heard_s = time.monotonic()
        finally:
            connection.close()

    def _is_away(self) -> bool:
        node = self._node()
        return node is not None and not node.is_reachable

    def _look(self) -> None:
        """Whether there is a primary again. A request would find it too, but only once the breaker lets one probe."""
        with suppress(StoreError):
            dial_primary(self._address, self._timeout_s).close()
            if self._is_away():
                self._renew()

    def _renew(self) -> None:
        node = self._node()
        if node is not None:
            node.renew()


async def dial_primary_on_loop(address: SentinelAddress, timeout_s: float, on_lost: Callable[[Stream], None]) -> Stream:
    """As `dial_primary`."""
    trouble: StoreError = StoreLostError("no Sentinel was asked")
    tried: set[Address] = set()
    for sentinel in address.sentinels:
        try:
            replies = await _ask_on_loop(sentinel, questions(address.name), min(timeout_s, ASK_S))
            found = candidates_of(address, sentinel, replies)
        except StoreError as error:
            trouble = error
            continue
        for candidate in found:
            if candidate not in tried:
                tried.add(candidate)
                try:
                    return await dial_at(candidate, timeout_s, on_lost, Peer.PRIMARY)
                except StoreError as error:
                    trouble = error
    raise trouble


async def _ask_on_loop(sentinel: Address, commands: Sequence[bytes], timeout_s: float) -> list[Any]:
    stream = await dial_at(sentinel, timeout_s, nobody, Peer.SENTINEL)
    try:
        async with asyncio.timeout(timeout_s):
            return await stream.ask(commands)
    except TimeoutError:
        raise StoreLostError(f"the Sentinel at {sentinel} does not answer") from None
    finally:
        stream.drop(StoreLostError("done"))


def nobody(_: Stream) -> None:
    pass


async def watch_on_loop(address: SentinelAddress, pipeline: Pipeline, timeout_s: float) -> None:
    """Listens until it is cancelled, and renews the pipeline when the primary has changed."""
    was_away = False
    while True:
        for sentinel in address.sentinels:
            try:
                await _listen_on_loop(address, sentinel, pipeline, timeout_s, was_away)
                was_away = False
            except (StoreError, TimeoutError):
                was_away = True
        await asyncio.sleep(PAUSE_S)


async def _listen_on_loop(
    address: SentinelAddress, sentinel: Address, pipeline: Pipeline, timeout_s: float, was_away: bool
) -> None:
    """Returns after a while, to see whether the Sentinel is still there. Raises StoreError if it is not."""
    lost = asyncio.Event()

    def tell(_: Stream) -> None:
        lost.set()

    def hear(message: Any) -> None:
        if is_switch(message, address.name):
            pipeline.renew()

    stream = await dial_at(sentinel, timeout_s, tell, Peer.SENTINEL)
    try:
        async with asyncio.timeout(timeout_s):
            await stream.ask([SUBSCRIBE])
        stream.on_message = hear
        if was_away:
            pipeline.renew()
        until_s = time.monotonic() + SILENT_S
        while time.monotonic() < until_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(lost.wait(), LISTEN_S if pipeline.is_reachable else LOOK_S)
                raise StoreLostError("the Sentinel closed the connection")
            if not pipeline.is_reachable:
                await _look_on_loop(address, pipeline, timeout_s)
    finally:
        stream.drop(StoreLostError("done"))


async def _look_on_loop(address: SentinelAddress, pipeline: Pipeline, timeout_s: float) -> None:
    with suppress(StoreError):
        stream = await dial_primary_on_loop(address, timeout_s, nobody)
        stream.drop(StoreLostError("done"))
        if not pipeline.is_reachable:
            pipeline.renew()
