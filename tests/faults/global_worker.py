"""A process that asks under a global limit of a cluster: `python -m tests.faults.global_worker …`.

How fast all of them ask is in a file that they share, so that a test can let the load jump.
"""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headroom_edge import Limiter
from tests.faults.lease_worker import ALLOWED, ASKED, ENDPOINT, LARGEST, Tally, Workers

TENANT: Final = "zenith"
CALM, JUMP = 1, 16  # requests in each turn
TURN_S: Final = 0.01


class Pace:
    """Requests in each turn, in memory that the processes share."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._number = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")

    @classmethod
    def create(cls, path: Path) -> Pace:
        path.write_bytes(CALM.to_bytes(8, "little"))
        return cls(path)

    def get(self) -> int:
        return self._number[0]

    def set(self, requests: int) -> None:
        self._number[0] = requests


@dataclass
class GlobalWorkers(Workers):
    budget_ms: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        self.pace = Pace.create(self.tally_file.with_suffix(".pace"))

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        self._asked_before[number] = self.tally.of(ASKED)[number]
        about = (self.url, str(self.tally_file), str(number), str(self.budget_ms))
        return subprocess.Popen([sys.executable, "-m", "tests.faults.global_worker", *about])


def work(url: str, tally_file: Path, number: int, budget_ms: int) -> None:
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    parent, tally, pace = os.getppid(), Tally(tally_file), Pace(tally_file.with_suffix(".pace"))
    with Limiter.from_url(url, leases=number % 2 == 1, fail="closed", budget_ms=budget_ms) as limiter:
        limiter.ready(60_000)
        while not ended and os.getppid() == parent:
            for _ in range(pace.get()):
                decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
                tally.add(number, ASKED)
                if decision.allowed:
                    tally.add(number, ALLOWED)
            for book in limiter._core.books:
                for lease in list(book._open):
                    if lease.block is not None:
                        tally.raise_to(number, LARGEST, lease.block.granted_calls)
            time.sleep(TURN_S)


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
