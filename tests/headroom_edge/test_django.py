"""A Django project behind the middleware: sync over WSGI, async over ASGI, and REST framework's throttle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, suppress
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import FileResponse, StreamingHttpResponse
from django.test import Client as DjangoClient
from django.test.utils import CaptureQueriesContext

from headroom_edge import django
from headroom_edge.django import finished
from headroom_edge.proxies import TrustedProxies
from headroom_edge.request_guard import GuardRules
from tests.headroom_edge.adaptive import BACKEND, Learned, learned
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, Client, publish_world, served, served_wsgi, wait_until_free

Serve = Callable[[], AbstractContextManager[Client]]


def serve_sync() -> AbstractContextManager[Client]:
    return served_wsgi(get_wsgi_application())


def serve_async() -> AbstractContextManager[Client]:
    return served(get_asgi_application())


@pytest.fixture
def rules(project: Any, store: redis.Redis) -> Callable[..., None]:
    """Changes the rules of the project."""

    def change(**fields: Any) -> None:
        project.HEADROOM_RULES = GuardRules(**fields)
        django.guard.cache_clear()

    return change


@pytest.mark.parametrize("serve", [serve_sync, serve_async], ids=["sync", "async"])
class TestMiddleware:
    def test_it_lets_through_what_the_limit_allows(self, rules: Callable[..., None], serve: Serve) -> None:
        with serve() as rides:
            answers = [rides.get("/v1/rides", x_api_key=ACME) for _ in range(7)]
        assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
        assert answers[0].headers["served-by"] == "rides:list"
        assert answers[0].headers["ratelimit"].startswith('"hourly";r=4')
        assert answers[-1].headers["content-type"] == "application/problem+json"
        assert answers[-1].json()["violated-policies"] == ["hourly"]

    def test_only_a_trusted_proxy_is_believed(
        self, rules: Callable[..., None], store: redis.Redis, serve: Serve
    ) -> None:
        publish_world(store, limit("each", "fixed_window", "ip", limit=1, window="1h"))
        rules(anonymous="visitors", trusted_proxies=TrustedProxies.parse(["127.0.0.1"]))
        with serve() as rides:
            hops = ["203.0.113.1", "9.9.9.9, 203.0.113.1", "203.0.113.2"]
            assert [rides.get("/v1/rides", x_forwarded_for=hop).status for hop in hops] == [200, 429, 200]

    def test_a_slot_is_given_back_when_the_answer_ends(
        self, rules: Callable[..., None], store: redis.Redis, serve: Serve
    ) -> None:
        publish_world(store, limit("inflight", "concurrency", limit=1, hold="1h"))
        rules(anonymous="visitors")
        stream = "/stream-later" if serve is serve_async else "/stream"
        paths = [("/v1/rides", 200), ("/later", 200), (stream, 200), ("/broken", 500), ("/nowhere", 404)]
        with serve() as rides:
            for path, status in paths * 2:
                assert (path, rides.get(path).status) == (path, status)
                wait_until_free(store)

    def test_an_adaptive_limit_learns_from_the_answers(
        self, rules: Callable[..., None], store: redis.Redis, serve: Serve
    ) -> None:
        publish_world(store, BACKEND)
        rules(anonymous="visitors")
        with serve() as rides:
            for path in ("/v1/rides", "/broken", "/nowhere"):
                rides.get(path)
                wait_until_free(store)
        assert learned(store) == Learned(answers=2, drops=0)

    def test_a_shaped_request_that_would_be_late_is_refused(
        self, rules: Callable[..., None], store: redis.Redis, serve: Serve
    ) -> None:
        publish_world(store, limit("paced", "leaky_bucket", rate=1, per="1h", queue=3))
        rules(anonymous="visitors", max_wait_ms=5)
        with serve() as rides:
            assert [rides.get("/v1/rides").status for _ in range(3)] == [200, 429, 429]


@pytest.mark.django_db
def test_a_denied_request_costs_no_sql(rules: Callable[..., None], django_user_model: Any) -> None:
    rules(anonymous="visitors")
    client = DjangoClient()
    counts = []
    for _ in range(7):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            status = client.get("/users").status_code
        counts.append((status, len(queries)))
    assert counts == [(200, 1)] * 5 + [(429, 0)] * 2


def test_the_throttle_counts_what_the_view_knows(rules: Callable[..., None], store: redis.Redis, settings: Any) -> None:
    publish_world(store, limit("each", "fixed_window", "user", limit=2, window="1h"))
    settings.MIDDLEWARE = []
    with serve_sync() as rides:
        answers = [rides.get("/throttled", x_user=user) for user in ("ann", "ann", "bob", "ann")]
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert answers[0].headers["ratelimit"].startswith('"each";r=1')
        assert answers[-1].headers["content-type"] == "application/problem+json"
        assert answers[-1].json()["violated-policies"] == ["each"]
        assert int(answers[-1].headers["retry-after"]) > 0
        assert rides.get("/throttled").status == 401
        assert rides.get("/throttled", x_api_key=ACME).status == 200


def test_the_throttle_takes_endpoint_and_cost_from_the_view(
    rules: Callable[..., None], store: redis.Redis, settings: Any
) -> None:
    dear = limit("dear", "fixed_window", limit=7, window="1h", unit="cost")
    publish_world(store, endpoints={"rides:create": (dear,)})
    settings.MIDDLEWARE = []
    with serve_sync() as rides:
        answers = [rides.get("/costly", x_user="ann") for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[1].headers["ratelimit"].startswith('"dear";r=1')


def test_the_throttle_gives_slots_back(rules: Callable[..., None], store: redis.Redis, settings: Any) -> None:
    publish_world(store, limit("inflight", "concurrency", limit=1, hold="1h"))
    settings.MIDDLEWARE = []
    with serve_sync() as rides:
        for _ in range(3):
            assert rides.get("/throttled", x_user="ann").status == 200
            wait_until_free(store)


class TestStreams:
    """What a streaming response is released with."""

    @staticmethod
    def released(content: Any, read: Callable[[Any], object]) -> list[str]:
        results: list[str] = []
        holding = SimpleNamespace(holds=True, headers={})
        response: Any = StreamingHttpResponse(content)
        finished(response, holding, results.append, None)  # type: ignore[arg-type]
        with suppress(TimeoutError, RuntimeError):
            read(response)
        response.close()
        return results

    @staticmethod
    def body(error: type[Exception] | None) -> Iterator[bytes]:
        yield b"0"
        if error is not None:
            raise error
        yield b"1"

    @classmethod
    async def later(cls, error: type[Exception] | None) -> AsyncIterator[bytes]:
        for part in cls.body(error):
            yield part

    @staticmethod
    def read_later(response: Any) -> None:
        async def read() -> list[bytes]:
            return [part async for part in response]

        asyncio.run(read())

    @pytest.mark.parametrize(
        ("error", "result"),
        [(None, "ok"), (TimeoutError, "drop"), (RuntimeError, "ignore")],
        ids=["whole", "time-out", "bug"],
    )
    def test_a_body_that_fails_midway_is_no_answer(self, error: type[Exception] | None, result: str) -> None:
        assert self.released(self.body(error), list) == [result]
        assert self.released(self.later(error), self.read_later) == [result]

    def test_nothing_is_learned_from_a_client_that_left_midway(self) -> None:
        assert self.released(self.body(None), lambda response: next(iter(response))) == ["ignore"]

    def test_a_file_that_the_server_sends_by_itself_stays_a_file(self) -> None:
        results: list[str] = []
        response = FileResponse(BytesIO(b"all of it"))
        finished(response, SimpleNamespace(holds=True, headers={}), results.append, None)  # type: ignore[arg-type]
        assert response.file_to_stream is not None
        response.close()
        assert results == ["ok"]
