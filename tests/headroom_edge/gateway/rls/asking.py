"""The rate limit service on a real port, and a client that asks as Envoy does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from headroom_edge import AsyncLimiter
from headroom_edge.gateway.rls.access import Access
from headroom_edge.gateway.rls.grpcio_server import GrpcioServer
from headroom_edge.gateway.rls.http2_server import Http2Server
from headroom_edge.gateway.rls.messages_pb2 import RateLimitRequest, RateLimitResponse
from headroom_edge.gateway.rls.service import METHOD, SERVICE
from headroom_edge.request_guard import GuardRules

PATIENCE_SECONDS = 120.0
OK, OVER_LIMIT = RateLimitResponse.OK, RateLimitResponse.OVER_LIMIT
LIST = {"tenant": "acme", "endpoint": "rides:list"}


def message_of(
    *descriptors: Mapping[str, str | bytes], costs: Sequence[int | None] = (), hits_addend: int = 0
) -> bytes:
    """Each descriptor is its entries. `costs`: each one's own hits_addend; None: not set."""
    request = RateLimitRequest(domain="any", hits_addend=hits_addend)
    for number, entries in enumerate(descriptors):
        descriptor = request.descriptors.add()
        for key, value in entries.items():
            descriptor.entries.add(key=key, value=value if isinstance(value, bytes) else value.encode())
        cost = costs[number] if number < len(costs) else None
        if cost is not None:
            descriptor.hits_addend.value = cost
    return request.SerializeToString()


@dataclass
class RlsClient:
    port: int

    def ask(
        self,
        *descriptors: Mapping[str, str | bytes],
        costs: Sequence[int | None] = (),
        hits_addend: int = 0,
        **more: Any,
    ) -> RateLimitResponse:
        message = message_of(*descriptors, costs=costs, hits_addend=hits_addend)
        return RateLimitResponse.FromString(self.send(message, **more))

    def send(self, message: bytes, *, timeout: float = PATIENCE_SECONDS, token: str = "") -> bytes:
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/{METHOD}")
            return call(message, timeout=timeout, metadata=metadata)

    def refused(self, *descriptors: Mapping[str, str | bytes], **more: Any) -> tuple[grpc.StatusCode, str]:
        try:
            answer = self.ask(*descriptors, **more)
        except grpc.RpcError as error:
            return error.code(), str(error.details())
        raise AssertionError(answer)


def fields_of(response: RateLimitResponse) -> dict[str, str]:
    return {field.key.lower(): field.value for field in response.response_headers_to_add}


@contextmanager
def serving(
    limiter: AsyncLimiter,
    rules: GuardRules | None = None,
    *,
    tokens: bool = False,
    kind: type[Http2Server | GrpcioServer] = Http2Server,
) -> Iterator[RlsClient]:
    """In a thread of its own, on a free port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> Http2Server | GrpcioServer:
        server = kind(limiter, rules or GuardRules(), Access("127.0.0.1", 0, tokens=tokens))
        await server.start()
        return server

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE_SECONDS)
    try:
        yield RlsClient(server.port)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(PATIENCE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        loop.close()
