"""Sends one signed message to one webhook. Redirects are not followed: they could lead anywhere."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quotas.alerts.addresses import Network, Place, UnreachableError, place_of

TIMEOUT_S: Final = 5.0
TIMESTAMP: Final = "Headroom-Timestamp"
SIGNATURE: Final = "Headroom-Signature"


def send(url: str, body: Mapping[str, Any], secret: bytes, now_s: int, allowed: Sequence[Network] = ()) -> None:
    place = place_of(url, allowed)
    data = json.dumps(body, separators=(",", ":")).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "headroom-alerts",
        TIMESTAMP: str(now_s),
        SIGNATURE: sign(data, secret, now_s),
    }
    try:
        status = _post(place, data, headers)
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"{place.host} did not take it: {error or type(error).__name__}") from None
    if not 200 <= status < 300:
        raise UnreachableError(f"{place.host} answered {status}; it must answer 200 to 299")


def sign(data: bytes, secret: bytes, now_s: int) -> str:
    """Over the time too, so that the receiver can refuse what is old."""
    return "v1=" + hmac.new(secret, f"{now_s}.".encode() + data, hashlib.sha256).hexdigest()


def _post(place: Place, data: bytes, headers: Mapping[str, str]) -> int:
    connection = http.client.HTTPConnection(place.host, place.port, timeout=TIMEOUT_S)
    # Connected here, to the address that was judged; the library would resolve the name again.
    connection.sock = _connect(place)
    try:
        connection.request("POST", place.path, body=data, headers=dict(headers))
        return connection.getresponse().status
    finally:
        connection.close()


def _connect(place: Place) -> socket.socket:
    plain = socket.create_connection((place.address, place.port), timeout=TIMEOUT_S)
    if place.scheme == "http":
        return plain
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=place.host)
    except OSError:
        plain.close()
        raise
