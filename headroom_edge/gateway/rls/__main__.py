"""Envoy's rate limit service: `python -m headroom_edge.gateway.rls [--host 127.0.0.1] [--port 8002]`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

import uvloop

from headroom_edge.gateway.environment import GatewaySettings
from headroom_edge.gateway.rls.access import Access
from headroom_edge.gateway.rls.http2_server import Http2Server

if TYPE_CHECKING:
    from headroom_edge.gateway.rls.grpcio_server import GrpcioServer


def main() -> int:
    arguments = _parser().parse_args()
    try:
        is_grpcio = arguments.__dict__.pop("grpcio")
        access, settings = Access(**vars(arguments)), GatewaySettings.read(os.environ)
        uvloop.run(_serve(settings, access, _server_class(is_grpcio=is_grpcio)))
    except ValueError as error:
        sys.stderr.write(f"headroom: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m headroom_edge.gateway.rls")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8002)
    parser.add_argument("--certificate", default="", help="the server's certificate, a file in PEM format")
    parser.add_argument("--key", default="", help="its private key")
    parser.add_argument("--client-ca", default="", help="answer only clients with a certificate signed by this one")
    parser.add_argument("--tokens", action="store_true", help="answer only calls with a token that has the scope check")
    parser.add_argument("--grpcio", action="store_true", help="serve by grpcio's server, which is slower")
    return parser


def _server_class(*, is_grpcio: bool) -> type[Http2Server | GrpcioServer]:
    if not is_grpcio:
        return Http2Server
    # grpc reads it when it is imported. Without it, it adds lines of its own to a trouble that is told in one.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from headroom_edge.gateway.rls.grpcio_server import GrpcioServer

    return GrpcioServer


async def _serve(settings: GatewaySettings, access: Access, server_class: type[Http2Server | GrpcioServer]) -> None:
    server = server_class(settings.limiter(), settings.rules, access)
    await server.start()
    # What is loaded now is never freed, so the garbage collector need not scan it.
    gc.freeze()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.stop()


if __name__ == "__main__":
    sys.exit(main())
