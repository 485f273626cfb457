"""A process that asks for a global limit of a cluster until it is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headroom_edge import Limiter
from tests.faults.lease_worker import ALLOWED, ASKED, ENDPOINT, Tally, Workers

__all__ = ["ALLOWED", "ASKED", "GlobalWorkers"]

BURST = 40  # requests between two pauses
PAUSE_S = 0.005


@dataclass
class GlobalWorkers(Workers):
    tenants: Sequence[str] = ()  # one for each worker

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        self._asked_before[number] = self.tally.of(ASKED)[number]
        words = [sys.executable, "-m", "benchmarks.global_worker", self.url, str(self.tally_file), str(number)]
        return subprocess.Popen([*words, self.tenants[number % len(self.tenants)]])


def work(url: str, tally: Tally, number: int, tenant: str) -> None:
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    parent = os.getppid()
    with Limiter.from_url(url, leases=True, fail="closed", budget_ms=5_000) as limiter:
        while not ended and os.getppid() == parent:
            allowed = sum(limiter.check(tenant=tenant, endpoint=ENDPOINT).allowed for _ in range(BURST))
            tally.add(number, ASKED, BURST)
            tally.add(number, ALLOWED, allowed)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    work(sys.argv[1], Tally(Path(sys.argv[2])), int(sys.argv[3]), sys.argv[4])
