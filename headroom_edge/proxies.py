"""The client's address. X-Forwarded-For counts only as far as trusted proxies wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from headroom_edge.recent_cache import RecentCache

UNIX: Final = "unix"  # a peer over a Unix socket has no address
HOPS_AT_MOST: Final = 32
ADDRESSES_KEPT: Final = 4_096
LONGEST_KEPT: Final = 64  # characters of X-Forwarded-For

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    networks: tuple[IpNetwork, ...] = ()
    unix: bool = False
    # Found before, by the peer and what it forwards: addresses repeat, and reading them is dear.
    _clients: RecentCache[tuple[str, str], str | None] = field(
        default_factory=partial(RecentCache, ADDRESSES_KEPT), init=False, repr=False, compare=False
    )

    @classmethod
    def parse(cls, texts: Iterable[str]) -> TrustedProxies:
        """Each text is an address, a network such as 10.0.0.0/8, or `unix` for peers over a Unix socket."""
        words = [text.strip() for text in texts if text.strip()]
        return cls(tuple(_network(word) for word in words if word != UNIX), UNIX in words)

    def trusts(self, peer: str) -> bool:
        if not peer:
            return self.unix
        address = address_of(peer)
        return address is not None and any(address in network for network in self.networks)

    def client(self, peer: str, forwarded: str) -> str | None:
        """The rightmost hop that is not a trusted proxy. `forwarded` is X-Forwarded-For, repeated fields joined."""
        if len(forwarded) > LONGEST_KEPT:
            return self._client(peer, forwarded)
        found = self._clients.get((peer, forwarded))
        if found is None:
            found = self._client(peer, forwarded)
            self._clients.put((peer, forwarded), found)
        return found

    def _client(self, peer: str, forwarded: str) -> str | None:
        nearest = address_of(peer)
        if not forwarded or not self.trusts(peer):
            return _text(nearest)
        hops = forwarded.rsplit(",", HOPS_AT_MOST)[-HOPS_AT_MOST:]
        for hop in reversed(hops):
            address = address_of(hop)
            if address is None:
                # The trusted proxy did not know the address, so the last known hop stands for all before it.
                break
            nearest = address
            if not any(address in network for network in self.networks):
                break
        return _text(nearest)


def _text(address: IpAddress | None) -> str | None:
    return None if address is None else str(address)


@lru_cache(maxsize=ADDRESSES_KEPT)
def address_of(text: str) -> IpAddress | None:
    """Parses `1.2.3.4`, `1.2.3.4:567`, `2001:db8::1` and `[2001:db8::1]:567`; unwraps IPv4 mapped to IPv6."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _network(text: str) -> IpNetwork:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise ValueError(
            f"trusted proxy {text!r} is not an address; use addresses, networks such as 10.0.0.0/8, or unix."
        ) from None
