"""How long the server takes for a function call, as it measures itself: every check of every client is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import redis

MICROSECONDS: Final = 1_000_000
_SECTION: Final = "latencystats"
_FUNCTION_CALLS: Final = "latency_percentiles_usec_fcall"


def call_quantiles(client: redis.Redis) -> Mapping[str, float]:
    """Quantile → seconds since the server's statistics began; empty: nobody has called, or it keeps none."""
    found = client.info(_SECTION).get(_FUNCTION_CALLS, {})
    return {_quantile(name): float(value) / MICROSECONDS for name, value in dict(found).items()}


def _quantile(name: str) -> str:
    """`p99.9` is 0.999."""
    return f"{float(name.removeprefix('p')) / 100:.6f}".rstrip("0")
