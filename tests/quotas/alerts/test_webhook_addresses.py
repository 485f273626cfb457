"""A11: webhooks reach nothing inside, however the address is written."""

from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from quotas.alerts.webhook import UnreachableError, is_public, resolve_url

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


def test_multicast_and_reserved_are_not_public() -> None:
    assert not any(is_public(ip_address(text)) for text in ("224.0.0.251", "240.0.0.1", "ff02::1", "::", "192.0.2.1"))
    assert is_public(ip_address("2606:4700:4700::1111"))
