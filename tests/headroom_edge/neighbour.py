"""A service with its own packages `api`, `quotas`, `config`, …; it runs in an environment that has only the wheel.

Prints as JSON where those packages come from, and the statuses of a few requests through both middlewares.
"""

import asyncio
import importlib
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from headroom_edge import AsyncLimiter, Limiter, asgi, wsgi

KEY, *PACKAGES = sys.argv[1:]
PATH = "/rider/v1/rides/7"
# The cores are shared with other tests: a budget that only a fault can exceed.
BUDGET_MS = 10_000


async def serve_asgi(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def serve_wsgi(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b""]


async def asgi_statuses(count: int) -> list[int]:
    scope = {
        "type": "http",
        "method": "GET",
        "path": PATH,
        "headers": [(b"x-api-key", KEY.encode())],
        "client": ("203.0.113.9", 4711),
    }
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async with AsyncLimiter.from_url(os.environ["REDIS_URL"], budget_ms=BUDGET_MS) as limiter:
        app = asgi.QuotaMiddleware(serve_asgi, limiter=limiter)
        for _ in range(count):
            await app(scope, receive, send)
    return statuses


def wsgi_statuses(count: int) -> list[int]:
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": PATH, "REMOTE_ADDR": "203.0.113.9", "HTTP_X_API_KEY": KEY}
    statuses: list[int] = []

    def start_response(status: str, headers: Any) -> None:
        statuses.append(int(status[:3]))

    with Limiter.from_url(os.environ["REDIS_URL"], budget_ms=BUDGET_MS) as limiter:
        app = wsgi.QuotaMiddleware(serve_wsgi, limiter=limiter)
        for _ in range(count):
            list(app(environ, start_response))
    return statuses


settings.configure()
for adapter in ("decorator", "django", "drf"):
    importlib.import_module(f"headroom_edge.{adapter}")
owners = {name: importlib.import_module(name).OWNER for name in PACKAGES}
statuses = asyncio.run(asgi_statuses(3)) + wsgi_statuses(4)
print(json.dumps({"owners": owners, "statuses": statuses}))  # noqa: T201 - read by the test
