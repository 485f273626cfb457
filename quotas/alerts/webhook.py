"""Sends a signed message to a webhook. Refuses private addresses, to prevent requests into Headroom's own network."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from quotas.alerts.deadline import Deadline
from quotas.alerts.public_address import Address, Network, is_public, is_within

PORTS: Final = {"https": 443, "http": 80}

TIMEOUT_S: Final = 10.0  # for all of it: the look-up of the name, connection, TLS, request and the head of the response
TIMESTAMP: Final = "Headroom-Timestamp"
SIGNATURE: Final = "Headroom-Signature"


class UnreachableError(Exception):
    """The webhook may not or cannot be reached; the message is one sentence."""


class RefusedByReceiverError(UnreachableError):
    """The webhook answered, but did not accept the message. It may accept another one."""


@dataclass(frozen=True, slots=True)
class ResolvedUrl:
    """A URL and the IP address to connect to."""

    scheme: str
    host: str
    port: int
    path: str
    address: str


def resolve_url(url: str, allowed: Sequence[Network] = ()) -> ResolvedUrl:
    """Resolves and checks a URL. `allowed`: private networks that may be reached, also over plain http."""
    scheme, host, port, path = _parts(url)
    address = _resolve(host, port, allowed)
    if scheme != "https" and not is_within(address, allowed):
        raise UnreachableError("the address uses http; outside the allowed networks it must use https")
    return ResolvedUrl(scheme, host, port, path, str(address))


def _parts(url: str) -> tuple[str, str, int, str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UnreachableError("the address is not a URL; write it like https://example.com/hook") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise UnreachableError("the address is not a URL; write it like https://example.com/hook")
    if parts.username is not None or parts.password is not None:
        raise UnreachableError("the address contains a user name or password; remove them, as requests are signed")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if any(ord(character) < 33 or ord(character) > 126 for character in parts.hostname + path):
        raise UnreachableError("the address contains characters that are not allowed in a URL; percent-encode them")
    return parts.scheme, parts.hostname, port or PORTS[parts.scheme], path


def _resolve(host: str, port: int, allowed: Sequence[Network]) -> Address:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnreachableError(f"the host {host} cannot be found; correct the name") from None
    addresses = [ip_address(str(info[4][0]).partition("%")[0]) for info in found]
    for address in addresses:
        if not is_public(address) and not is_within(address, allowed):
            raise UnreachableError(
                f"the host {host} has a private address; use a public one, "
                "or add its network to HEADROOM_ALERT_NETWORKS"
            )
    return addresses[0]


def send(url: str, body: Mapping[str, Any], secret: bytes, now_s: int, allowed: Sequence[Network] = ()) -> None:
    data = json.dumps(body, separators=(",", ":")).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "headroom-alerts",
        TIMESTAMP: str(now_s),
        SIGNATURE: sign(data, secret, now_s),
    }
    host = urlsplit(url).hostname
    try:
        with Deadline(TIMEOUT_S) as deadline:
            status = _post(resolve_url(url, allowed), data, headers, deadline)
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"{host} did not accept it: {error or type(error).__name__}") from None
    if not 200 <= status < 300:
        raise RefusedByReceiverError(f"{host} answered {status}; it must answer 200 to 299")


def sign(data: bytes, secret: bytes, now_s: int) -> str:
    """The signature covers the time, so that the receiver can refuse old messages."""
    return "v1=" + hmac.new(secret, f"{now_s}.".encode() + data, hashlib.sha256).hexdigest()


def _post(place: ResolvedUrl, data: bytes, headers: Mapping[str, str], deadline: Deadline) -> int:
    connection = http.client.HTTPConnection(place.host, place.port)
    # Connect to the address that was checked; the library would resolve the name again, possibly to another one.
    connection.sock = _connect(place, deadline)
    try:
        connection.request("POST", place.path, body=data, headers=dict(headers))
        return connection.getresponse().status
    finally:
        connection.close()


def _connect(place: ResolvedUrl, deadline: Deadline) -> socket.socket:
    plain = deadline.connect([(place.address, place.port)])
    if place.scheme == "http":
        return plain
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=place.host)
    except OSError:
        plain.close()
        raise
