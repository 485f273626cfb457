"""A11: webhooks reach nothing inside, however the address is written."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from quotas.alerts.public_address import is_public
from quotas.alerts.webhook import UnreachableError, resolve_url

LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/hook",
        "https://127.1/hook",
        "https://2130706433/hook",
        "https://0x7f000001/hook",
        "https://0177.0.0.1/hook",
        "https://localhost/hook",
        "https://0.0.0.0/hook",
        "https://10.1.2.3/hook",
        "https://172.16.0.1/hook",
        "https://192.168.0.1/hook",
        "https://100.64.0.1/hook",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/hook",
        "https://[::ffff:127.0.0.1]/hook",
        "https://[::ffff:a9fe:a9fe]/hook",
        "https://[fe80::1]/hook",
        "https://[fd00::1]/hook",
        "https://[fec0::1]/hook",
        "https://[3fff::1]/hook",
        "https://[64:ff9b::7f00:1]/hook",
        "https://[2002:7f00:1::]/hook",
        "https://224.0.0.1/hook",
        "https://255.255.255.255/hook",
    ],
)
def test_private_addresses_are_refused_in_every_spelling(url: str) -> None:
    with pytest.raises(UnreachableError, match=r"private address|cannot be found"):
        resolve_url(url)


@pytest.mark.parametrize(
    "url",
    ["ftp://example.com/", "https://", "example.com/hook", "https://[::1", "https://x:99999999/", "file:///etc/passwd"],
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(UnreachableError, match="not a URL"):
        resolve_url(url)


def test_a_password_in_the_address_is_refused() -> None:
    with pytest.raises(UnreachableError, match="remove them"):
        resolve_url("https://user:password@1.1.1.1/")


def test_a_line_break_cannot_be_smuggled_into_the_request() -> None:
    with pytest.raises(UnreachableError):
        resolve_url("https://1.1.1.1/hook\r\nX-Evil: 1")


def test_plain_http_is_for_networks_that_were_allowed() -> None:
    with pytest.raises(UnreachableError, match="https"):
        resolve_url("http://1.1.1.1/hook")
    assert resolve_url("http://127.0.0.1:8080/hook", LOOPBACK).address == "127.0.0.1"


def test_a_public_address_is_reached_by_number() -> None:
    place = resolve_url("https://1.1.1.1:8443/hook?a=b")
    assert (place.host, place.port, place.path, place.address) == ("1.1.1.1", 8443, "/hook?a=b", "1.1.1.1")


def test_a_name_with_one_private_address_among_public_ones_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [(2, 1, 6, "", (address, 443)) for address in ("1.1.1.1", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(UnreachableError, match="private address"):
        resolve_url("https://two-faced.example/")


# One or two addresses of each entry in IANA's registries of special-purpose addresses, and of what became special
# before them. ipaddress.is_global knows some only in newer versions of Python, and some in none.
SPECIAL = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "169.254.169.254"),
    *("172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.8", "192.0.0.9", "192.0.0.170", "192.0.2.1"),
    *("192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1"),
    *("224.0.0.251", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:192.88.99.1"),
    *("64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
    *("100::1", "100:0:0:1::1", "2001::1", "2001:0:53aa:64c:0:1:80ff:fffe", "2001:2::1", "2001:10::1"),
    *("2001:20::1", "2001:1ff:ffff::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1"),
    *("3fff::1", "3fff:fff:ffff::1", "4000::1", "5f00::1", "8000::1", "f000::1", "fc00::1", "fd00::1"),
    *("fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "feff::1", "ff02::1", "ff0e::1"),
]


@pytest.mark.parametrize("text", SPECIAL)
def test_no_special_address_is_public(text: str) -> None:
    assert not is_public(ip_address(text.partition("%")[0]))


@pytest.mark.parametrize(
    "text",
    [
        *("1.1.1.1", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1"),
        *("192.0.1.1", "192.88.98.1", "198.17.255.255", "198.20.0.1", "223.255.255.255", "::ffff:8.8.8.8"),
        *("2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700:4700::1111", "2a00:1450::1", "3ffe:ffff::1"),
    ],
)
def test_their_neighbours_are(text: str) -> None:
    assert is_public(ip_address(text))


@given(integers(0, 2**32 - 1).map(IPv4Address) | integers(0, 2**128 - 1).map(IPv6Address))
def test_what_python_calls_private_is_not_public(address: IPv4Address | IPv6Address) -> None:
    if is_public(address):
        assert (getattr(address, "ipv4_mapped", None) or address).is_global
