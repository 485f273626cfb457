"""A progress bar: redrawn in place on a terminal, otherwise one line for the first percent and for every 10 %."""

from __future__ import annotations

import time
from typing import Any

WIDTH = 30
EVERY_S = 0.1


class ProgressBar:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._is_terminal = bool(getattr(stream, "isatty", lambda: False)())
        self._stage = ""
        self._mark = -1
        self._drawn_s = 0.0

    def show(self, stage: str, done: int, total: int) -> None:
        share = min(1.0, done / max(1, total))
        if self._is_terminal:
            self._draw(stage, share)
        elif (stage, _mark(share)) != (self._stage, self._mark):
            self._stream.write(f"{stage} {share:.0%}")
            self._stage, self._mark = stage, _mark(share)

    def _draw(self, stage: str, share: float) -> None:
        now = time.monotonic()
        if now - self._drawn_s < EVERY_S and share < 1 and stage == self._stage:
            return
        filled = "#" * int(share * WIDTH)
        self._stream.write(f"\r{stage:<10} [{filled:<{WIDTH}}] {share:4.0%}", ending="")
        self._stage, self._drawn_s = stage, now

    def end(self) -> None:
        if self._is_terminal and self._stage:
            self._stream.write("\r" + " " * (WIDTH + 20) + "\r", ending="")


def _mark(share: float) -> int:
    """The last of 0, 1, 10, 20 … 100 per cent that is reached. The first percent shows early how long it will take."""
    return int(share * 10) * 10 or int(share >= 0.01)
