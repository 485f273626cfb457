"""A real nginx that asks Redis itself, in front of a small application."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from headroom_edge import keys
from headroom_edge.directory import Credential
from tests.headroom_edge.adaptive import BACKEND, Learned, learned
from tests.headroom_edge.apps import fastapi_app
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.nginx_lua.world import AMPLE, ASKED, lua_nginx, needs_lua
from tests.headroom_edge.world import (
    ACME,
    BANKRUPT,
    MACHINE,
    OURS,
    READER,
    STRANGER,
    ZENITH,
    Client,
    digest_of,
    publish_world,
    revoke,
    served,
    wait_until_free,
)

pytestmark = needs_lua
HOLD = "1h"


@pytest.fixture(scope="module")
def rides() -> Iterator[Client]:
    with served(fastapi_app()) as client:
        yield client


@pytest.fixture
def nginx(store: redis.Redis, valkey_url: str, rides: Client, tmp_path: Path) -> Iterator[Client]:
    settings = f'{AMPLE} dimensions = {{ "user", "ip" }}, limits_url = "https://limits/{{tenant}}",'
    http = "map $remote_addr $headroom_dim_ip { default $remote_addr; }"
    with lua_nginx(tmp_path, valkey_url, rides.port, settings=settings, http=http, locations=ASKED) as running:
        yield running.client


def test_it_lets_through_what_the_limit_allows_and_answers_429_after(nginx: Client) -> None:
    answers = [nginx.get("/v1/rides", authorization=f"bearer {ACME}") for _ in range(7)]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
    assert answers[0].headers["served-by"] == "rides:list"
    assert answers[0].headers["ratelimit-policy"] == '"hourly";q=5;w=3600'
    assert answers[0].headers["ratelimit"].startswith('"hourly";r=4;t=')
    denied = answers[-1]
    assert (denied.headers["content-type"], denied.headers["cache-control"]) == ("application/problem+json", "no-store")
    assert 0 < int(denied.headers["retry-after"]) <= 3_600
    problem = json.loads(denied.body)
    assert (problem["violated-policies"], problem["subject"], problem["status"]) == (["hourly"], "tenant", 429)
    assert problem["limits-url"] == "https://limits/acme"


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({}, 401, "unauthorized"),
        ({"x_api_key": STRANGER}, 401, "unauthorized"),
        ({"x_api_key": ACME[:-1]}, 401, "unauthorized"),
        ({"x_api_key": f"hr_{'b' * 16}_{'1' * 64}"}, 401, "unauthorized"),  # acme's secret under zenith's id
        ({"x_api_key": "somebody-elses"}, 401, "unauthorized"),
        ({"x_api_key": READER}, 403, "scope-missing"),
        ({"x_api_key": MACHINE}, 403, "tenant-missing"),
        ({"x_api_key": OURS}, 403, "own-tenant"),
        ({"x_api_key": BANKRUPT}, 403, "tenant-suspended"),
    ],
)
def test_who_may_not_call_is_refused(nginx: Client, fields: dict[str, str], status: int, code: str) -> None:
    answer = nginx.get("/v1/rides", **fields)
    assert (answer.status, answer.json()["code"]) == (status, code)
    assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)


def test_a_missing_or_impossible_tenant_is_no_free_pass(nginx: Client) -> None:
    tried = ["", "nobody", "Acme", "x" * 64, "a\x01b", "headroom"]
    answers = [nginx.get("/ask", x_tenant=tenant) for tenant in tried]
    assert [answer.status for answer in answers] == [401] + [403] * 5
    assert nginx.get("/ask", x_tenant="acme").body == b"served"


def test_without_keys_a_missing_tenant_is_the_unknown_tenant(
    store: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    with lua_nginx(tmp_path, valkey_url, settings=f"{AMPLE} keys = false,", locations=ASKED) as running:
        answers = [running.client.get("/ask", x_api_key=ACME), running.client.get("/ask", x_tenant="acme")]
    assert [answer.status for answer in answers] == [403, 200]
    assert answers[0].json()["code"] == "unknown-tenant"


def test_a_revoked_key_is_refused_and_an_ended_one_too(store: redis.Redis, nginx: Client) -> None:
    assert nginx.get("/v1/rides", x_api_key=ACME).status == 200
    revoke(store, ACME)
    until(lambda: nginx.get("/v1/rides", x_api_key=ACME).status == 401)
    digest = digest_of(ZENITH)
    ended = Credential("b" * 16, "zenith", frozenset({"check"}), ends_ms=1)
    store.hset(keys.credentials(keys.shard_of(digest)), digest, str(ended))
    until(lambda: nginx.get("/v1/rides", x_api_key=ZENITH).status == 401)


def test_a_rotated_key_is_counted_as_the_first_of_its_line(store: redis.Redis, nginx: Client) -> None:
    publish_world(store, limit("each", "fixed_window", "key", limit=1, window="1h"))
    digest = digest_of(ZENITH)
    heir = Credential("b" * 16, "acme", frozenset({"check"}), counted_as="a" * 16)
    store.hset(keys.credentials(keys.shard_of(digest)), digest, str(heir))
    assert [nginx.get("/v1/rides", x_api_key=key).status for key in (ACME, ZENITH)] == [200, 429]
    until(lambda: len(store.hgetall(keys.key_uses())) == 2)


def test_another_pepper_is_noticed(store: redis.Redis, nginx: Client) -> None:
    assert nginx.get("/v1/rides", x_api_key=ACME).status == 200
    store.hset(keys.directory(), "pepper", "00" * 32)
    until(lambda: nginx.get("/v1/rides", x_api_key=ACME).status == 401)


@pytest.mark.parametrize(
    "path", ["/v1/rides/7", "//v1/rides/7", "/v1/%72ides/7", "/v1/rides/7?x=%2e%2e", "/v1//rides/%37"]
)
def test_the_endpoint_of_the_location_that_serves_is_charged(store: redis.Redis, nginx: Client, path: str) -> None:
    few = limit("few", "fixed_window", limit=2, window="1h")
    publish_world(store, endpoints={"rides:get": (few,)})
    assert [nginx.get(path, x_api_key=ACME).status for _ in range(4)][2:] == [429, 429]
    assert nginx.get("/v1/rides", x_api_key=ACME).status == 200


def test_clients_are_told_apart_by_their_own_address_alone(store: redis.Redis, nginx: Client) -> None:
    publish_world(store, limit("each", "fixed_window", "ip", limit=1, window="1h"))
    sources = ["127.0.0.5", "127.0.0.6", "127.0.0.5", "127.0.0.6"]
    clients = [Client(nginx.port, source=source) for source in sources]
    answers = [one.get("/v1/rides", x_api_key=ACME, x_forwarded_for=f"9.9.9.{n}") for n, one in enumerate(clients)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]


def test_dimensions_of_the_configuration_are_counted(store: redis.Redis, nginx: Client) -> None:
    publish_world(store, limit("each", "fixed_window", "user", limit=1, window="1h"))
    users = ["ann", "ben", "ann", "x" * 1_024 + "1", "x" * 1_024 + "2", ""]
    statuses = [nginx.get("/ask", x_tenant="acme", x_user=user).status for user in users]
    assert statuses == [200, 200, 429, 200, 429, 200]


@pytest.mark.parametrize("cost", ["0", "-1", "1.5", "nan", "inf", "0x10", "1e3", "1000000001", " 1 x", "é"])
def test_a_cost_that_is_none_is_refused_and_charges_nothing(nginx: Client, cost: str) -> None:
    answer = nginx.get("/ask", x_tenant="acme", x_cost=cost)
    assert (answer.status, answer.json()["code"], answer.json()["field"]) == (400, "invalid-field", "cost")
    assert nginx.get("/ask", x_tenant="acme", x_cost="1").headers["ratelimit"].startswith('"hourly";r=4;')


async def told(scope: Any, receive: Any, send: Any) -> None:
    """A service that answers with what it is told about its caller."""
    fields = [(name, value) for name, value in scope["headers"] if name.startswith(b"x-headroom")]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": b""})


def test_the_service_behind_is_told_who_calls(store: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    with served(told) as app, lua_nginx(tmp_path, valkey_url, app.port) as running:
        answer = running.client.get("/", x_api_key=ACME, x_headroom_tenant="zenith", x_headroom_key="z")
    assert (answer.headers["x-headroom-tenant"], answer.headers["x-headroom-key"]) == ("acme", "a" * 16)


def test_an_internal_redirect_is_charged_once(store: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    locations = """
        location = /site { try_files /missing /home; }
        location = /home { content_by_lua_block { ngx.print("home") } }
    """
    with lua_nginx(tmp_path, valkey_url, locations=locations) as running:
        answer = running.client.get("/site", x_api_key=ACME)
        again = running.client.get("/site", x_api_key=ACME)
    assert (answer.body, answer.headers["ratelimit"].split(";")[1]) == (b"home", "r=4")
    assert again.headers["ratelimit"].split(";")[1] == "r=3"


def test_a_slot_is_released_when_the_request_ends(store: redis.Redis, nginx: Client) -> None:
    publish_world(store, limit("slots", "concurrency", limit=1, hold=HOLD))
    for _ in range(3):
        answer = nginx.get("/v1/rides", x_api_key=ACME)
        assert (answer.status, answer.headers["ratelimit"]) == (200, '"slots";r=0')
        wait_until_free(store)


def test_a_shaped_request_waits_for_its_turn(store: redis.Redis, nginx: Client) -> None:
    publish_world(store, limit("paced", "leaky_bucket", rate=20, per="1s", queue=100))
    answers = [nginx.get("/v1/rides", x_api_key=ACME) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3


def test_who_would_wait_too_long_is_refused_and_refunded(store: redis.Redis, nginx: Client) -> None:
    publish_world(store, limit("paced", "leaky_bucket", rate=1, per="1h", queue=100))
    first, second, third = (nginx.get("/v1/rides", x_api_key=ACME) for _ in range(3))
    assert (first.status, second.status, second.json()["reason"]) == (200, 429, "too_late")
    assert int(second.headers["retry-after"]) in range(3_500, 3_601)
    second_place, third_place = (re.sub(r";t=\d+", "", one.headers["ratelimit"]) for one in (second, third))
    assert second_place == third_place, "the place in the queue was given back"


def test_every_worker_is_listed_as_an_enforcer_until_it_ends(
    store: redis.Redis, valkey_url: str, rides: Client, tmp_path: Path
) -> None:
    with lua_nginx(tmp_path, valkey_url, rides.port) as running:
        running.client.get("/v1/rides", x_api_key=ACME)
        until(lambda: store.hlen(keys.enforcer_info()) == 1)
        (about,) = (json.loads(text) for text in store.hgetall(keys.enforcer_info()).values())
        assert {"host", "pid", "version", "degraded"} <= about.keys()
    assert store.hlen(keys.enforcer_info()) == 0


def test_the_body_of_a_refused_request_is_not_read_as_the_next_one(nginx: Client) -> None:
    inside = b"GET /v1/rides HTTP/1.1\r\nHost: inside\r\nX-API-Key: " + ACME.encode() + b"\r\n\r\n"
    connection = http.client.HTTPConnection("127.0.0.1", nginx.port, 120)
    for refused in (inside, inside * 2_000):
        connection.request("POST", "/v1/rides", refused)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (401, "unauthorized")
    connection.request("GET", "/v1/rides", headers={"X-API-Key": ACME})
    answer = connection.getresponse()
    assert (answer.status, answer.read(), answer.headers["ratelimit"][:12]) == (200, b'{"rides":"all"}', '"hourly";r=4')
    connection.close()


def test_a_location_lowers_the_priority_of_its_requests(nginx: Client, store: redis.Redis) -> None:
    publish_world(store, limit("org", "pool", rate=1, per="1h", burst=8))
    asked = {"x_tenant": "acme", "x_endpoint": "rides:list"}
    statuses = [nginx.get("/ask", **asked, x_priority="sheddable").status for _ in range(6)]
    assert statuses == [200] * 4 + [429] * 2
    assert [nginx.get("/ask", **asked, x_priority=word).status for word in ("critical", "", "critical")] == [
        200,
        200,
        429,
    ]
    wrong = nginx.get("/ask", **asked, x_priority="urgent")
    assert (wrong.status, json.loads(wrong.body)["field"]) == (400, "priority")
    assert "'urgent'" in json.loads(wrong.body)["detail"]


def test_an_adaptive_limit_learns_from_the_answers(
    store: redis.Redis, valkey_url: str, rides: Client, tmp_path: Path
) -> None:
    publish_world(store, BACKEND)
    statuses = (200, 404, 429, 500, 503)
    answers = (f"location = /{status} {{ content_by_lua_block {{ ngx.exit({status}) }} }}" for status in statuses)
    with lua_nginx(tmp_path, valkey_url, rides.port, locations="\n".join(answers)) as running:
        for status in statuses:
            running.client.get(f"/{status}", x_api_key=ACME)
            wait_until_free(store)
    assert learned(store) == Learned(answers=2, drops=2)
