from __future__ import annotations

import random

import pytest

from headroom_edge.proxies import TrustedProxies

OURS = TrustedProxies.parse(["10.0.0.0/8", "192.168.1.1", "2001:db8:1::/48"])
NOBODY = TrustedProxies()


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "1.1.1.1", "203.0.113.9"),  # nobody we know says so
        ("10.0.0.1", "1.1.1.1", "1.1.1.1"),
        ("10.0.0.1", "6.6.6.6, 1.1.1.1", "1.1.1.1"),  # what the client invented stands further left
        ("10.0.0.1", "6.6.6.6,1.1.1.1 , 10.0.0.2", "1.1.1.1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),  # a service of our own
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "6.6.6.6, unknown", "10.0.0.1"),
        ("10.0.0.1", "6.6.6.6, ", "10.0.0.1"),
        ("10.0.0.1", "6.6.6.6, unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "1.1.1.1:4711", "1.1.1.1"),
        ("10.0.0.1", "[2001:db8:2::1]:4711", "2001:db8:2::1"),
        ("10.0.0.1", "2001:db8:2::1", "2001:db8:2::1"),
        ("2001:db8:1::5", "1.1.1.1", "1.1.1.1"),
        ("::ffff:10.0.0.1", "::ffff:1.1.1.1", "1.1.1.1"),  # IPv4 inside IPv6 is itself
        ("fe80::1%eth0", "", "fe80::1"),
        ("not-an-address", "1.1.1.1", None),
        ("", "1.1.1.1", None),
    ],
)
def test_the_client_is_the_rightmost_hop_that_is_no_trusted_proxy(
    peer: str, forwarded: str, client: str | None
) -> None:
    assert OURS.client(peer, forwarded) == client


def test_a_peer_over_a_unix_socket_is_trusted_only_if_told() -> None:
    assert NOBODY.client("", "1.1.1.1") is None
    assert TrustedProxies.parse(["unix"]).client("", "6.6.6.6, 1.1.1.1") == "1.1.1.1"


def test_invented_hops_from_an_untrusted_peer_are_one_client() -> None:
    seeded = random.Random(1)
    invented = (".".join(str(seeded.randrange(256)) for _ in range(4)) for _ in range(10_000))
    assert {OURS.client("203.0.113.9", hop) for hop in invented} == {"203.0.113.9"}


def test_invented_hops_through_a_trusted_proxy_are_one_client() -> None:
    seeded = random.Random(1)
    invented = (".".join(str(seeded.randrange(256)) for _ in range(4)) for _ in range(1_000))
    assert {OURS.client("10.0.0.1", f"{hop}, 203.0.113.9") for hop in invented} == {"203.0.113.9"}


def test_a_chain_without_end_is_cut() -> None:
    assert OURS.client("10.0.0.1", "6.6.6.6," + "10.0.0.1," * 10_000 + "10.0.0.1") == "10.0.0.1"


@pytest.mark.parametrize("text", ["10.0.0.0/33", "proxy.internal", "10.0.0.1-10.0.0.9"])
def test_what_is_no_address_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(ValueError, match="use addresses, networks such as"):
        TrustedProxies.parse([text])
