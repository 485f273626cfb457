"""The web process, on a port that the supervisor opened: `python -m config.web FILE_DESCRIPTOR`."""

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
        # HEADROOM_TRUSTED_PROXIES alone decides which forwarded addresses count.
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    main(int(sys.argv[1]))
