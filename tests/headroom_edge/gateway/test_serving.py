"""The gateway as a process: alone, beside Django, and while the store or a key goes away."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from config.data_folders import ROOT
from headroom_edge import AsyncLimiter
from headroom_edge.asgi import QuotaMiddleware
from headroom_edge.directory import Directory
from headroom_edge.gateway.bounds import BoundedProtocol
from headroom_edge.gateway.protocol import CheckProtocol
from headroom_edge.gateway.server import Gateway, mounted
from headroom_edge.request_guard import GuardRules
from quotas.api_keys import api_key_issue, api_key_revoke
from quotas.publishing.store import connect
from quotas.tokens import token_issue
from tests.headroom_edge.apps import fastapi_app
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, HOURLY, MACHINE, Client, publish_world, served
from tests.processes import wait_for
from tests.quotas.publishing.conftest import Run, run
from tests.quotas.publishing.worlds import SAID, publisher_for, wait_until, world_create
from tests.valkeys import SpareValkey, free_port

__all__ = ["run"]

LIST = {"tenant": "acme", "endpoint": "rides:list"}


@contextmanager
def alone(**variables: str) -> Iterator[Client]:
    """`python -m headroom_edge.gateway` with these variables."""
    port = free_port()
    environment = {"PATH": os.environ["PATH"], "HEADROOM_BUDGET_MS": str(AMPLE_MS), **variables}
    command = [sys.executable, "-m", "headroom_edge.gateway", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, cwd=ROOT)
    try:
        wait_for(port, process)
        yield Client(port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def test_alone_it_needs_nothing_but_the_store(store: redis.Redis, valkey_url: str) -> None:
    with alone(REDIS_URL=valkey_url, HEADROOM_ANONYMOUS_TENANT="visitors", HEADROOM_HEADERS="x-ratelimit") as gateway:
        decision = gateway.post("/v1/check", LIST, authorization=f"Bearer {MACHINE}").json()
        assert (decision["remaining"], decision["headers"]["X-RateLimit-Remaining"]) == (4, "4")
        asked = gateway.get("/v1/authz", x_original_method="GET", x_original_uri="/v1/rides")
        assert (asked.status, asked.headers["x-headroom-tenant"]) == (200, "visitors")


def test_alone_it_loads_neither_django_nor_the_database() -> None:
    code = (
        "import sys, headroom_edge.gateway.__main__ as m;"
        " print(sorted({'django', 'psycopg', 'celery'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_wrong_variable_stops_the_start_with_one_sentence() -> None:
    environment = {"PATH": os.environ["PATH"], "HEADROOM_TRUSTED_PROXIES": "everybody"}
    done = subprocess.run(
        [sys.executable, "-m", "headroom_edge.gateway"], env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("headroom: HEADROOM_TRUSTED_PROXIES: trusted proxy 'everybody' is not an address")
    assert done.stderr.count("\n") == 1


@pytest.mark.django_db
def test_beside_django_it_serves_its_own_paths_alone(
    store: redis.Redis, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The module sets it for the web process; what other tests start must not inherit it.
    monkeypatch.setenv("HEADROOM_DB_POOL", "0")
    from config import asgi

    monkeypatch.setattr(asgi.gateway, "limiter", AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS))
    with served(asgi.application) as web:
        decision = web.post("/v1/check", LIST, authorization=f"Bearer {MACHINE}")
        assert (decision.status, decision.json()["endpoint"]) == (200, "rides:list")
        assert web.get("/v1/authz", x_api_key=ACME).json()["code"] == "original-request-missing"
        assert "text/html" in web.get("/admin/login/").headers["content-type"]


def dialled(store: redis.Redis) -> int:
    return int(store.info("stats")["total_connections_received"])


def asked(store: redis.Redis) -> int:
    return int(store.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"])


async def no_lifespan(scope: Any, receive: Any, send: Any) -> None:
    raise ValueError("as Django says")


@pytest.mark.parametrize("inside", ["server", "alone", "mounted", "middleware"])
def test_the_first_request_finds_a_connection_and_the_routes(
    store: redis.Redis, valkey_url: str, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else both would have to fit into the budget of one check, which a machine under load exceeds."""
    for module in ("asgi", "gateway.server"):
        monkeypatch.setattr(f"headroom_edge.{module}.READY_MS", AMPLE_MS)
    limiter = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS, heartbeat_s=3_600)
    judge = QuotaMiddleware(fastapi_app(), limiter=limiter) if inside == "middleware" else Gateway(limiter)
    judge.guard.directory = Directory(lambda: 0.0)  # in a moment that does not end nothing is looked up twice
    app = mounted(no_lifespan, judge) if isinstance(judge, Gateway) and inside == "mounted" else judge
    with served(app, CheckProtocol if inside == "server" else "httptools") as gateway:
        connections, questions = dialled(store), asked(store)
        answer = gateway.post("/v1/check", LIST, authorization=f"Bearer {ACME}")
        assert answer.status == (404 if inside == "middleware" else 200)
        assert (dialled(store) - connections, asked(store) - questions) == (0, 1)


@pytest.mark.parametrize("protocol", [CheckProtocol, BoundedProtocol])
def test_limits_follow_their_failure_mode_while_the_store_is_away(
    spare_valkey: Callable[..., SpareValkey], protocol: type[BoundedProtocol]
) -> None:
    server = spare_valkey()
    closed = limit("strict", "fixed_window", limit=100, window="1h", on_failure="closed")
    with server.client() as client:
        publish_world(client, HOURLY, endpoints={"rides:get": (closed,)})
    limiter = AsyncLimiter.from_url(server.url, budget_ms=AMPLE_MS)
    with served(Gateway(limiter), protocol) as gateway:
        checks = {"checks": [LIST, {**LIST, "endpoint": "rides:get"}]}
        before = gateway.post("/v1/check", checks, authorization=f"Bearer {MACHINE}").json()["decisions"]
        assert [decision["allowed"] for decision in before] == [True, True]
        server.kill()
        let, refused = gateway.post("/v1/check", checks, authorization=f"Bearer {MACHINE}").json()["decisions"]
        assert (let["allowed"], let["degraded"]) == (True, "open")
        assert (refused["allowed"], refused["status"], refused["degraded"]) == (False, 503, "closed")
        assert refused["problem"]["code"] == "temporary-reduced-capacity"
        assert refused["headers"] == {"Headroom-Degraded": "closed", "Retry-After": "1"}


def test_a_websocket_is_judged_like_any_request(store: redis.Redis, valkey_url: str) -> None:
    publish_world(store, limit("few", "fixed_window", limit=1, window="1h"))
    sent: list[Any] = []

    async def accept(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    async def connect() -> None:
        limiter = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)
        app = QuotaMiddleware(accept, limiter=limiter, rules=GuardRules(anonymous="visitors"))

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": "/live", "headers": [], "client": ("203.0.113.9", 4711)}
        for _ in range(2):
            await app(scope, asyncio.Future, send)
        await limiter.close()

    asyncio.run(connect())
    assert sent == [{"type": "websocket.accept"}, {"type": "websocket.close", "code": 1013}]


def test_a_revoked_key_stops(run: Run, valkey: redis.Redis, valkey_url: str) -> None:
    """A9, all the way: a service function, the publisher as a process, and a gateway under steady questions."""
    revocations(run, valkey_url, 1)


@pytest.mark.faults_long
def test_a_revoked_key_stops_within_a_second(
    run: Run, valkey: redis.Redis, valkey_url: str, figures: Callable[[str], None]
) -> None:
    took = revocations(run, valkey_url, 3)
    figures(f"revoked key refused after {', '.join(f'{seconds:.2f} s' for seconds in sorted(took))}")
    assert min(took) <= 1.0


def revocations(run: Run, valkey_url: str, count: int) -> list[float]:
    world_create()
    run("serve")
    with served(Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)), CheckProtocol) as gateway:
        return [revocation_s(gateway) for _ in range(count)]


@pytest.mark.django_db
def test_a_token_without_the_scope_is_told_what_it_lacks(
    valkey: redis.Redis, valkey_server: SpareValkey, valkey_url: str
) -> None:
    world_create()
    issued = token_issue(label="a pipeline", role="viewer", scopes=["read"], **SAID)
    with connect(valkey_server.url) as client:
        publisher_for(client).publish()
    with served(Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS))) as gateway:
        answer = gateway.post("/v1/check", LIST, authorization=f"Bearer {issued.text}")
    assert (answer.status, answer.json()["code"]) == (403, "scope-missing")
    assert "lacks the scope check" in answer.json()["detail"]


def revocation_s(gateway: Client) -> float:
    issued = api_key_issue(tenant="acme", **SAID)

    def status() -> int:
        return gateway.post("/v1/check", {"endpoint": "x:y"}, authorization=f"Bearer {issued.text}").status

    wait_until(lambda: status() == 200, "the new key")
    api_key_revoke(key_id=issued.row.key_id, **SAID)
    return wait_until(lambda: status() == 401, "the revoked key")
