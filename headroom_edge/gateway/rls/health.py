"""grpc.health.v1: the process serves. Not the state of the store: a restart would not mend that."""

from __future__ import annotations

import sys
from typing import Final

import grpc
from google.protobuf.message import DecodeError

from headroom_edge.gateway.rls.answers import FaultError, Status, invalid
from headroom_edge.gateway.rls.messages_pb2 import HealthCheckRequest, HealthCheckResponse
from headroom_edge.gateway.rls.service import SERVICE

HEALTH: Final = "grpc.health.v1.Health"
HEALTH_PATH: Final = f"/{HEALTH}/Check"
SERVING: Final = HealthCheckResponse(status=HealthCheckResponse.SERVING).SerializeToString()
PATIENCE_S: Final = 3.0


def health_of(message: bytes) -> bytes:
    """The answer to Check. Raises FaultError."""
    try:
        service = HealthCheckRequest.FromString(message).service
    except DecodeError:
        raise invalid("The message is not a HealthCheckRequest.") from None
    if service not in ("", SERVICE):
        raise FaultError(Status.NOT_FOUND, f"There is no such service here; ask for {SERVICE}.")
    return SERVING


def trouble(address: str, patience_s: float = PATIENCE_S) -> str | None:
    """Why the service at `address` does not serve; None: it does."""
    # With a pool of its own: a connection that failed is shared with nobody, and tried at once the next time.
    with grpc.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        try:
            check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH_PATH)
            answer = check(b"", timeout=patience_s)
        except grpc.RpcError as error:
            return str(error.details() or error.code())
    return None if answer == SERVING else "does not serve"


if __name__ == "__main__":
    sys.exit(trouble(sys.argv[1]))
