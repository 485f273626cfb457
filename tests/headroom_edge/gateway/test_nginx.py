"""A real nginx with deploy/nginx/headroom.conf, in front of a small application."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import redis

from config.data_folders import ROOT
from headroom_edge import AsyncLimiter
from headroom_edge.gateway.bounds import BoundedProtocol
from headroom_edge.gateway.server import Gateway
from headroom_edge.plan.paths import PathReading
from tests.headroom_edge.apps import SERVED_BY, fastapi_app, flask_app
from tests.headroom_edge.conftest import AMPLE_MS, LOOPBACK
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.nginx_server import NGINX, running, write_configuration
from tests.headroom_edge.spellings import DOTTED, charged, endpoints, named, spellings
from tests.headroom_edge.world import ACME, STRANGER, Client, publish_world, served, served_wsgi
from tests.valkeys import free_port

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx")


@pytest.fixture
def nginx(gateway: Client, tmp_path: Path) -> Iterator[Client]:
    """In front of the rides; it asks `gateway`."""
    with served(fastapi_app()) as rides, in_front(tmp_path, gateway.port, rides.port) as client:
        yield client


@contextmanager
def in_front(
    folder: Path, gateway: int, app: int, *, strict: bool = True, fails_open: bool = False
) -> Iterator[Client]:
    """`strict`: nginx itself refuses paths that servers read differently, as in the file that ships.

    `fails_open`: changed as docs/nginx.md says, so that requests pass while the gateway is away.
    """
    port = free_port()
    shipped = (ROOT / "deploy" / "nginx" / "headroom.conf").read_text()
    changed = shipped.replace("127.0.0.1:8001", f"127.0.0.1:{gateway}").replace("127.0.0.1:9000", f"127.0.0.1:{app}")
    if not strict:
        changed, count = re.subn(r"\n +if \(\$request_uri .*", "", changed)
        assert count == 1
    if fails_open:
        changed, count = re.subn(r"add_header Retry-After 1 always;\s.*\s.*\n", "proxy_pass http://app;\n", changed)
        assert count == 1
    write_configuration(folder, changed.replace("listen 8080", f"listen 127.0.0.1:{port}"))
    with running(folder, port):
        yield Client(port)


def test_it_lets_through_what_the_limit_allows_and_answers_429_after(nginx: Client) -> None:
    answers = [nginx.get("/v1/rides", authorization=f"Bearer {ACME}") for _ in range(7)]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
    assert answers[0].headers["served-by"] == "rides:list"
    assert answers[0].headers["ratelimit-policy"] == '"hourly";q=5;w=3600'
    assert answers[0].headers["ratelimit"].startswith('"hourly";r=4;t=')
    denied = answers[-1]
    assert denied.headers["content-type"] == "application/problem+json"
    assert denied.headers["ratelimit"].startswith('"hourly";r=0;t=')
    assert 0 < int(denied.headers["retry-after"]) <= 3_600
    assert json.loads(denied.body)["violated-policies"] == ["hourly"]
    assert json.loads(denied.body)["status"] == 429


def test_who_has_no_valid_key_gets_401(nginx: Client) -> None:
    for answer in (nginx.get("/v1/rides"), nginx.get("/v1/rides", x_api_key=STRANGER)):
        assert (answer.status, answer.json()["code"], answer.headers["www-authenticate"]) == (
            401,
            "unauthorized",
            "Bearer",
        )


def test_what_the_application_refuses_itself_passes_untouched(nginx: Client) -> None:
    missing = nginx.get("/nowhere", x_api_key=ACME)
    assert (missing.status, missing.json()) == (404, {"detail": "Not Found"})
    broken = nginx.get("/broken", x_api_key=ACME)
    assert (broken.status, broken.body) == (500, b"Internal Server Error")


def test_bodies_reach_the_application_and_not_the_gateway(nginx: Client) -> None:
    answer = nginx.post("/v1/rides", {"from": "here", "notes": "x" * 10_000}, x_api_key=ACME)
    assert (answer.status, answer.json()) == (200, {"ride": "new"})


def test_clients_are_told_apart_by_their_own_address_alone(store: redis.Redis, nginx: Client) -> None:
    publish_world(store, limit("each", "fixed_window", "ip", limit=1, window="1h"))
    sources = ["127.0.0.5", "127.0.0.6", "127.0.0.5", "127.0.0.6"]
    clients = [Client(nginx.port, source=source) for source in sources]
    answers = [one.get("/v1/rides", x_api_key=ACME, x_forwarded_for=f"9.9.9.{n}") for n, one in enumerate(clients)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]


async def told(scope: Any, receive: Any, send: Any) -> None:
    """A service that answers with what it is told about its caller."""
    fields = [(name, value) for name, value in scope["headers"] if name.startswith(b"x-headroom")]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": b""})


def test_the_service_behind_is_told_who_calls(gateway: Client, tmp_path: Path) -> None:
    with served(told) as app, in_front(tmp_path, gateway.port, app.port) as nginx:
        answer = nginx.get("/", x_api_key=ACME, x_headroom_tenant="zenith")
    assert (answer.headers["x-headroom-tenant"], answer.headers["x-headroom-key"]) == ("acme", "a" * 16)


def test_whatever_the_spelling_what_serves_is_what_is_charged(
    store: redis.Redis, gateway: Client, tmp_path: Path
) -> None:
    publish_world(store, endpoints=endpoints())
    with served(fastapi_app()) as rides, in_front(tmp_path, gateway.port, rides.port, strict=False) as nginx:
        tried = tries(nginx, spellings(60))
    assert tried.wrong == []
    assert tried.seen == {"", "rides:list", "rides:create", "rides:get", "rides:status", "rides:cancel"}


@pytest.mark.parametrize("path", ["/v1/rides/7/cancel#x", "http://host/v1/rides/7/cancel#x", "//v1/rides/7/cancel"])
def test_a_spelling_uses_up_the_limit_of_its_endpoint(
    store: redis.Redis, gateway: Client, tmp_path: Path, path: str
) -> None:
    few = limit("few", "fixed_window", limit=3, window="1h")
    publish_world(store, endpoints={"rides:cancel": (few,)})
    with served(fastapi_app()) as rides, in_front(tmp_path, gateway.port, rides.port, strict=False) as nginx:
        statuses = [nginx.send("POST", path, b"", x_api_key=ACME).status for _ in range(10)]
        plain = nginx.send("POST", "/v1/rides/7/cancel", b"", x_api_key=ACME).status
    assert (set(statuses[:3]) <= {200, 404}, statuses[3:], plain) == (True, [429] * 7, 429)


def test_a_path_that_servers_read_differently_is_refused(nginx: Client) -> None:
    bad = ["/v1/rides#x", "/v1/rides/.", "/v1/rides/%2E%2e?x", "/v1/x/../rides", "/v1%2f..%2Frides", "/v1/..;x/rides"]
    bad += ["/v1/rides/status%0A", "/v1/rides/status%0a?x", "/v1%09/rides", "/v1/rides/%1F", "/v1/rides/7%7f"]
    assert [nginx.get(path, x_api_key=ACME).status for path in bad] == [400] * len(bad)
    good = ["/v1/rides?next=/../x%0A#y", "/v1/rides/..x", "/v1/rides/.well-known", "/v1/rides/caf%C3%A9%20%7E"]
    assert [nginx.get(path, x_api_key=ACME).status for path in good] == [200] * len(good)


@dataclass
class Tries:
    """How a server answered to many spellings."""

    count: int = 0
    served: int = 0
    seen: set[str] = field(default_factory=set)
    wrong: list[tuple[str, str, str, str]] = field(default_factory=list)


def tries(nginx: Client, asked: list[tuple[str, str]]) -> Tries:
    tried = Tries()
    for method, path in asked:
        answer = nginx.send(method, path, b"" if method == "POST" else None, x_api_key=ACME)
        endpoint = answer.headers.get(SERVED_BY.lower(), "")
        tried.count += 1
        tried.served += bool(endpoint)
        tried.seen.add(endpoint)
        if endpoint and charged(answer) != named(endpoint):
            tried.wrong.append((method, path, endpoint, charged(answer)))
    return tried


PYTHON = PathReading(resolves_dots=False, keeps_hash=True)
# How each server behind nginx reads a path that it got as the client sent it.
BEHIND: dict[str, tuple[Callable[[], AbstractContextManager[Client]], PathReading]] = {
    "httptools": (lambda: served(fastapi_app()), replace(PYTHON, keeps_hash=False)),
    "h11": (lambda: served(fastapi_app(), "h11"), PYTHON),
    "wsgiref": (lambda: served_wsgi(flask_app()), replace(PYTHON, drops_newline=False)),
}


@pytest.mark.faults_long
@pytest.mark.parametrize("server", BEHIND)
def test_no_spelling_escapes_behind_nginx(
    store: redis.Redis, valkey_url: str, tmp_path: Path, figures: Callable[[str], None], server: str
) -> None:
    """A6 with 3,000 spellings for each server, in front of it the nginx that refuses nothing itself."""
    publish_world(store, endpoints=endpoints())
    behind, reading = BEHIND[server]
    rules = replace(LOOPBACK, reading=reading)
    limiter = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)
    with ExitStack() as stack:
        gateway, rides = stack.enter_context(served(Gateway(limiter, rules))), stack.enter_context(behind())
        nginx = stack.enter_context(in_front(tmp_path, gateway.port, rides.port, strict=False))
        tried = tries(nginx, [*spellings(3_000), *DOTTED])
    figures(f"{server}: {tried.count} spellings, {tried.served} served, {len(tried.wrong)} charged elsewhere")
    assert tried.wrong == []
    assert tried.served > tried.count / 10


@pytest.fixture
def bounded(store: redis.Redis, valkey_url: str, tmp_path: Path) -> Iterator[Client]:
    """nginx in front of a gateway that accepts short heads only, as the one that ships, and believes X-Tenant."""
    limiter = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)
    gateway = Gateway(limiter, replace(LOOPBACK, tenant_header="x-tenant"))
    with ExitStack() as stack:
        asked = stack.enter_context(served(gateway, BoundedProtocol))
        rides = stack.enter_context(served(fastapi_app()))
        yield stack.enter_context(in_front(tmp_path, asked.port, rides.port))


@pytest.mark.parametrize(
    "fields",
    [{"cookie": "c" * 7_000, "x_one": "1" * 7_000, "x_two": "2" * 7_000}, {f"x_{n}": "x" for n in range(200)}],
    ids=["20 KB", "200 fields"],
)
def test_long_heads_are_decided_like_short_ones(bounded: Client, fields: dict[str, str]) -> None:
    answers = [bounded.get("/v1/rides", x_api_key=ACME, **fields) for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert answers[0].headers["served-by"] == "rides:list"


def test_a_head_that_is_too_long_for_the_gateway_is_said_so(bounded: Client) -> None:
    query, token = "q" * 8_000, "t" * 8_000
    answer = bounded.get(f"/v1/rides?{query}", authorization=f"Bearer {token}", x_api_key="k" * 1_000)
    assert (answer.status, answer.headers["content-type"]) == (431, "application/problem+json")
    assert (answer.json()["code"], answer.json()["status"]) == ("head-too-large", 431)
    assert "retry-after" not in answer.headers, "it would be too long again"


def test_a_client_cannot_name_its_tenant_to_the_gateway(bounded: Client) -> None:
    assert bounded.get("/v1/rides", x_tenant="zenith").status == 401


def test_a_request_that_the_gateway_cannot_read_is_refused(bounded: Client) -> None:
    answer = bounded.get("/v1/rides", x_api_key=ACME, x_forwarded_for="\x01")
    assert (answer.status, answer.json()["code"], answer.json()["status"]) == (400, "bad-request", 400)


def test_only_a_gateway_that_is_away_lets_requests_through(store: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    gateway = Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS), LOOPBACK)
    with ExitStack() as stack:
        asked = stack.enter_context(served(gateway, BoundedProtocol))
        rides = stack.enter_context(served_wsgi(flask_app()))
        nginx = stack.enter_context(in_front(tmp_path, asked.port, rides.port, fails_open=True))
        assert nginx.get("/v1/rides", x_api_key=ACME, x_forwarded_for="\x01").status == 400
        assert nginx.get(f"/v1/rides?{'q' * 8_000}", authorization="t" * 8_000, x_api_key="k" * 1_000).status == 431
        assert nginx.get("/v1/rides").status == 401


def test_without_a_gateway_no_client_names_its_own_tenant(tmp_path: Path) -> None:
    with served(told) as app, in_front(tmp_path, free_port(), app.port, fails_open=True) as nginx:
        answer = nginx.get("/", x_headroom_tenant="zenith", x_headroom_key="b" * 16)
    assert (answer.status, [name for name in answer.headers if name.startswith("x-headroom")]) == (200, [])


def test_a_gateway_that_is_away_is_said_so(tmp_path: Path) -> None:
    with served(fastapi_app()) as rides, in_front(tmp_path, free_port(), rides.port) as nginx:
        answer = nginx.get("/v1/rides", x_api_key=ACME)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["code"] == "temporary-reduced-capacity"
