"""The service on our own HTTP/2, by callbacks: several times as many calls as grpcio on the same core."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Final

from headroom_edge import AsyncLimiter
from headroom_edge.core import Conversation, Core
from headroom_edge.gateway.http2.calls import INTERNAL, UNIMPLEMENTED, Answer, Call, GrpcRefusal
from headroom_edge.gateway.http2.connection import Http2Connection
from headroom_edge.gateway.http2.connections import Http2Connections
from headroom_edge.gateway.rls.access import Access
from headroom_edge.gateway.rls.answers import FaultError, Reply
from headroom_edge.gateway.rls.service import HEALTH_PATH, METHOD, SERVICE, TRAVEL_MS, RateLimitService, health_of
from headroom_edge.request_guard import Guard, GuardRules
from headroom_edge.settings import READY_MS

logger = logging.getLogger("headroom_edge")

PATH: Final = f"/{SERVICE}/{METHOD}"
GRACE_S: Final = 5.0  # for calls that are under way when the server stops
BACKLOG: Final = 512
# Of grpc-timeout, in milliseconds.
_UNITS_MS: Final = {"H": 3_600_000.0, "M": 60_000.0, "S": 1_000.0, "m": 1.0, "u": 0.001, "n": 0.000_001}


class Http2Server:
    def __init__(self, limiter: AsyncLimiter, rules: GuardRules, access: Access) -> None:
        self._limiter = limiter
        self._guard = Guard(rules)
        self._service = RateLimitService(self._guard)
        self._access = access
        self._tls = _tls(access) if access.certificate else None
        self._server: asyncio.Server
        self._connections: Http2Connections
        self.port = access.port

    async def start(self) -> None:
        await self._limiter.converse(self._guard.warm, budget_ms=READY_MS)
        self._loop = asyncio.get_running_loop()
        self._connections = Http2Connections(self._loop)
        try:
            self._server = await self._loop.create_server(
                lambda: Http2Connection(self._handle, self._connections),
                self._access.host,
                self._access.port,
                ssl=self._tls,
                backlog=BACKLOG,
            )
        except OSError:
            where = self._access.address
            raise ValueError(f"{where} cannot be used; free the port, or choose another with --port.") from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        await self._connections.leave(GRACE_S)
        await self._limiter.close()

    def _handle(self, call: Call, answer: Answer) -> None:
        path = call.fields.get(":path")
        if path != PATH:
            answer(_health(call) if path == HEALTH_PATH else GrpcRefusal(UNIMPLEMENTED, f"Only {PATH} is served here."))
            return

        def done(reply: Reply) -> None:
            if reply.wait_s:
                self._loop.call_later(reply.wait_s, answer, reply.message)
            else:
                answer(reply.message)

        self._limiter.start(lambda core: self._reply(core, call), done, lambda error: answer(self._refusal(error)))

    def _reply(self, core: Core, call: Call) -> Conversation[Reply]:
        service, fields, caller = self._service, call.fields, None
        if self._access.tokens:
            caller = yield from service.caller(core, fields.get("authorization", ""))
        timeout = fields.get("grpc-timeout")
        patience_ms = _patience_ms(timeout) if timeout else None
        return (yield from service.answer(core, call.message, caller=caller, patience_ms=patience_ms))

    def _refusal(self, error: Exception) -> GrpcRefusal:
        if isinstance(error, FaultError):
            self._service.note(error)
            return GrpcRefusal(error.status, str(error))
        logger.error("a call of the rate limit service failed", exc_info=error)
        return GrpcRefusal(INTERNAL, "The call failed; the log of the service says why.")


def _health(call: Call) -> bytes | GrpcRefusal:
    try:
        return health_of(call.message)
    except FaultError as error:
        return GrpcRefusal(error.status, str(error))


def _patience_ms(timeout: str) -> float | None:
    """How long the caller waits, from grpc-timeout, such as 250m; None if it is none."""
    number, unit = timeout[:-1], _UNITS_MS.get(timeout[-1:])
    if unit is None or not (number.isascii() and number.isdigit()) or len(number) > 8:
        return None
    return max(0.0, int(number) * unit - TRAVEL_MS)


def _tls(access: Access) -> ssl.SSLContext:
    for file in (access.certificate, access.key, *([access.client_ca] if access.client_ca else ())):
        access.read(file)  # says in one sentence what is wrong with it
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=access.client_ca or None)
    context.set_alpn_protocols(["h2"])
    try:
        context.load_cert_chain(access.certificate, access.key)
    except ssl.SSLError:
        raise ValueError("--certificate and --key do not belong together, or are not in PEM format.") from None
    if access.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
    return context
