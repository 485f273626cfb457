"""Temporary servers to measure on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from config.embedded import ValkeyOptions, start_valkey


@contextmanager
def throw_away_valkey() -> Iterator[redis.Redis]:
    """A client of a temporary server that stores nothing on disk."""
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        socket = Path(folder) / "valkey" / "s"
        server = start_valkey(Path(folder) / "data", ValkeyOptions(socket=socket, durable=False))
        try:
            with redis.Redis(unix_socket_path=str(socket), decode_responses=True) as client:
                yield client
        finally:
            server.stop()


def flush(client: redis.Redis) -> None:
    """Waits until the memory is freed; by default the server frees it in the background."""
    execute: Callable[..., object] = client.execute_command
    execute("FLUSHALL", "SYNC")
