from __future__ import annotations

import ssl

import pytest

from headroom_edge.store.address import Address, parse_url


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
    ],
)
def test_it_reads_urls(url: str, address: Address) -> None:
    assert parse_url(url) == address


def test_tls_verifies_unless_told_otherwise() -> None:
    strict, lax = parse_url("rediss://h").tls, parse_url("rediss://h?ssl_cert_reqs=none").tls
    assert strict is not None
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert lax is not None
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("sentinel://h:26379/mymaster", "unsupported scheme, 'sentinel'"),
        ("redis+cluster://h", "only single servers work so far"),
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


def test_the_password_is_in_no_text_about_the_address() -> None:
    address = parse_url("redis://me:hunter2@h")
    assert "hunter2" not in repr(address) + str(address)
