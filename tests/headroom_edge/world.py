"""Tenants, routes, keys and limits, published without a database; and real servers to put before them."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from socketserver import ThreadingMixIn
from typing import Any, Literal, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import redis
import uvicorn
from redis.cluster import RedisCluster

from headroom_edge import keys
from headroom_edge.directory import MARKER, PEPPER, ROUTES, TOKEN, Credential, encode_routes, secret_hash
from headroom_edge.plan.routes import Route
from quotas.policies.spec import EVERYWHERE, Configuration, Endpoint, Limit, Policy, Tenant, Tier
from tests.headroom_edge.limiter.world import limit, publish

PATIENCE_SECONDS = 120.0
PEPPER_BYTES = bytes(range(32))
# The text of each key: `hr_<id>_<secret>`.
ACME = f"hr_{'a' * 16}_{'1' * 64}"
ZENITH = f"hr_{'b' * 16}_{'2' * 64}"
BANKRUPT = f"hr_{'c' * 16}_{'3' * 64}"
READER = f"hr_{'d' * 16}_{'4' * 64}"  # acme's, without the scope to check
MACHINE = f"hr_{'e' * 16}_{'5' * 64}"  # of no tenant
STRANGER = f"hr_{'f' * 16}_{'6' * 64}"  # nobody's
OURS = f"hr_{'0' * 16}_{'7' * 64}"  # of the tenant that the installation itself is

CREDENTIALS = {
    ACME: Credential("a" * 16, "acme", frozenset({"check"})),
    ZENITH: Credential("b" * 16, "zenith", frozenset({"check"})),
    BANKRUPT: Credential("c" * 16, "bankrupt", frozenset({"check"})),
    READER: Credential("d" * 16, "acme", frozenset({"read"})),
    MACHINE: Credential("e" * 16, "", frozenset({"check"})),
    OURS: Credential("0" * 16, "headroom", frozenset({"check"})),
}
ROUTES_OF_RIDES = (
    Route("rides:list", "GET", "/v1/rides"),
    Route("rides:create", "POST", "/v1/rides"),
    Route("rides:get", "GET", "/v1/rides/{id}"),
    Route("rides:status", "GET", "/v1/rides/status"),
    Route("rides:cancel", "POST", "/v1/rides/{id}/cancel"),
    Route("files:any", "*", "/files/{name}"),
)
HOURLY = limit("hourly", "fixed_window", limit=5, window="1h")


def configuration(*limits: Limit, endpoints: Mapping[str, tuple[Limit, ...]] | None = None) -> Configuration:
    """`limits` hold everywhere, `endpoints` for one each; all for the tier of every tenant here."""
    policies = [Policy("everywhere", EVERYWHERE, limits, tier="pro")] if limits else []
    policies += [Policy(name.replace(":", "-"), name, own, tier="pro") for name, own in (endpoints or {}).items()]
    names = [one.name for policy in policies for one in policy.limits]
    tenants = [Tenant(1, "acme", "pro"), Tenant(2, "zenith", "pro"), Tenant(3, "bankrupt", "pro", suspended=True)]
    tenants += [Tenant(4, "visitors", "pro"), Tenant(5, "headroom", "pro")]
    return Configuration(
        revision=1,
        tiers={"pro": Tier(1, "pro")},
        endpoints={route.endpoint: Endpoint(n, route.endpoint) for n, route in enumerate(ROUTES_OF_RIDES, 1)},
        tenants={tenant.name: tenant for tenant in tenants},
        policies=tuple(policies),
        overrides=(),
        limit_numbers={name: number for number, name in enumerate(dict.fromkeys(names), 1)},
    )


def publish_world(
    store: redis.Redis | RedisCluster, *limits: Limit, endpoints: Mapping[str, tuple[Limit, ...]] | None = None
) -> None:
    publish(store, configuration(*limits, endpoints=endpoints))
    publish_directory(store)


def publish_directory(store: redis.Redis | RedisCluster, routes: tuple[Route, ...] = ROUTES_OF_RIDES) -> None:
    # A transaction cannot concern several servers.
    with cast("redis.Redis", store).pipeline(transaction=not isinstance(store, RedisCluster)) as pipe:
        for shard in range(keys.SHARDS):
            pipe.hset(keys.credentials(shard), MARKER, "1")
        for text, credential in CREDENTIALS.items():
            digest = digest_of(text)
            pipe.hset(keys.credentials(keys.shard_of(digest)), digest, str(credential))
        text = encode_routes(list(routes))
        pipe.hset(keys.directory(), mapping={TOKEN: str(hash(text)), PEPPER: PEPPER_BYTES.hex(), ROUTES: text})
        pipe.execute()


def revoke(store: redis.Redis, text: str) -> None:
    digest = digest_of(text)
    store.hdel(keys.credentials(keys.shard_of(digest)), digest)


def digest_of(text: str) -> str:
    return secret_hash(PEPPER_BYTES, text)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Sends paths and fields as they are: no library tidies them up."""

    port: int
    fields: dict[str, str] = field(default_factory=dict)
    source: str = "127.0.0.1"  # all of 127/8 is this machine

    def send(self, method: str, path: str, body: bytes | None = None, **fields: str) -> Answer:
        headers = {**self.fields, **{name.replace("_", "-"): value for name, value in fields.items()}}
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, PATIENCE_SECONDS, source_address=(self.source, 0)
        )
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("host", f"127.0.0.1:{self.port}")
            for name, value in {**headers, **({"content-length": str(len(body))} if body is not None else {})}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **fields: str) -> Answer:
        return self.send("GET", path, None, **fields)

    def post(self, path: str, body: Any, **fields: str) -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, raw, **fields)


@contextmanager
def served(app: Any, parser: Literal["httptools", "h11"] | type[asyncio.Protocol] = "httptools") -> Iterator[Client]:
    """An ASGI application under uvicorn, on a real socket."""
    config = uvicorn.Config(app, port=0, log_level="critical", proxy_headers=False, lifespan="auto", http=parser)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.005)
    yield Client(server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join(PATIENCE_SECONDS)


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - as it is called there
        pass


class _Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True


@contextmanager
def served_wsgi(app: Any) -> Iterator[Client]:
    """A WSGI application under the standard library's server, a thread a request."""
    with make_server("127.0.0.1", 0, app, _Threaded, _Silent) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield Client(server.server_port)
        server.shutdown()
        thread.join(PATIENCE_SECONDS)


def wait_until_free(store: redis.Redis) -> None:
    """A client may have all of its answer a moment before the server has given the slot back."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(store.scan_iter(match="*:h:*")):
        assert time.monotonic() < deadline
        time.sleep(0.005)
