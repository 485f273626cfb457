"""Counts refused tokens by client address, in this process: 60 at once, then one every two seconds.

Only refusals count. A valid token is always looked up and accepted, so nobody locks out others at the same address.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus
from math import ceil
from typing import Final

from headroom_edge.plan.subject import network
from headroom_edge.problems import QUOTA_EXCEEDED, Problem
from headroom_edge.recent_cache import RecentCache

AT_ONCE: Final = 60
EVERY_S: Final = 2.0
ADDRESSES_KEPT: Final = 8_192
LIMIT: Final = "bad-tokens"


class BadTokens:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paid_until_s: RecentCache[str, float] = RecentCache(ADDRESSES_KEPT)

    def judge(self, refusal: Problem, address: str | None) -> Problem:
        """The 401 itself, or a 429 if this address has sent too many bad tokens. IPv6 addresses count by /64."""
        now, key = self._clock(), network(address or "")
        paid_until_s = max(self._paid_until_s.get(key) or now, now) + EVERY_S
        wait_s = paid_until_s - now - AT_ONCE * EVERY_S
        if wait_s > 0:
            return _too_many(max(1, ceil(wait_s)))
        self._paid_until_s.put(key, paid_until_s)
        return refusal


def _too_many(seconds: int) -> Problem:
    detail = f"Too many requests without a valid token came from this address; send a valid one, or wait {seconds} s."
    extra = {"violated-policies": [LIMIT], "limit": LIMIT, "reason": "limit"}
    headers = {"Retry-After": str(seconds), "WWW-Authenticate": "Bearer"}
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, QUOTA_EXCEEDED, detail, extra, headers)
