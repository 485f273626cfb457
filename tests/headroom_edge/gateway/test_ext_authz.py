"""A real Envoy with deploy/envoy/ext_authz.yaml, asking the gateway's /v1/authz."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.headroom_edge.apps import fastapi_app
from tests.headroom_edge.gateway.rls.envoys import REFUSALS, in_front, needs_envoy
from tests.headroom_edge.gateway.test_nginx import told, tries
from tests.headroom_edge.gateway.test_serving import alone
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.spellings import endpoints, spellings
from tests.headroom_edge.world import ACME, BANKRUPT, STRANGER, Client, publish_world, served
from tests.valkeys import free_port

pytestmark = needs_envoy

FILE = "ext_authz.yaml"
PATIENT = {"timeout: 1.5s": "timeout: 60s"}


@contextmanager
def asking(folder: Path, gateway: int, app: Any, **changes: str) -> Iterator[Client]:
    """Envoy in front of `app`; `changes` are those of the file."""
    with ExitStack() as stack:
        behind = stack.enter_context(served(app))
        ports = {8001: gateway, 9000: behind.port}
        yield stack.enter_context(in_front(folder, ports, file=FILE, changes={**PATIENT, **changes}))


@pytest.fixture
def envoy(gateway: Client, tmp_path: Path) -> Iterator[Client]:
    """In front of the rides; it asks `gateway`."""
    with asking(tmp_path, gateway.port, fastapi_app()) as client:
        yield client


def test_it_lets_through_what_the_limit_allows_and_answers_429_after(envoy: Client) -> None:
    answers = [envoy.get("/v1/rides?proxy=nginx&path=/x", authorization=f"Bearer {ACME}") for _ in range(7)]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
    assert answers[0].headers["served-by"] == "rides:list"
    assert answers[0].headers["ratelimit-policy"] == '"hourly";q=5;w=3600'
    assert answers[0].headers["ratelimit"].startswith('"hourly";r=4;t=')
    denied = answers[-1]
    assert denied.headers["content-type"] == "application/problem+json"
    assert denied.headers["ratelimit"].startswith('"hourly";r=0;t=')
    assert 0 < int(denied.headers["retry-after"]) <= 3_600
    assert (denied.json()["violated-policies"], denied.json()["status"]) == (["hourly"], 429)


def test_who_may_not_call_gets_the_status_that_says_so(envoy: Client) -> None:
    for answer in (envoy.get("/v1/rides"), envoy.get("/v1/rides", x_api_key=STRANGER)):
        assert (answer.status, answer.json()["code"], answer.headers["www-authenticate"]) == (
            401,
            "unauthorized",
            "Bearer",
        )
    assert envoy.get("/v1/rides", x_api_key=BANKRUPT).json()["code"] == "tenant-suspended"


def test_bodies_reach_the_application_and_not_the_gateway(envoy: Client) -> None:
    answer = envoy.post("/v1/rides", {"from": "here", "notes": "x" * 10_000}, x_api_key=ACME)
    assert (answer.status, answer.json()) == (200, {"ride": "new"})


def test_clients_are_told_apart_by_their_own_address_alone(store: redis.Redis, envoy: Client) -> None:
    publish_world(store, limit("each", "fixed_window", "ip", limit=1, window="1h"))
    sources = ["127.0.0.5", "127.0.0.6", "127.0.0.5", "127.0.0.6"]
    clients = [Client(envoy.port, source=source) for source in sources]
    answers = [one.get("/v1/rides", x_api_key=ACME, x_forwarded_for=f"9.9.9.{n}") for n, one in enumerate(clients)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]


def test_the_service_behind_is_told_who_calls_and_no_client_can_say_so(gateway: Client, tmp_path: Path) -> None:
    with asking(tmp_path, gateway.port, told) as envoy:
        answer = envoy.get("/", x_api_key=ACME, x_headroom_tenant="zenith", x_headroom_key="b" * 16)
    assert (answer.headers["x-headroom-tenant"], answer.headers["x-headroom-key"]) == ("acme", "a" * 16)


def test_whatever_the_spelling_what_serves_is_what_is_charged(
    store: redis.Redis, gateway: Client, tmp_path: Path
) -> None:
    publish_world(store, endpoints=endpoints())
    with asking(tmp_path, gateway.port, fastapi_app(), **REFUSALS) as envoy:
        tried = tries(envoy, spellings(60))
    assert tried.wrong == []
    assert tried.seen == {"", "rides:list", "rides:create", "rides:get", "rides:status", "rides:cancel"}


def test_the_gateway_as_it_ships_understands_every_method(store: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(store, limit("many", "fixed_window", limit=100, window="1h"))
    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    with ExitStack() as stack:
        gateway = stack.enter_context(alone(REDIS_URL=valkey_url, HEADROOM_TRUSTED_PROXIES="127.0.0.1"))
        envoy = stack.enter_context(asking(tmp_path, gateway.port, fastapi_app()))
        answers = [envoy.send(method, f"/nowhere?{'q' * 9_000}", b"", x_api_key=ACME) for method in methods]
    assert [answer.status for answer in answers] == [404] * len(methods)
    assert [answer.headers["ratelimit"].partition(";t=")[0] for answer in answers] == [
        f'"many";r={left}' for left in range(99, 92, -1)
    ]


def test_without_the_gateway_requests_are_refused_as_the_file_says(tmp_path: Path) -> None:
    with asking(tmp_path, free_port(), fastapi_app()) as envoy:
        assert envoy.get("/v1/rides", x_api_key=ACME).status == 503
