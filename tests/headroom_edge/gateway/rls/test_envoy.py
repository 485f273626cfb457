"""A real Envoy with deploy/envoy/envoy.yaml, asking the rate limit service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from headroom_edge import AsyncLimiter
from tests.headroom_edge.apps import fastapi_app
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.gateway.rls.asking import serving
from tests.headroom_edge.gateway.rls.envoys import PATIENT, REFUSALS, in_front, needs_envoy
from tests.headroom_edge.gateway.test_nginx import tries
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.spellings import DOTTED, endpoints, spellings
from tests.headroom_edge.world import ACME, MACHINE, STRANGER, Client, publish_world, served

pytestmark = needs_envoy


@pytest.fixture(scope="module")
def running(valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    redis.Redis.from_url(valkey_url).flushall()
    with ExitStack() as stack:
        rls = stack.enter_context(serving(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)))
        rides = stack.enter_context(served(fastapi_app()))
        folder = tmp_path_factory.mktemp("envoy")
        yield stack.enter_context(in_front(folder, {8002: rls.port, 9000: rides.port}, changes=PATIENT))


@pytest.fixture
def envoy(store: redis.Redis, running: Client) -> Client:
    """Everybody has 5 an hour."""
    return running


def test_it_lets_through_what_the_limit_allows_and_answers_429_after(envoy: Client) -> None:
    answers = [envoy.get("/v1/rides", x_api_key=ACME) for _ in range(7)]
    assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
    assert answers[0].headers["served-by"] == "rides:list"
    assert answers[0].headers["ratelimit-policy"] == '"hourly";q=5;w=3600'
    assert answers[0].headers["ratelimit"].startswith('"hourly";r=4;t=')
    denied = answers[-1]
    assert denied.headers["content-type"] == "application/problem+json"
    assert denied.headers["ratelimit"].startswith('"hourly";r=0;t=')
    assert 0 < int(denied.headers["retry-after"]) <= 3_600
    assert (denied.json()["violated-policies"], denied.json()["status"]) == (["hourly"], 429)


@pytest.mark.parametrize("forged", [{}, {"x_tenant": "acme"}, {"X_Tenant": "acme"}, {"x_api_key": ""}])
def test_without_a_tenant_it_is_the_unknown_tenant(envoy: Client, forged: dict[str, str]) -> None:
    answer = envoy.get("/v1/rides", **forged)
    assert (answer.status, answer.json()["code"]) == (429, "unknown-tenant")


def test_a_bad_key_is_refused(envoy: Client) -> None:
    answer = envoy.get("/v1/rides", x_api_key=STRANGER)
    assert (answer.status, answer.json()["code"], answer.headers["www-authenticate"]) == (
        429,
        "unauthorized",
        "Bearer",
    )


def test_clients_are_told_apart_by_their_own_address_alone(store: redis.Redis, envoy: Client) -> None:
    publish_world(store, limit("each", "fixed_window", "ip", limit=1, window="1h"))
    sources = ["127.0.0.5", "127.0.0.6", "127.0.0.5", "127.0.0.6"]
    clients = [Client(envoy.port, source=source) for source in sources]
    answers = [one.get("/v1/rides", x_api_key=ACME, x_forwarded_for=f"9.9.9.{n}") for n, one in enumerate(clients)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]


def test_a_value_that_cannot_be_read_is_refused_with_a_sentence(envoy: Client) -> None:
    answers = [envoy.get("/v1/rides", x_api_key="\xff"), envoy.get("/v1/rides/" + "x" * 8_192, x_api_key=ACME)]
    assert [answer.status for answer in answers] == [429, 429]
    assert [answer.json()["field"] for answer in answers] == ["api_key", "path"]


def test_long_fields_and_queries_are_decided_like_short_ones(envoy: Client) -> None:
    answers = [envoy.get(f"/v1/rides?{'q' * 40_000}", x_api_key=ACME, cookie="c" * 15_000) for _ in range(6)]
    assert [answer.status for answer in answers[-2:]] == [200, 429]


def test_a_path_that_servers_read_differently_is_refused(envoy: Client) -> None:
    bad = ["/v1/rides#x", "/v1/rides%2F7", "/v1/rides%5c7", "/v1/rides/status%0A", "/v1/rides/%1F?x", "/v1/rides/7%7f"]
    assert [envoy.get(path, x_api_key=ACME).status for path in bad] == [400] * len(bad)


@contextmanager
def permissive(valkey_url: str, folder: Path) -> Iterator[Client]:
    """An Envoy that refuses nothing itself."""
    with ExitStack() as stack:
        rls = stack.enter_context(serving(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)))
        rides = stack.enter_context(served(fastapi_app()))
        ports = {8002: rls.port, 9000: rides.port}
        yield stack.enter_context(in_front(folder, ports, changes={**PATIENT, **REFUSALS}))


def test_whatever_the_spelling_what_serves_is_what_is_charged(
    store: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    publish_world(store, endpoints=endpoints())
    with permissive(valkey_url, tmp_path) as envoy:
        tried = tries(envoy, spellings(60))
    assert tried.wrong == []
    assert tried.seen == {"", "rides:list", "rides:create", "rides:get", "rides:status", "rides:cancel"}


@pytest.mark.faults_long
def test_no_spelling_escapes_behind_envoy(
    store: redis.Redis, valkey_url: str, tmp_path: Path, figures: Callable[[str], None]
) -> None:
    """A6 with 3,000 spellings, through an Envoy that refuses nothing itself."""
    publish_world(store, endpoints=endpoints())
    with permissive(valkey_url, tmp_path) as envoy:
        tried = tries(envoy, [*spellings(3_000), *DOTTED])
    figures(f"{tried.count} spellings, {tried.served} served, {len(tried.wrong)} charged elsewhere")
    assert tried.wrong == []
    assert tried.served > tried.count / 10


METADATA = "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:{name})%"
SHOWN = ", ".join(
    f'{{ header: {{ key: x-{name}, value: "{METADATA.format(name=name)}" }} }}'
    for name in ("tenant", "limit", "reason", "revision")
)
# After these changes of the file, Envoy tells what it has read in each field of a response …
TELLS = {
    "domain: headroom\n": "domain: headroom\n              enable_x_ratelimit_headers: DRAFT_VERSION_03\n",
    'match: { prefix: "/" }\n': f'match: {{ prefix: "/" }}\n                response_headers_to_add: [{SHOWN}]\n',
}
# … and sends a number of hits with each descriptor, or with the request.
HITS_OF_DESCRIPTORS = {
    "              - actions:\n": """\
              - hits_addend: { format: "%REQ(x-hits)%" }
                actions:
"""
}
HITS_OF_REQUESTS = {
    "          - name: envoy.filters.http.ratelimit\n": """\
          - name: envoy.filters.http.set_filter_state
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config
              on_request_headers:
              - object_key: envoy.ratelimit.hits_addend
                format_string: { text_format_source: { inline_string: "%REQ(x-hits)%" } }
          - name: envoy.filters.http.ratelimit
"""
}


@pytest.mark.parametrize(
    ("changes", "remaining"),
    [(HITS_OF_DESCRIPTORS, [80, 79, 79]), (HITS_OF_REQUESTS, [80, 79, 78])],
    ids=["hits of descriptors", "hits of requests"],
)
def test_envoy_reads_each_field_as_it_was_meant(
    store: redis.Redis, valkey_url: str, tmp_path: Path, changes: dict[str, str], remaining: list[int]
) -> None:
    """Field numbers are Envoy's: a wrong one would be read as something else, or not at all."""
    publish_world(store, limit("daily", "fixed_window", limit=100, window="1d", unit="cost"))
    with ExitStack() as stack:
        rls = stack.enter_context(serving(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)))
        rides = stack.enter_context(served(fastapi_app()))
        ports = {8002: rls.port, 9000: rides.port}
        envoy = stack.enter_context(in_front(tmp_path, ports, changes={**PATIENT, **TELLS, **changes}))
        answers = [envoy.get("/v1/rides", x_api_key=ACME, x_hits=hits) for hits in ("20", "0", "0")]
    fields = answers[0].headers
    assert [fields[f"x-{name}"] for name in ("tenant", "limit", "reason", "revision")] == ["acme", "daily", "ok", "1"]
    assert fields["x-ratelimit-limit"] == '100, 100;w=86400;name="daily"'
    assert 0 <= int(fields["x-ratelimit-reset"]) <= 86_400
    # Only a descriptor's own 0 is a peek, which tells what would be left. The request's means that nothing was set.
    assert [int(answer.headers["x-ratelimit-remaining"]) for answer in answers] == remaining


def test_the_tenant_is_the_one_that_a_filter_set_and_not_the_clients(
    store: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    remove = "                - remove: x-tenant\n"
    set_it = "                - append: { header: { key: x-tenant, value: acme } }\n"
    with ExitStack() as stack:
        rls = stack.enter_context(serving(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)))
        rides = stack.enter_context(served(fastapi_app()))
        ports, changes = {8002: rls.port, 9000: rides.port}, {**PATIENT, remove: remove + set_it}
        envoy = stack.enter_context(in_front(tmp_path, ports, changes=changes))
        answers = [envoy.get("/v1/rides", x_tenant=name) for name in ("zenith", "acme", "bankrupt")]
    assert [answer.headers["ratelimit"].partition(";t=")[0] for answer in answers] == [
        f'"hourly";r={left}' for left in (4, 3, 2)
    ]


def test_envoy_can_send_a_token_with_each_call(store: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    service = "grpc_service: { envoy_grpc: { cluster_name: headroom }"
    metadata = f'initial_metadata: [{{ key: authorization, value: "Bearer {MACHINE}" }}]'
    with ExitStack() as stack:
        limiter = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)
        rls, rides = stack.enter_context(serving(limiter, tokens=True)), stack.enter_context(served(fastapi_app()))
        ports, changes = {8002: rls.port, 9000: rides.port}, {**PATIENT, service: f"{service}, {metadata}"}
        envoy = stack.enter_context(in_front(tmp_path, ports, changes=changes))
        assert envoy.get("/v1/rides", x_api_key=ACME).status == 200
