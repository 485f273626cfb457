"""The gateway without Django: `python -m headroom_edge.gateway [--host 127.0.0.1] [--port 8001] [--workers 1]`."""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys

import uvicorn
from uvicorn.supervisors import Multiprocess

from headroom_edge.gateway.connections import allow_connections
from headroom_edge.gateway.environment import GatewaySettings
from headroom_edge.gateway.protocol import CheckProtocol
from headroom_edge.gateway.server import Gateway


def application() -> Gateway:
    """For your own server: `uvicorn --factory headroom_edge.gateway.__main__:application --no-proxy-headers`."""
    settings = GatewaySettings.read(os.environ)
    gateway = Gateway(settings.limiter(), settings.rules)
    # What is loaded now is never freed, so the garbage collector need not scan it.
    gc.freeze()
    return gateway


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m headroom_edge.gateway")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--workers", type=int, default=1, help="number of processes; each uses one core")
    parser.add_argument("--fd", type=int, help="a socket that listens already; for a supervisor, with one worker")
    arguments = parser.parse_args()
    if arguments.fd is not None and arguments.workers != 1:
        parser.error("--fd works with one worker only; leave one of the two out")
    try:
        application()
    except ValueError as error:
        sys.stderr.write(f"headroom: {error}\n")
        return 2
    config = uvicorn.Config(
        "headroom_edge.gateway.__main__:application",
        factory=True,
        host=arguments.host,
        port=arguments.port,
        workers=arguments.workers,
        loop="uvloop",
        http=CheckProtocol,
        ws="none",
        lifespan="on",
        # HEADROOM_TRUSTED_PROXIES alone decides which forwarded addresses count.
        proxy_headers=False,
        access_log=False,
        log_level="warning",
        server_header=False,
    )
    allow_connections()
    serve(config, arguments.fd)
    return 0


def serve(config: uvicorn.Config, descriptor: int | None) -> None:
    if config.workers > 1:
        Multiprocess(config, [config.bind_socket()]).run()
    else:
        listeners = None if descriptor is None else [socket.socket(fileno=descriptor)]
        uvicorn.Server(config).run(listeners)


if __name__ == "__main__":
    sys.exit(main())
