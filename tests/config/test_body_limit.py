"""Nobody can make the server keep a body without end; Django is asked as the server does it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application
from django.test import Client

from access.authentication import is_known
from config.body_limit import bounded, is_known_apart
from tests.access.people import token

MOST, SMALL = 1_000, 500
Fields = Sequence[tuple[bytes, bytes]]


class Asked:
    """One request: its status, how many of the chunks were taken, and how often it was asked who sends them."""

    def __init__(
        self,
        chunks: Sequence[bytes],
        headers: Fields = (),
        *,
        known: bool = True,
        path: str = "/nothing",
        is_known: Any = None,
    ) -> None:
        self.waiting, self.sent, self.known, self.questions = list(chunks), list[Any](), known, 0
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"testserver"), *headers],
        }
        app = bounded(get_asgi_application(), is_known or self.is_known, MOST, SMALL)
        asyncio.run(app(scope, self.receive, self.send))  # type: ignore[arg-type] # a coroutine
        (self.start,) = (message for message in self.sent if message["type"] == "http.response.start")
        self.answer = (self.start["status"], len(chunks) - len(self.waiting))

    async def receive(self) -> dict[str, Any]:
        if not self.waiting:
            return await asyncio.Event().wait()  # type: ignore[return-value] # a client that stays
        return {"type": "http.request", "body": self.waiting.pop(0), "more_body": bool(self.waiting)}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def is_known(self, scope: Any) -> bool:
        self.questions += 1
        return self.known


@pytest.mark.parametrize(
    ("chunks", "headers", "answer"),
    [
        ([b"x" * MOST], [], (404, 1)),
        ([b"x" * 400] * 50, [], (413, 3)),
        ([b"x"], [(b"content-length", b"1001")], (413, 0)),
        ([b"x"], [(b"content-length", b"9" * 5_000)], (413, 0)),
    ],
)
def test_a_body_is_taken_as_far_as_it_may_go(
    chunks: list[bytes], headers: list[tuple[bytes, bytes]], answer: tuple[int, int]
) -> None:
    assert Asked(chunks, headers).answer == answer


def test_of_a_stranger_only_the_start_is_taken() -> None:
    stranger = Asked([b"x" * 300] * 3, known=False)
    assert (stranger.answer[0], stranger.questions) == (404, 1)
    known = Asked([b"x" * 300] * 3)
    assert (known.answer, known.questions) == ((404, 3), 1)
    assert Asked([b"x" * 200] * 2, known=False).questions == 0


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_superuser("alice", password="x")


def by(**headers: str) -> bool:
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    return is_known({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": fields})


def test_who_is_known_is_read_from_the_head(user: User) -> None:
    client = Client()
    client.force_login(user)
    session = client.cookies["sessionid"].value
    assert by(cookie=f"sessionid={session}")
    assert by(authorization=f"Bearer {token()}")
    assert not by(cookie="sessionid=nobody")
    assert not by(authorization="Bearer hr_nobody", cookie=f"sessionid={session}")
    assert not by()


@pytest.mark.django_db(transaction=True)
def test_a_large_body_is_told_that_no_token_can_be_verified(settings: Any) -> None:
    head = [(b"authorization", f"Bearer {token()}".encode())]
    settings.SECRET_KEY = "a-wrong-key-" * 6
    assert Asked([b"x" * 300] * 3, head, path="/v1/tenants", is_known=is_known_apart).answer[0] == 503
