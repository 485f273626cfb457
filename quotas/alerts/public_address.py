"""Which IP addresses are public. A webhook elsewhere would let its author send requests into Headroom's own network.

The tables are IANA's registries of special-purpose addresses. `ipaddress.is_global` is not used: its tables differ
between versions of Python, and none of them knows all of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NOT_PUBLIC_4: Final = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by the customers of a provider
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, also the metadata of cloud machines
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # former relays to IPv6
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
# Everything outside of it is special: loopback, ::/96, 64:ff9b::/96 and 64:ff9b:1::/48 (which lead to the IPv4 address
# in them), 100::/64, 5f00::/16, fc00::/7, fe80::/10, fec0::/10 (site-local, as routers still treat it), ff00::/8.
GLOBAL_UNICAST_6: Final = ip_network("2000::/3")
NOT_PUBLIC_6: Final = tuple(
    map(
        ip_network,
        (
            "2001::/23",  # protocol assignments, among them Teredo, which leads to the IPv4 address in it
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, leads to the IPv4 address in it
            "3fff::/20",  # documentation
        ),
    )
)


def is_public(address: Address) -> bool:
    plain = _plain(address)
    if isinstance(plain, IPv4Address):
        return not is_within(plain, NOT_PUBLIC_4)
    return plain in GLOBAL_UNICAST_6 and not is_within(plain, NOT_PUBLIC_6)


def is_within(address: Address, networks: Sequence[Network]) -> bool:
    return any(_plain(address) in network for network in networks)


def _plain(address: Address) -> Address:
    """The IPv4 address of one that is written as IPv6 (::ffff:0:0/96)."""
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
