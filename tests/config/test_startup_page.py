from __future__ import annotations

import json
import socket

from config.startup_page import StartupPage


def asked(head: bytes) -> tuple[str, str]:
    """Head and body of the response."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        startup_page = StartupPage(listener, lambda: "seed: traffic <40 %>")
        with socket.create_connection(listener.getsockname()) as caller:
            caller.sendall(head)
            startup_page.answer()
            said = b"".join(iter(lambda: caller.recv(65_536), b"")).decode()
    found, _, body = said.partition("\r\n\r\n")
    return found, body


def test_a_program_hears_what_is_being_done() -> None:
    head, body = asked(b"GET /healthz HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n")
    assert head.startswith("HTTP/1.1 503 ")
    assert "Retry-After: 2" in head
    assert json.loads(body) == {"status": "starting", "reason": "seed: traffic <40 %>"}


def test_a_person_sees_a_page_that_looks_again() -> None:
    head, body = asked(b"GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html,*/*\r\n\r\n")
    assert "Refresh: 2" in head
    assert "seed: traffic &lt;40 %&gt;" in body


def test_whoever_says_nothing_is_let_go() -> None:
    assert asked(b"GET / HT") == ("", "")
