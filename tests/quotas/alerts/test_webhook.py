"""Messages arrive signed, at the address that was judged, and follow no redirect."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from quotas.alerts import webhook
from quotas.alerts.webhook import UnreachableError
from tests.quotas.alerts.receivers import Receiver, receiving

LOOPBACK = (ip_network("127.0.0.0/8"),)
SECRET = b"secret"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


def test_the_receiver_can_prove_who_sent_it_and_when(receiver: Receiver) -> None:
    webhook.send(receiver.url, {"events": []}, SECRET, 1_900_000_000, LOOPBACK)
    ((path, headers, data),) = receiver.got
    assert path == "/hook"
    assert json.loads(data) == {"events": []}
    expected = hmac.new(SECRET, b"1900000000." + data, hashlib.sha256).hexdigest()
    assert headers["Headroom-Signature"] == f"v1={expected}"
    assert headers["Headroom-Timestamp"] == "1900000000"


@pytest.mark.parametrize("status", [301, 307, 404, 500])
def test_anything_but_success_is_a_failure_and_redirects_lead_nowhere(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with pytest.raises(UnreachableError, match=str(status)):
        webhook.send(receiver.url, {}, SECRET, 0, LOOPBACK)
    assert [path for path, *_ in receiver.got] == ["/hook"]


def test_loopback_gets_no_connection(receiver: Receiver) -> None:
    with pytest.raises(UnreachableError, match="private address"):
        webhook.send(receiver.url, {}, SECRET, 0)
    assert receiver.got == []


def test_a_name_that_changes_its_address_is_still_reached_where_it_was_judged(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: Any, *arguments: Any, **named: Any) -> Any:
        asked.append(host)
        first = host == "rebinding.example" and asked.count(host) == 1
        return real("127.0.0.1" if first or host == "127.0.0.1" else "127.0.0.99", *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    webhook.send(f"http://rebinding.example:{receiver.server_port}/hook", {}, SECRET, 0, LOOPBACK)
    assert asked.count("rebinding.example") == 1
    ((_, headers, _),) = receiver.got
    assert headers["Host"].startswith("rebinding.example")


def test_nobody_at_home_is_one_sentence() -> None:
    with pytest.raises(UnreachableError, match="did not accept it"):
        webhook.send("http://127.0.0.1:1/hook", {}, SECRET, 0, LOOPBACK)
