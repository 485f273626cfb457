"""The web process: `python -m config.web [--host 127.0.0.1] [--port 8000]`, or `--fd` with a port that is open."""

from __future__ import annotations

import argparse
import asyncio
import socket
import threading
from typing import Final

import uvicorn

from config.startup_check import report_locked_keys
from headroom_edge.gateway.bounds import BoundedProtocol
from headroom_edge.gateway.connections import allow_connections
from headroom_edge.limiter import say_goodbye

GRACE_SECONDS: Final = 3


class WebServer(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # In a thread, because the database may be slow to answer.
        threading.Thread(target=report_locked_keys, daemon=True).start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        # uvicorn ends itself with the signal that it caught, so what is registered for the exit does not run.
        await asyncio.to_thread(say_goodbye)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m config.web")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--fd", type=int, help="a socket that listens already; the supervisor opens one")
    parser.add_argument("--grace", type=int, default=GRACE_SECONDS, help="seconds that requests have to end at a stop")
    arguments = parser.parse_args()
    config = uvicorn.Config(
        "config.asgi:application",
        host=arguments.host,
        port=arguments.port,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        # HEADROOM_TRUSTED_PROXIES alone decides which forwarded addresses count.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=arguments.grace,
    )
    allow_connections()
    listeners = None if arguments.fd is None else [socket.socket(fileno=arguments.fd)]
    WebServer(config).run(sockets=listeners)


if __name__ == "__main__":
    main()
