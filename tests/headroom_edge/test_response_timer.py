"""What each adapter tells of the answers behind it: the endpoint that served, the status, once a request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import redis
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from fastapi import FastAPI
from starlette.types import ASGIApp

from headroom_edge import AsyncLimiter, Limiter, asgi, django, wsgi
from headroom_edge.decorator import limited
from headroom_edge.observations import Observations
from headroom_edge.request_guard import GuardRules
from tests.headroom_edge.apps import fastapi_app, flask_app
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, Client, publish_world, served, served_wsgi

Told = Counter[tuple[str, int]]  # endpoint, first digit of the status → answers


class Notes(Observations):
    """Keeps what is told here, where the test reads it before any chore does."""

    def __init__(self) -> None:
        super().__init__()
        self.told: Told = Counter()
        self.seconds: list[float] = []

    def add(self, endpoint: str, status: int, seconds: float) -> None:
        self.told[endpoint, status // 100] += 1
        self.seconds.append(seconds)
        super().add(endpoint, status, seconds)


def notes_of(limiter: Limiter | AsyncLimiter) -> Notes:
    notes = Notes()
    limiter._core.chores.observations = notes
    return notes


@pytest.fixture
def anonymous(project: Any, store: redis.Redis) -> GuardRules:
    publish_world(store, limit("few", "fixed_window", limit=6, window="1h"))
    rules = project.HEADROOM_RULES = GuardRules(anonymous="visitors", exempt=("/healthz",))
    return rules


@pytest.fixture(params=["fastapi", "flask", "django", "django-async"])
def serving(request: pytest.FixtureRequest, anonymous: GuardRules, valkey_url: str) -> Iterator[tuple[Client, Notes]]:
    behind: AbstractContextManager[Client]
    if request.param == "fastapi":
        app: FastAPI = fastapi_app()
        later = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)
        app.add_middleware(asgi.QuotaMiddleware, limiter=later, rules=anonymous)
        behind, notes = served(app), notes_of(later)
    elif request.param == "flask":
        rides = flask_app()
        now = Limiter.from_url(valkey_url, budget_ms=AMPLE_MS)
        rides.wsgi_app = wsgi.QuotaMiddleware(rides.wsgi_app, limiter=now, rules=anonymous)  # type: ignore[method-assign]
        behind, notes = served_wsgi(rides), notes_of(now)
    elif request.param == "django":
        behind, notes = served_wsgi(get_wsgi_application()), notes_of(django.limiter())
    else:
        behind, notes = served(get_asgi_application()), notes_of(django.async_limiter())
    with behind as client:
        yield client, notes


def test_every_answer_is_told_once_with_its_endpoint_and_status(serving: tuple[Client, Notes]) -> None:
    rides, notes = serving
    paths = ["/v1/rides", "/v1/rides", "/v1/rides/7", "/broken", "/nowhere", "/healthz"]
    statuses = [rides.get(path).status for path in paths]
    assert statuses == [200, 200, 200, 500, 404, 404]
    assert notes.told == {("rides:list", 2): 2, ("rides:get", 2): 1, ("-", 5): 1, ("-", 4): 1}
    assert all(0 < seconds < 60 for seconds in notes.seconds)


def test_what_is_denied_never_reached_the_service_and_is_not_told(serving: tuple[Client, Notes]) -> None:
    rides, notes = serving
    assert [rides.get("/v1/rides").status for _ in range(8)] == [200] * 6 + [429] * 2
    assert notes.told == {("rides:list", 2): 6}


def test_a_throttle_behind_the_middleware_does_not_tell_it_twice(anonymous: GuardRules) -> None:
    notes = notes_of(django.limiter())
    with served_wsgi(get_wsgi_application()) as rides:
        assert rides.get("/costly").status == 200
    assert notes.told == {("-", 2): 1}


def test_a_throttle_alone_tells_it_by_the_views_own_endpoint(anonymous: GuardRules, project: Any) -> None:
    project.MIDDLEWARE = project.MIDDLEWARE[1:]
    notes = notes_of(django.limiter())
    with served_wsgi(get_wsgi_application()) as rides:
        assert [rides.get("/costly").status for _ in range(7)] == [200] * 6 + [429]
    assert notes.told == {("rides:create", 2): 6}


def test_a_function_that_raises_counts_as_an_error(store: redis.Redis, valkey_url: str) -> None:
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
        notes = notes_of(limiter)

        @limited(limiter, tenant="acme", endpoint="rides:list")
        def divide(number: int) -> float:
            return 1 / number

        assert divide(2) == 0.5
        with pytest.raises(ZeroDivisionError):
            divide(0)
    assert notes.told == {("rides:list", 2): 1, ("rides:list", 5): 1}


def test_a_request_that_nobody_waits_for_any_more_is_not_told(store: redis.Redis, valkey_url: str) -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    async def cancelled(app: ASGIApp) -> None:
        request = asyncio.ensure_future(app(scope(), nothing, nothing))
        await began.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)

    async def work() -> Told:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
            notes = notes_of(limiter)
            await cancelled(asgi.QuotaMiddleware(endless, limiter=limiter))
            return notes.told

    began = asyncio.Event()
    assert asyncio.run(work()) == {}


def scope() -> dict[str, Any]:
    headers = [(b"x-api-key", ACME.encode())]
    return {"type": "http", "method": "GET", "path": "/v1/rides", "headers": headers, "client": ("127.0.0.1", 1)}


async def nothing(*_: Any) -> Any:
    return {}
