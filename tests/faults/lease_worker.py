"""A process that asks for one limit with leases until it is told to end: `python -m tests.faults.lease_worker …`.

What it was told is kept in a file that several processes share, so that it outlives a kill.
"""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headroom_edge import Limiter

TENANT: Final = "acme"
ENDPOINT: Final = "search"
ASKED, ALLOWED, LARGEST = range(3)  # requests, of them allowed, units of the largest block
NUMBERS: Final = 3
NUMBER_BYTES: Final = 8
PAUSE_S: Final = 0.000_2
WAIT_S: Final = 120


class Tally:
    """The numbers of all workers, in memory that they share."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")

    @classmethod
    def create(cls, path: Path, workers: int) -> Tally:
        path.write_bytes(bytes(NUMBER_BYTES * NUMBERS * workers))
        return cls(path)

    def add(self, worker: int, kind: int, count: int = 1) -> None:
        self._numbers[worker * NUMBERS + kind] += count

    def raise_to(self, worker: int, kind: int, least: int) -> None:
        at = worker * NUMBERS + kind
        self._numbers[at] = max(self._numbers[at], least)

    def of(self, kind: int) -> list[int]:
        return list(self._numbers[kind::NUMBERS])

    def total(self, kind: int) -> int:
        return sum(self.of(kind))


@dataclass
class Workers:
    url: str
    tally_file: Path
    count: int
    tally: Tally = field(init=False)
    kills: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _asked_before: dict[int, int] = field(default_factory=dict)  # by the processes before the present ones

    def __post_init__(self) -> None:
        self.tally = Tally.create(self.tally_file, self.count)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        self._asked_before[number] = self.tally.of(ASKED)[number]
        words = [sys.executable, "-m", "tests.faults.lease_worker", self.url, str(self.tally_file), str(number)]
        return subprocess.Popen(words)

    @contextmanager
    def running(self) -> Iterator[None]:
        """At the end they close their limiters, and thereby settle their leases."""
        self.processes = [self._start(number) for number in range(self.count)]
        try:
            yield
            self.wait()
            for process in self.processes:
                process.send_signal(signal.SIGTERM)
            assert [process.wait(WAIT_S) for process in self.processes] == [0] * self.count
        finally:
            for process in self.processes:
                process.kill()
                process.wait(WAIT_S)

    def wait(self) -> None:
        """Until each of them has asked at least once."""
        deadline = time.monotonic() + WAIT_S
        while not all(asked > self._asked_before[number] for number, asked in enumerate(self.tally.of(ASKED))):
            assert time.monotonic() < deadline, "a worker does not ask"
            time.sleep(0.01)

    def kill(self, number: int) -> None:
        """And start another one in its place."""
        self.processes[number].kill()
        self.processes[number].wait(WAIT_S)
        self.kills += 1
        self.processes[number] = self._start(number)

    def stop_for(self, number: int, seconds: float) -> None:
        self.processes[number].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.processes[number].send_signal(signal.SIGCONT)

    def lost_at_most(self) -> int:
        """What those who were killed had not settled: a block each, and the request in hand."""
        return self.kills * (max(self.tally.of(LARGEST)) + 1)


def work(url: str, tally: Tally, number: int) -> None:
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    parent = os.getppid()
    with Limiter.from_url(url, leases=True, fail="closed", budget_ms=5_000) as limiter:
        while not ended and os.getppid() == parent:
            decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
            tally.add(number, ASKED)
            if decision.allowed:
                tally.add(number, ALLOWED)
            book = limiter._leases
            for lease in list(book._open) if book is not None else ():
                if lease.block is not None:
                    tally.raise_to(number, LARGEST, lease.block.granted_calls)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    work(sys.argv[1], Tally(Path(sys.argv[2])), int(sys.argv[3]))
