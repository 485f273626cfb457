"""An adaptive limit, and what it has learned from the requests that ended."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import redis

from tests.headroom_edge.limiter.world import limit

BACKEND = limit("backend", "adaptive_concurrency", min=5, max=50, target="1m", hold="1h")
HEADER = 7  # bytes of a record with one limit
ANSWERS, DROPS = HEADER + 15, HEADER + 26


@dataclass(frozen=True)
class Learned:
    answers: int
    drops: int


def learned(store: redis.Redis) -> Learned:
    """Of a window that has fewer than ten answers, which stays open. All records together."""
    execute: Any = store.execute_command
    records = [execute("GET", name) for name in execute("KEYS", "hr:{*}:0000?")]
    return Learned(sum(_number(text, ANSWERS) for text in records), sum(_number(text, DROPS) for text in records))


def _number(text: bytes, at: int) -> int:
    (value,) = struct.unpack_from("<I", text, at)
    return int(value)
