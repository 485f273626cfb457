"""The pages of one caller take their turns, and a caller that was refused is not served by Django again at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from http import HTTPStatus
from typing import Any

import pytest

from access import page_queue
from access.page_queue import AT_ONCE, STREAMS, TELL, TENANT_AT_ONCE, WAITING, PageQueue
from headroom_edge.request_guard import bearer_text

ANN, BEN, EVE, ZOE = "ann", "ben", "eve", "zoe"
CALLERS = {ANN: "tenant acme", BEN: "tenant acme", EVE: "tenant bolt", ZOE: "actor zoe"}


class Django:
    """Stands behind the queue: knows who has which token, and answers when the test lets it."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.served = 0
        self.status = HTTPStatus.OK
        self.may_end = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        token = _token(dict(scope["headers"]))
        caller = CALLERS.get(token, token)
        self.inside[caller] += 1
        self.most[caller] = max(self.most[caller], self.inside[caller])
        while (await receive()).get("more_body"):
            pass
        if token in CALLERS and TELL in scope:
            scope[TELL](caller)
        await self.may_end.wait()
        self.inside[caller] -= 1
        self.served += 1
        fields = [(b"Retry-After", b"1"), (b"X-Request-ID", b"one")] if self.status == 429 else []
        await send({"type": "http.response.start", "status": self.status, "headers": fields})
        await send({"type": "http.response.body", "body": b"page", "more_body": False})


def _token(headers: dict[bytes, bytes]) -> str:
    return (
        bearer_text(headers.get(b"authorization", b"").decode())
        or headers[b"cookie"].decode().rpartition("sessionid=")[2]
    )


class Browser:
    def __init__(self, app: PageQueue, token: str, accept: bytes = b"*/*") -> None:
        self.app, self.token, self.accept = app, token, accept
        self.may_send = asyncio.Event()
        self.may_send.set()

    async def get(self, path: str = "/tenants", **sent_as: str) -> tuple[int, dict[bytes, bytes]]:
        """`sent_as`: the header fields that have the token, if not as usual."""
        sent = list[Any]()
        body = [{"type": "http.request", "body": b"", "more_body": False}]

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            await self.may_send.wait()
            return body.pop() if body else {"type": "http.disconnect"}

        fields = sent_as or {"authorization": f"Bearer {self.token}"}
        headers = [(b"accept", self.accept), *((name.encode(), value.encode()) for name, value in fields.items())]
        await self.app({"type": "http", "path": path, "headers": headers}, receive, send)
        return sent[0]["status"], {name.lower(): value for name, value in sent[0]["headers"]}


async def settled() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


def queue() -> tuple[Django, PageQueue]:
    django = Django()
    return django, PageQueue(django, "sessionid", lambda scope: "192.0.2.1")


async def queue_that_knows(*tokens: str) -> tuple[Django, PageQueue]:
    django, app = queue()
    django.may_end.set()
    for token in tokens:
        for path in ("/tenants", "/v1/usage"):
            await Browser(app, token).get(path)
    django.may_end.clear()
    return django, app


async def test_a_tenants_keys_share_their_turns_and_another_tenant_does_not_wait() -> None:
    django, app = await queue_that_knows(ANN, BEN, EVE)
    flood = [asyncio.create_task(Browser(app, token).get()) for token in (ANN, BEN) * 15]
    other = asyncio.create_task(Browser(app, EVE).get())
    await settled()
    assert django.inside == {"tenant acme": TENANT_AT_ONCE, "tenant bolt": 1}
    django.may_end.set()
    assert {status for status, _ in await asyncio.gather(*flood, other)} == {200}
    assert django.most["tenant acme"] <= AT_ONCE
    assert not app._slots


async def test_strangers_at_one_address_share_their_turns() -> None:
    django, app = queue()
    flood = [asyncio.create_task(Browser(app, f"guess {number}").get()) for number in range(20)]
    await settled()
    assert sum(django.inside.values()) == AT_ONCE
    django.may_end.set()
    await asyncio.gather(*flood)


async def test_beyond_what_may_wait_it_is_refused_at_once() -> None:
    django, app = await queue_that_knows(ANN)
    waiting = [asyncio.create_task(Browser(app, ANN).get()) for _ in range(AT_ONCE + WAITING)]
    await settled()
    status, fields = await Browser(app, ANN).get()
    assert (status, fields[b"retry-after"]) == (429, b"1")
    django.may_end.set()
    assert {status for status, _ in await asyncio.gather(*waiting)} == {200}


async def test_a_refusal_is_repeated_from_memory_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_queue, "PAUSE_SECONDS", 0.0)
    now = 0.0
    monkeypatch.setattr(page_queue, "_now", lambda: now)
    django, app = queue()
    django.may_end.set()
    django.status = HTTPStatus.TOO_MANY_REQUESTS
    flood = await asyncio.gather(*(Browser(app, ANN).get() for _ in range(30)))
    assert {status for status, _ in flood} == {429}
    assert {fields[b"retry-after"] for _, fields in flood} == {b"1"}
    assert django.served <= AT_ONCE
    assert (await Browser(app, ANN).get())[1].keys() == {b"retry-after"}
    served = django.served
    await Browser(app, ANN, b"text/html").get()
    assert django.served == served + 1, "a page must not repeat what a program was told"
    served += 1
    django.status = HTTPStatus.OK
    assert (await Browser(app, EVE).get())[0] == 200
    assert (await Browser(app, ANN).get())[0] == 429
    now = 1.1
    assert (await Browser(app, ANN).get())[0] == 200
    assert django.served == served + 2


async def test_open_streams_are_counted_apart() -> None:
    django, app = await queue_that_knows(ANN)
    streams = [asyncio.create_task(Browser(app, ANN).get("/live")) for _ in range(STREAMS)]
    await settled()
    assert (await Browser(app, ANN).get("/live"))[0] == 429
    page = asyncio.create_task(Browser(app, ANN).get())
    await settled()
    assert sum(django.inside.values()) == STREAMS + 1
    django.may_end.set()
    await asyncio.gather(page, *streams)
    assert (await Browser(app, ANN).get("/live"))[0] == 200


async def test_a_tenants_api_calls_take_turns_with_its_pages() -> None:
    django, app = await queue_that_knows(ANN)
    asked = [asyncio.create_task(Browser(app, ANN).get(path)) for path in ("/v1/usage", "/portal") * 10]
    await settled()
    assert django.inside == {"tenant acme": TENANT_AT_ONCE}
    waiting = [asyncio.create_task(Browser(app, ANN).get("/v1/usage")) for _ in range(AT_ONCE + WAITING - len(asked))]
    await settled()
    status, fields = await Browser(app, ANN).get("/v1/usage")
    assert (status, fields[b"retry-after"]) == (429, b"1")
    assert fields[b"content-type"] == b"application/problem+json"
    django.may_end.set()
    assert {status for status, _ in await asyncio.gather(*asked, *waiting)} == {200}


@pytest.mark.parametrize("path", ["/v1/usage", "/portal"])
async def test_no_other_spelling_of_a_key_or_session_is_another_caller(path: str) -> None:
    django, app = queue()
    spellings = [{"authorization": f"{scheme} {' ' * n}{ANN}  "} for n in range(10) for scheme in ("Bearer", "BEARER")]
    spellings += [{"cookie": f"{junk}sessionid={BEN}"} for junk in ("", "foo; ", 'a={"k":1}; ', "a=\x01; ")]
    django.may_end.set()
    for fields in spellings[-1:] + spellings[:1]:
        await Browser(app, "").get(path, **fields)
    django.may_end.clear()
    flood = [asyncio.create_task(Browser(app, "").get(path, **fields)) for fields in spellings]
    await settled()
    assert django.inside == {"tenant acme": TENANT_AT_ONCE}
    django.may_end.set()
    await asyncio.gather(*flood)


async def test_of_a_new_key_one_api_call_goes_ahead_and_the_others_take_turns() -> None:
    django, app = queue()
    flood = [asyncio.create_task(Browser(app, ANN).get("/v1/usage")) for _ in range(40)]
    await settled()
    assert django.inside == {"tenant acme": 1 + TENANT_AT_ONCE}
    django.may_end.set()
    assert {status for status, _ in await asyncio.gather(*flood)} == {200}
    assert not app._ahead


async def test_behind_a_call_that_tells_nothing_the_others_go_on() -> None:
    django, app = queue()
    django.may_end.set()
    flood = [asyncio.create_task(Browser(app, "invented").get("/v1/usage")) for _ in range(10)]
    assert {status for status, _ in await asyncio.gather(*flood)} == {200}
    assert not app._ahead


@pytest.mark.parametrize("path", ["/v1/usage", "/portal"])
async def test_nobody_holds_a_turn_while_a_body_arrives(path: str) -> None:
    django, app = queue()
    slow = [Browser(app, f"guess {number}") for number in range(2 * AT_ONCE)]
    for browser in slow:
        browser.may_send.clear()
    dripping = [asyncio.create_task(browser.get(path)) for browser in slow]
    await settled()
    django.may_end.set()
    assert (await asyncio.wait_for(Browser(app, ANN).get(path), 60))[0] == 200
    for browser in slow:
        browser.may_send.set()
    await asyncio.gather(*dripping)


@pytest.mark.parametrize("path", ["/v1/tenants", "/healthz", "/static/app.css"])
async def test_the_api_calls_of_the_platform_and_what_is_no_page_do_not_wait(path: str) -> None:
    django, app = queue()
    django.may_end.set()
    await Browser(app, ZOE).get(path)
    django.may_end.clear()
    asked = [asyncio.create_task(Browser(app, ZOE).get(path)) for _ in range(20)]
    await settled()
    assert sum(django.inside.values()) == 20
    django.may_end.set()
    await asyncio.gather(*asked)
