"""How often each API key was used, summed until a chore sends it to the store. No I/O."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from headroom_edge.check import pack
from headroom_edge.keys import key_uses

EVERY_S: Final = 10.0
HOUR_S: Final = 3_600
KEPT: Final = 10_000  # key × hour; further ones are dropped

KeyHour = tuple[str, int]  # id of the key, hours since 1970


class KeyUses:
    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._counts: dict[KeyHour, int] = {}
        self._next_s = float("-inf")

    def add(self, key_id: str) -> None:
        """One request was made with this key. Call it with ids of keys that exist only."""
        key = key_id, int(self._wall_clock()) // HOUR_S
        with self._lock:
            counts = self._counts
            if key in counts:
                counts[key] += 1
            elif len(counts) < KEPT:
                counts[key] = 1

    def take(self) -> list[bytes]:
        """The commands that are due; afterwards the counts are forgotten here."""
        now = self._clock()
        if not self._counts or now < self._next_s:
            return []
        self._next_s = now + EVERY_S
        with self._lock:
            counts, self._counts = self._counts, {}
        return [pack(("HINCRBY", key_uses(), f"{key_id} {hour}", str(n))) for (key_id, hour), n in counts.items()]
