"""How far a bucket's TAT went back: what a refund must know about the refunds before it. lua/moved.lua says why."""

from dataclasses import dataclass, field
from typing import Final

KEPT: Final = 32
GONE_US: Final = 2**51  # nothing is left of any earlier charge


@dataclass(slots=True)
class Moves:
    steps: list[tuple[int, int]] = field(default_factory=list)  # when, and by how many microseconds; oldest first

    def add(self, now_us: int, us: int) -> None:
        self.steps.append((now_us, us))
        if len(self.steps) > KEPT:
            (one_us, one), (other_us, other) = self.steps[:2]
            self.steps[:2] = [(max(one_us, other_us), min(GONE_US, one + other))]

    def end_of(self, given_us: int, tat_us: int, now_us: int) -> int:
        """The TAT at which a charge ends by now, if it ended at `tat_us` when it was made; 0: nothing is left of it."""
        if now_us >= tat_us:
            return 0
        back_us = sum(us for when_us, us in self.steps if when_us >= given_us)
        return max(1, tat_us - back_us) if back_us < GONE_US else 0
