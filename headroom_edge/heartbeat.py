"""What an enforcing process tells the store about itself every few seconds. No I/O."""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from headroom_edge.check import pack
from headroom_edge.decision import Decision
from headroom_edge.failure import FailureModes
from headroom_edge.keys import ALL, shard_of
from headroom_edge.leases.book import LeaseBook
from headroom_edge.version import __version__

HEARTBEAT_S: Final = 5.0
JITTER: Final = 0.2  # spreads the heartbeats of processes that were started together
DEGRADED_S: Final = 60.0  # a process counts as degraded for this long after a decision without the store
HOST_CHARACTERS: Final = 64
LEASED_S: Final = 60.0  # an endpoint is named for this long after it got a lease
LEASED_NAMES: Final = 20
LEASED_CHARACTERS: Final = 2_500  # of JSON; the store accepts 4,096 bytes in all


class Heartbeat:
    def __init__(
        self,
        failures: FailureModes,
        shards: int,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        leases: LeaseBook | None = None,
    ) -> None:
        self._failures = failures
        self._leases = leases
        self._shards = shards
        self._every_s = every_s
        self._clock = clock
        self._token = secrets.token_hex(8)
        self._degraded = 0  # of failures.degraded, when it was last looked at
        self._degraded_s = float("-inf")
        self._told: Decision | None = None
        self._decided_s = float("-inf")
        self._is_known = False  # a heartbeat was sent
        self.next_s = float("-inf")
        self.latest: Decision | None = None  # of the store; the limiter sets it at every check

    @property
    def enforcer(self) -> str:
        """The id of this process. A forked child has its own."""
        return f"{self._token}-{os.getpid()}"

    def due(self) -> bytes | None:
        """The command to send now; None if it is not time yet."""
        now = self._clock()
        if now < self.next_s:
            return None
        self.next_s = now + self._every_s * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
        self._is_known = True
        return self._command(json.dumps(self._about(now)))

    def goodbye(self) -> bytes | None:
        """Takes this process off the list; None if it is not on it. Without it, it stays for ten minutes."""
        if not self._is_known:
            return None
        self._is_known = False
        return self._command("")

    def learn_share(self, alive: Any) -> None:
        if isinstance(alive, int):
            self._failures.share = max(1, alive)

    def _command(self, about: str) -> bytes:
        return pack(("FCALL", "hr_heartbeat", "1", ALL, self.enforcer, about))

    def _about(self, now: float) -> dict[str, object]:
        return {
            "host": socket.gethostname()[:HOST_CHARACTERS],
            "pid": os.getpid(),
            "version": __version__,
            "degraded": self._recently_degraded(now),
            **self._decided(now),
            **self._leased(),
        }

    def _recently_degraded(self, now: float) -> int:
        """Decisions without the store since the start; 0 if the last one was over a minute ago."""
        total = self._failures.degraded
        if total != self._degraded:
            self._degraded, self._degraded_s = total, now
        return total if now - self._degraded_s < DEGRADED_S else 0

    def _decided(self, now: float) -> dict[str, object]:
        """The latest decision's shard, the revision it had there, and its age: at most one heartbeat too young."""
        latest = self.latest
        if latest is None:
            return {}
        if latest is not self._told:
            self._told, self._decided_s = latest, now
        return {
            "shard": shard_of(latest.check.tenant, self._shards),
            "revision": latest.revision,
            "decided_s": round(now - self._decided_s),
        }

    def _leased(self) -> dict[str, object]:
        """The length of leases, and the endpoints with a lease in the last minute."""
        book = self._leases
        if book is None:
            return {}
        names = book.endpoints(LEASED_S)
        shown: list[str] = []
        room = LEASED_CHARACTERS
        for name in names[:LEASED_NAMES]:
            room -= len(json.dumps(name)) + 2
            if room >= 0:
                shown.append(name)
        return {"leases": {"ms": book.lease_ms, "endpoints": shown, "more": len(names) - len(shown)}}
