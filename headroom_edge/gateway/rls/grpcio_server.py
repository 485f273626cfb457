"""The service on grpcio: slower than http2_server.py, and the oracle of its tests. Needs the package grpcio."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc

from headroom_edge import AsyncLimiter
from headroom_edge.gateway.rls.access import Access
from headroom_edge.gateway.rls.answers import FaultError, Reply, Status
from headroom_edge.gateway.rls.service import HEALTH, METHOD, SERVICE, TRAVEL_MS, RateLimitService, health_of
from headroom_edge.request_guard import Guard, GuardRules
from headroom_edge.settings import READY_MS

# A few hundred bytes are usual. Envoy lets a client send 60 KiB of fields, and several descriptors may carry them.
LONGEST_MESSAGE: Final = 262_144
LONGEST_METADATA: Final = 16_384
# Calls are bounded by connection. A bound for all of them could be used up by one client that never ends its own.
MOST_CONNECTIONS: Final = 200
MOST_STREAMS: Final = 100  # at once, on one connection; a client that needs more opens another connection
SHORTEST_PING_MS: Final = 5_000  # a connection that is pinged more often is closed
IDLE_MS: Final = 600_000
# Then a connection is closed once its calls have ended, and those that do not end are given up after the second time.
OLDEST_MS: Final = 600_000
OLDEST_GRACE_MS: Final = 10_000
GRACE_S: Final = 5.0  # for calls that are under way when the server stops

OPTIONS: Final = (
    ("grpc.max_receive_message_length", LONGEST_MESSAGE),
    ("grpc.max_metadata_size", LONGEST_METADATA),
    ("grpc.absolute_max_metadata_size", LONGEST_METADATA),
    ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
    ("grpc.max_concurrent_streams", MOST_STREAMS),
    ("grpc.http2.min_ping_interval_without_data_ms", SHORTEST_PING_MS),
    ("grpc.http2.max_ping_strikes", 2),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.max_connection_idle_ms", IDLE_MS),
    ("grpc.max_connection_age_ms", OLDEST_MS),
    ("grpc.max_connection_age_grace_ms", OLDEST_GRACE_MS),
    # A second server on the port would get half of the calls unnoticed.
    ("grpc.so_reuseport", 0),
)
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_STATUS: Final = {status: _CODES[status] for status in Status}

Context = grpc.aio.ServicerContext[bytes, bytes]


class GrpcioServer:
    def __init__(self, limiter: AsyncLimiter, rules: GuardRules, access: Access) -> None:
        self._limiter = limiter
        self._guard = Guard(rules)
        self._service = RateLimitService(self._guard)
        self._tokens = access.tokens
        self._server = grpc.aio.server(options=OPTIONS)
        for name, method, handler in ((SERVICE, METHOD, self._answer), (HEALTH, "Check", _answer_health)):
            # Without a deserializer the handler gets the bytes, and can tell what is wrong with them.
            handlers: dict[str, Any] = {method: grpc.unary_unary_rpc_method_handler(handler)}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        self.port = _listen(self._server, access)

    async def start(self) -> None:
        await self._limiter.converse(self._guard.warm, budget_ms=READY_MS)
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(GRACE_S)
        await self._limiter.close()

    async def _answer(self, message: bytes, context: Context) -> bytes:
        try:
            reply = await self._reply(message, context)
        except FaultError as fault:
            self._service.note(fault)
            await context.abort(_STATUS[fault.status], str(fault))
        if reply.wait_s:
            await asyncio.sleep(reply.wait_s)
        return reply.message

    async def _reply(self, message: bytes, context: Context) -> Reply:
        service, caller = self._service, None
        if self._tokens:
            authorization = _authorization(context)
            caller = await self._limiter.converse(lambda core: service.caller(core, authorization))
        patience_ms = _patience_ms(context)
        return await self._limiter.converse(
            lambda core: service.answer(core, message, caller=caller, patience_ms=patience_ms)
        )


async def _answer_health(message: bytes, context: Context) -> bytes:
    try:
        return health_of(message)
    except FaultError as fault:
        await context.abort(_STATUS[fault.status], str(fault))


def _listen(server: grpc.aio.Server, access: Access) -> int:
    try:
        if access.certificate:
            pair = (access.read(access.key), access.read(access.certificate))
            roots = access.read(access.client_ca) if access.client_ca else None
            credentials = grpc.ssl_server_credentials([pair], roots, require_client_auth=roots is not None)
            return server.add_secure_port(access.address, credentials)
        return server.add_insecure_port(access.address)
    except RuntimeError:
        raise ValueError(f"{access.address} cannot be used; free the port, or choose another with --port.") from None


def _authorization(context: Context) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization" and isinstance(value, str):
            return value
    return ""


def _patience_ms(context: Context) -> float | None:
    remaining_s = context.time_remaining()
    return None if remaining_s is None else max(0.0, remaining_s * 1_000 - TRAVEL_MS)
