"""The applications to measure: `python -m benchmarks.web.apps NAME PORT` serves one."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

import uvicorn

from headroom_edge.asgi import App, QuotaMiddleware, Receive, Scope, Send
from headroom_edge.gateway.environment import GatewaySettings


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    fields = [(b"content-type", b"text/plain"), (b"content-length", b"13")]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": b"Hello, world!"})


def guarded_hello() -> App:
    settings = GatewaySettings.read(os.environ)
    return QuotaMiddleware(hello, limiter=settings.limiter(), rules=settings.rules)


APPS: dict[str, Callable[[], Any]] = {"hello": lambda: hello, "guarded": guarded_hello}


def main(name: str, port: str) -> None:
    app = APPS[name]()
    # `python -m headroom_edge.gateway` does the same; here for all applications.
    gc.freeze()
    uvicorn.run(
        app,
        port=int(port),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_level="warning",
        server_header=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
