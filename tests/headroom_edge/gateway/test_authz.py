from __future__ import annotations

import json

import pytest
import redis

from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import (
    ACME,
    BANKRUPT,
    HOURLY,
    MACHINE,
    OURS,
    READER,
    STRANGER,
    Answer,
    Client,
    publish_world,
)

ON_BOTH = True


def ask_nginx(gateway: Client, key: str = ACME, path: str = "/v1/rides", method: str = "GET", **fields: str) -> Answer:
    return gateway.get("/v1/authz", x_original_method=method, x_original_uri=path, x_api_key=key, **fields)


def ask(gateway: Client, proxy: str, key: str = ACME, path: str = "/v1/rides", **fields: str) -> Answer:
    where = {"x_forwarded_method": "GET", "x_forwarded_uri": path}
    return gateway.get(f"/v1/authz?proxy={proxy}", x_api_key=key, **where, **fields)


def test_nginx_is_answered_with_what_it_understands(gateway: Client) -> None:
    answers = [ask_nginx(gateway) for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [403]
    assert answers[0].headers["x-headroom-tenant"] == "acme"
    assert answers[0].headers["x-headroom-key"] == "a" * 16
    assert answers[0].headers["ratelimit-policy"] == '"hourly";q=5;w=3600'
    denied = answers[-1]
    assert denied.headers["x-headroom-status"] == "429"
    assert int(denied.headers["retry-after"]) > 0
    assert json.loads(denied.headers["x-headroom-problem"])["violated-policies"] == ["hourly"]


@pytest.mark.parametrize("proxy", ["traefik", "caddy"])
def test_other_proxies_are_answered_with_the_truth(gateway: Client, proxy: str) -> None:
    answers = [ask(gateway, proxy) for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert answers[-1].json()["code"] == "quota-exceeded"
    assert answers[-1].headers["content-type"] == "application/problem+json"


def test_envoy_asks_with_the_clients_method_and_path(gateway: Client) -> None:
    path = "/v1/rides?proxy=nginx&path=/elsewhere"
    answers = [gateway.get(f"/v1/authz?proxy=envoy&path={path}", x_api_key=ACME) for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert answers[-1].json()["code"] == "quota-exceeded"
    missing = gateway.get("/v1/authz?proxy=envoy", x_api_key=ACME, x_original_method="GET", x_original_uri="/")
    assert (missing.status, missing.json()["code"]) == (400, "original-request-missing")


@pytest.mark.parametrize(
    ("key", "status", "told"),
    [
        ("", 401, "401"),
        (STRANGER, 401, "401"),
        (BANKRUPT, 403, "403"),
        (MACHINE, 403, "403"),
        (READER, 403, "403"),
        (OURS, 403, "403"),
    ],
)
def test_who_may_not_in_at_all(gateway: Client, key: str, status: int, told: str) -> None:
    answer = ask_nginx(gateway, key)
    assert (answer.status, answer.headers["x-headroom-status"]) == (status, told)
    assert ask(gateway, "traefik", key).status == status


def test_the_endpoint_is_that_of_the_original_request(store: redis.Redis, gateway: Client) -> None:
    publish_world(store, HOURLY, endpoints={"rides:cancel": (limit("few", "fixed_window", limit=1, window="1h"),)})
    paths = ["/v1/rides/7/cancel?now=1", "/v1//rides/8/%2e/cancel", "/V1/rides/9/cancel;x"]
    assert [ask_nginx(gateway, path=path, method="POST").status for path in paths] == [200, 403, 403]
    assert ask_nginx(gateway, path="/v1/rides/7/cancel").status == 200  # as GET it is no endpoint


def test_the_client_is_told_apart_by_the_proxy(store: redis.Redis, gateway: Client) -> None:
    publish_world(store, limit("each", "fixed_window", "ip", limit=1, window="1h"))
    hops = ["203.0.113.1", "9.9.9.9, 203.0.113.1", "203.0.113.2"]
    assert [ask_nginx(gateway, x_forwarded_for=hop).status for hop in hops] == [200, 403, 200]


def test_a_client_cannot_put_another_request_in_place_of_its_own(gateway: Client) -> None:
    """All fields of a request come along: only those that this proxy sets are read."""
    answer = ask(gateway, "traefik", path="/v1/rides/7", x_original_uri="/cheap", x_original_method="GET")
    assert answer.status == 200
    without = gateway.get("/v1/authz?proxy=traefik", x_original_uri="/cheap", x_original_method="GET", x_api_key=ACME)
    assert (without.status, without.json()["code"]) == (400, "original-request-missing")


def test_a_proxy_that_is_set_up_wrong_is_told_so(gateway: Client) -> None:
    missing = gateway.get("/v1/authz", x_api_key=ACME)
    assert (missing.status, missing.json()["field"]) == (400, "x-original-method and x-original-uri")
    unknown = gateway.get("/v1/authz?proxy=squid", x_api_key=ACME)
    assert (unknown.status, unknown.json()["code"]) == (400, "unknown-proxy")


def test_a_path_without_end_is_refused(gateway: Client) -> None:
    answer = ask_nginx(gateway, path="/v1/rides/" + "x" * 8_200)
    assert (answer.status, answer.headers["x-headroom-status"]) == (403, "414")
    assert ask_nginx(gateway, path="/v1/rides?" + "x" * 8_200).status == 200
