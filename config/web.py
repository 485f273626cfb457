"""The web process, on a port that the supervisor holds open: `python -m config.web DESCRIPTOR`."""

from __future__ import annotations

import socket
import sys
from typing import Final

import uvicorn

GRACE_SECONDS: Final = 3


def main(descriptor: int) -> None:
    config = uvicorn.Config(
        "config.asgi:application",
        lifespan="on",
        access_log=False,
        # Whose address counts is decided by HEADROOM_TRUSTED_PROXIES alone.
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    main(int(sys.argv[1]))
