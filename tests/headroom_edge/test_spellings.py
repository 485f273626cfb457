"""A6: whatever the spelling, the policy of the endpoint that really serves a request applies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import redis
from django.core.wsgi import get_wsgi_application

from headroom_edge import AsyncLimiter, Limiter
from headroom_edge.asgi import QuotaMiddleware as AsgiMiddleware
from headroom_edge.gateway.server import Gateway
from headroom_edge.request_guard import GuardRules
from headroom_edge.wsgi import QuotaMiddleware as WsgiMiddleware
from tests.headroom_edge.apps import SERVED_BY, fastapi_app, flask_app
from tests.headroom_edge.conftest import AMPLE_MS, LOOPBACK
from tests.headroom_edge.spellings import charged, endpoints, named, spellings
from tests.headroom_edge.world import ACME, Client, publish_world, served, served_wsgi

VISITORS = GuardRules(anonymous="visitors")
Serve = Callable[[str, Any], AbstractContextManager[Client]]


@contextmanager
def in_fastapi(url: str, project: Any) -> Iterator[Client]:
    app = fastapi_app()
    app.add_middleware(AsgiMiddleware, limiter=AsyncLimiter.from_url(url, budget_ms=AMPLE_MS), rules=VISITORS)
    with served(app) as client:
        yield client


@contextmanager
def in_flask(url: str, project: Any) -> Iterator[Client]:
    app = flask_app()
    with Limiter.from_url(url, budget_ms=AMPLE_MS) as limiter:
        app.wsgi_app = WsgiMiddleware(app.wsgi_app, limiter=limiter, rules=VISITORS)  # type: ignore[method-assign]
        with served_wsgi(app) as client:
            yield client


@contextmanager
def in_django(url: str, project: Any) -> Iterator[Client]:
    project.HEADROOM_RULES = VISITORS
    with served_wsgi(get_wsgi_application()) as client:
        yield client


@pytest.mark.parametrize("serve", [in_fastapi, in_flask, in_django], ids=["fastapi", "flask", "django"])
def test_in_a_framework_what_serves_is_what_is_charged(
    valkey: redis.Redis, valkey_url: str, project: Any, serve: Serve
) -> None:
    publish_world(valkey, endpoints=endpoints())
    wrong, seen = [], set()
    with serve(valkey_url, project) as rides:
        for method, path in spellings(150):
            answer = rides.send(method, path, b"" if method == "POST" else None)
            endpoint = answer.headers.get(SERVED_BY.lower(), "")
            seen.add(endpoint)
            if endpoint and charged(answer) != named(endpoint):
                wrong.append((method, path, endpoint, charged(answer)))
    assert wrong == []
    assert seen == {"", "rides:list", "rides:create", "rides:get", "rides:status", "rides:cancel"}


def test_in_front_of_a_server_that_reads_paths_as_usual(valkey: redis.Redis, valkey_url: str) -> None:
    """The proxy asks with the path as it came; FastAPI then serves it, decoded once."""
    publish_world(valkey, endpoints=endpoints())
    gateway = Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS), LOOPBACK)
    wrong = []
    with served(gateway) as proxy, served(fastapi_app()) as rides:
        for method, path in spellings(150):
            answer = rides.send(method, path, b"" if method == "POST" else None)
            endpoint = answer.headers.get(SERVED_BY.lower(), "")
            asked = proxy.get("/v1/authz", x_original_method=method, x_original_uri=path, x_api_key=ACME)
            if endpoint and charged(asked) != named(endpoint):
                wrong.append((method, path, endpoint, charged(asked)))
    assert wrong == []
