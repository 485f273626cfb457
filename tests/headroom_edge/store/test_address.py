from __future__ import annotations

import ssl

import pytest

from headroom_edge.store.address import Address, ClusterAddress, SentinelAddress, StoreAddress, parse_url


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost", Address("localhost", 6379)),
        ("redis://cache.example:7000/3", Address("cache.example", 7000, db=3)),
        ("redis://cache.example?db=4", Address("cache.example", 6379, db=4)),
        ("redis://:s%40crét@h/1", Address("h", 6379, db=1, password="s@crét")),
        ("redis://enforcer:pw@h", Address("h", 6379, username="enforcer", password="pw")),
        ("redis://[::1]:6380", Address("::1", 6380)),
        ("unix:///run/valkey.sock?db=2", Address("localhost", 6379, path="/run/valkey.sock", db=2)),
        ("unix://user:pw@/run/a%20b", Address("localhost", 6379, path="/run/a b", username="user", password="pw")),
        ("redis+cluster://a:7000,b", ClusterAddress((Address("a", 7000), Address("b", 6379)))),
        ("redis+cluster://me:pw@[::1]:7000/0", ClusterAddress((Address("::1", 7000, username="me", password="pw"),))),
        (
            "redis+sentinel://me:pw@a:1,b/main/3",
            SentinelAddress(
                (Address("a", 1), Address("b", 26379)),
                "main",
                Address("a", 1, db=3, username="me", password="pw"),
            ),
        ),
        (
            "redis+sentinel://a/main?sentinel_username=s&sentinel_password=p%40w",
            SentinelAddress((Address("a", 26379, username="s", password="p@w"),), "main", Address("a", 26379)),
        ),
    ],
)
def test_it_reads_urls(url: str, address: StoreAddress) -> None:
    assert parse_url(url) == address


def test_tls_verifies_unless_told_otherwise() -> None:
    addresses = [parse_url("rediss://h"), parse_url("rediss://h?ssl_cert_reqs=none")]
    strict, lax = (address.tls for address in addresses if isinstance(address, Address))
    assert strict is not None
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert lax is not None
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sentinel://h:26379/mymaster", "unsupported scheme, 'sentinel'"),
        ("redis+cluster://h/2", "database 0 only"),
        ("redis+cluster://", "lacks the name of a server"),
        ("redis+cluster://a:1,,b:2", "lacks the name of a server"),
        ("redis+cluster://h:a", "not a host and a port"),
        ("redis+cluster://h?sentinel_password=x", "unknown option, 'sentinel_password'"),
        ("redis+sentinel://h", "does not name the primary"),
        ("redis+sentinel://h/main/first", "must be a whole number, not 'first'"),
        ("redis://a,b", "names several servers"),
        ("localhost:6379", "write it like redis://"),
        ("redis://h/first", "must be a whole number, not 'first'"),
        ("redis://h:99999", "from 1 to 65535"),
        ("redis://h?socket_timeout=3", "unknown option, 'socket_timeout'"),
        ("rediss://h?ssl_cert_reqs=maybe", "one of none, optional, required"),
        ("unix://", "has no socket path"),
    ],
)
def test_it_says_what_to_change_in_a_url_it_cannot_use(url: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_url(url)


@pytest.mark.parametrize(
    "url", ["redis://me:hunter2@h", "redis+cluster://me:hunter2@h", "redis+sentinel://me:hunter2@h/main"]
)
def test_the_password_is_in_no_text_about_the_address(url: str) -> None:
    address = parse_url(url)
    assert "hunter2" not in repr(address) + str(address)


def test_tls_goes_to_every_node_and_sentinel() -> None:
    cluster, watched = parse_url("rediss+cluster://a,b"), parse_url("rediss+sentinel://a,b/main")
    assert isinstance(cluster, ClusterAddress)
    assert isinstance(watched, SentinelAddress)
    assert all(address.tls for address in (*cluster.nodes, *watched.sentinels, watched.primary))
