"""A blocking connection to the store, used by one thread at a time."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Final

import hiredis

from headroom_edge.check import pack
from headroom_edge.errors import StoreAddressError, StoreLostError, StoreTimeoutError
from headroom_edge.store.address import Address

CHUNK: Final = 65_536
# The shortest timeout: 0 would make the socket non-blocking.
LEAST_S: Final = 0.000_001


class Peer(Enum):
    """What the server at the other end must be."""

    SINGLE = "single"  # of no cluster: there it would refuse most keys
    NODE = "node"  # of a cluster
    PRIMARY = "primary"  # of a set that Sentinels watch
    SENTINEL = "sentinel"


class BlockingConnection:
    def __init__(self, address: Address, timeout_s: float, peer: Peer = Peer.SINGLE) -> None:
        """Connect, and wait for the store's first reply."""
        deadline = time.monotonic() + timeout_s
        try:
            self._socket = _connect(address, timeout_s)
        except OSError as error:
            raise StoreLostError(f"{address} cannot be reached: {error}") from None
        self._reader = hiredis.Reader()
        self._demoted = False
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        try:
            check_greeting(self.exchange(greeting(address, peer), deadline), address, peer)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def is_fit(self) -> bool:
        """False if the server became a replica, hung up, or sent unrequested data."""
        return not self._demoted and not self._poll.poll(0)

    def listen(self, timeout_s: float) -> Any:
        """The next message of a subscription; None if there was none. Raises StoreLostError."""
        try:
            self._socket.settimeout(max(LEAST_S, timeout_s))
            while (message := self._reader.gets()) is False:
                data = self._socket.recv(CHUNK)
                if not data:
                    raise StoreLostError("the connection was closed")
                self._reader.feed(data)
        except TimeoutError:
            return None
        except (OSError, hiredis.ProtocolError) as error:
            raise StoreLostError(f"the connection broke: {error}") from None
        return message

    def exchange(self, commands: Sequence[bytes], deadline: float) -> list[Any]:
        """Send the commands in one write and read as many replies. After an error the connection must be dropped."""
        try:
            return self._exchange(b"".join(commands) if len(commands) > 1 else commands[0], len(commands), deadline)
        except TimeoutError:
            raise StoreTimeoutError("no reply within the budget") from None
        except (OSError, hiredis.ProtocolError) as error:
            raise StoreLostError(f"the connection broke: {error}") from None

    def _exchange(self, payload: bytes, count: int, deadline: float) -> list[Any]:
        sock, reader = self._socket, self._reader
        sock.settimeout(max(LEAST_S, deadline - time.monotonic()))
        sock.sendall(payload)
        replies: list[Any] = []
        while len(replies) < count:
            sock.settimeout(max(LEAST_S, deadline - time.monotonic()))
            data = sock.recv(CHUNK)
            if not data:
                raise StoreLostError("the store closed the connection")
            reader.feed(data)
            while (reply := reader.gets()) is not False:
                replies.append(reply)
                self._demoted |= is_demoted(reply)
        if len(replies) > count or reader.has_data():
            raise StoreLostError("the store sent more replies than there were commands")
        return replies


def _connect(address: Address, timeout_s: float) -> socket.socket:
    if address.path:
        return _connect_unix(address.path, timeout_s)
    plain = socket.create_connection((address.host, address.port), timeout_s)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return address.tls.wrap_socket(plain, server_hostname=address.host) if address.tls else plain
    except BaseException:
        plain.close()
        raise


def _connect_unix(path: str, timeout_s: float) -> socket.socket:
    plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        plain.settimeout(timeout_s)
        plain.connect(path)
    except BaseException:
        plain.close()
        raise
    return plain


def is_demoted(reply: Any) -> bool:
    """The server became a replica. A new connection may reach the new primary."""
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("READONLY")


_LAST: Final = {
    # An error means that it is no node of a cluster, or that this user may not ask.
    Peer.SINGLE: pack(("CLUSTER", "MYID")),
    # A Sentinel may name a server that has just become a replica.
    Peer.PRIMARY: pack(("ROLE",)),
}
_PING: Final = pack(("PING",))


def greeting(address: Address, peer: Peer) -> list[bytes]:
    commands = []
    if address.password:
        who = (address.username, address.password) if address.username else (address.password,)
        commands.append(pack(("AUTH", *who)))
    if address.db:
        commands.append(pack(("SELECT", str(address.db))))
    # Any reply shows that the server responds.
    commands.append(_LAST.get(peer, _PING))
    return commands


def check_greeting(replies: list[Any], address: Address, peer: Peer) -> None:
    for reply in replies[:-1]:
        if isinstance(reply, hiredis.ReplyError):
            raise StoreLostError(f"the store refused the connection: {reply}")
    last = replies[-1]
    if isinstance(last, hiredis.ReplyError) and str(last).startswith("NOAUTH"):
        raise StoreLostError("the store requires a password; add it to the URL")
    if peer is Peer.SINGLE and isinstance(last, bytes):
        raise StoreAddressError(f"{address} is a node of a cluster; write the store's URL as {cluster_url(address)}")
    if peer is Peer.PRIMARY and isinstance(last, list) and last[0] != b"master":
        raise StoreLostError(f"{address} is not the primary any more")


def cluster_url(address: Address) -> str:
    """Without user and password."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{'rediss' if address.tls else 'redis'}+cluster://{host}:{address.port}"
