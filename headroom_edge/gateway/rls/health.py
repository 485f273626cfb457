"""Asks a running service whether it serves: `python -m headroom_edge.gateway.rls.health 127.0.0.1:8002`."""

from __future__ import annotations

import sys
from typing import Final

import grpc

from headroom_edge.gateway.rls.service import HEALTH_PATH, SERVING

PATIENCE_S: Final = 3.0


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
