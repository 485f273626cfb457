"""A process of clients at the opening of a market: `python -m tests.faults.market_worker …`.

Each client sends one or two requests. How fast the process asks is in a file that all of them share, so that a test can
let the load jump. It never catches up on what it was too slow for, so it never asks faster than that. When it is told
to end, it writes down every answer.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final

from headroom_edge import Limiter
from headroom_edge.plan.priority import PRIORITIES

TENANTS: Final = ("acme", "bolt", "cargo")
# 400, 600, 1,000 and 850 of 2,850 requests a second; half of the last come from callers who lower their own priority.
MIX: Final = {"critical": 8, "high": 12, "normal": 20, "sheddable": 9, "lowered": 8}
IDLE: Final = 0  # the phase in which nobody asks
UNBORN: Final = -1


@dataclass(frozen=True, slots=True)
class Told:
    """An answer."""

    phase: int
    what: str  # of MIX
    allowed: bool
    degraded: bool
    at_us: int  # by the store's clock; 0 if it was denied


class Board:
    """Numbers in memory that the processes share: the phase, µs between two requests; of each worker, the phase that it
    has seen, and how often it has asked."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")

    @classmethod
    def create(cls, path: Path, workers: int) -> Board:
        path.write_bytes(bytes(8 * (2 + 2 * workers)))
        board = cls(path)
        for worker in range(workers):
            board.see(worker, UNBORN)
        return board

    @property
    def phase(self) -> int:
        return self._numbers[0]

    @property
    def pause_us(self) -> int:
        return self._numbers[1]

    def begin(self, phase: int, pause_us: int) -> None:
        self._numbers[1] = pause_us
        self._numbers[0] = phase

    def see(self, worker: int, phase: int) -> None:
        self._numbers[2 + 2 * worker] = phase

    def add(self, worker: int) -> None:
        self._numbers[3 + 2 * worker] += 1

    @property
    def seen(self) -> set[int]:
        return set(self._numbers[2::2])

    @property
    def asked(self) -> int:
        return sum(self._numbers[3::2])


@dataclass
class MarketWorkers:
    url: str
    folder: Path
    count: int

    def __post_init__(self) -> None:
        self.board = Board.create(self.folder / "board", self.count)

    @contextmanager
    def running(self) -> Iterator[None]:
        module = "tests.faults.market_worker"
        arguments = [sys.executable, "-m", module, self.url, str(self.folder)]
        processes = [subprocess.Popen([*arguments, str(number)]) for number in range(self.count)]
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            codes = [process.wait(120) for process in processes]
        assert codes == [0] * self.count

    def told(self) -> list[Told]:
        files = (self.folder / f"told-{number}" for number in range(self.count))
        return [Told(**fields) for file in files for fields in json.loads(file.read_text())]


def requests(seed: int) -> Iterator[tuple[str, int]]:
    """What is asked for and by which client, without end."""
    random, cycle, client = Random(seed), [what for what, count in MIX.items() for _ in range(count)], 0
    while True:
        random.shuffle(cycle)
        for what in cycle:
            client += random.random() < 0.7
            yield what, client


def ask(limiter: Limiter, worker: int, phase: int, what: str, client: int) -> Told:
    is_lowered = what == "lowered"
    decision = limiter.check(
        tenant=TENANTS[client % len(TENANTS)],
        endpoint="critical:call" if is_lowered else f"{what}:call",
        subject={"key": f"client-{worker}-{client}"},
        priority=PRIORITIES[-1] if is_lowered else "",
        rows=True,
    )
    at_us = int(decision.receipt.partition(":")[0]) if decision.allowed and not decision.degraded else 0
    return Told(phase, what, decision.allowed, decision.degraded, at_us)


def work(url: str, folder: Path, number: int) -> None:
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    parent, board, told = os.getppid(), Board(folder / "board"), list[Told]()
    asked = requests(number)
    with Limiter.from_url(url, fail="closed", budget_ms=30_000) as limiter:
        limiter.ready(60_000)
        while not ended and os.getppid() == parent:
            phase, pause_us = board.phase, board.pause_us
            board.see(number, phase)
            if phase != IDLE:
                told.append(ask(limiter, number, phase, *next(asked)))
                board.add(number)
            time.sleep((pause_us or 1_000) / 1_000_000)
    (folder / f"told-{number}").write_text(json.dumps([asdict(one) for one in told]))


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
