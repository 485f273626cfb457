"""Limits requests in flight. A holder that never releases expires after `hold`.

State here is the expiry of every holder, soonest first; the store knows the holders themselves. A request counts
as one whatever its cost.
"""

import math
from bisect import bisect_right, insort
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from headroom_edge.algorithms.base import (
    LIMIT,
    SECOND_US,
    TTL_SLACK_MS,
    Duration,
    Level,
    Outcome,
    Parameter,
    State,
    Verdict,
    Window,
    ceil_div,
    format_duration,
    scaled_size,
)

# It is not known when a holder will release, so a denied caller is told to retry after this.
RETRY_HINT_US = SECOND_US

HOLD = Duration("hold", "after which a request that never ends is given up")


@dataclass(frozen=True, slots=True)
class Concurrency:
    limit: int
    hold_us: int

    name: ClassVar[str] = "concurrency"
    kind: ClassVar[str] = "c"
    parameters: ClassVar[tuple[Parameter, ...]] = (LIMIT, HOLD)
    width: ClassVar[int] = 0

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        return cls(LIMIT.read(fields), HOLD.read(fields))

    def describe(self) -> dict[str, Any]:
        return {"limit": self.limit, "hold": format_duration(self.hold_us)}

    def words(self) -> str:
        hold = format_duration(self.hold_us)
        return f"{self.limit:,} in flight at once; a slot that is never released expires after {hold}"

    @property
    def capacity(self) -> int:
        return self.limit

    @property
    def window(self) -> Window:
        return Window(self.limit, None)

    def ttl_ms(self) -> int:
        # Two holds: the farthest an expiry can be ahead after the clock went back.
        return ceil_div(2 * self.hold_us, 1_000) + TTL_SLACK_MS

    def compiled(self) -> dict[str, Any]:
        return {"n": self.limit, "H": self.hold_us}

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        mended = self.mended(state or (), now_us)
        live, kept = self.live(mended, now_us), mended if state else state
        if len(live) >= self.limit:
            return Outcome(Verdict(False, 0, 0, RETRY_HINT_US, 0), live, kept)
        held = list(live)
        insort(held, now_us + self.hold_us)
        return Outcome(Verdict(True, self.limit - len(held), 0, 0, 0), tuple(held), kept)

    def mended(self, expiries: State, now_us: int) -> State:
        """An expiry more than two holds ahead means that the clock went back: it becomes one hold from now.

        Two, because a holder that waits for its turn may correctly end later than one hold from now.
        """
        if not expiries or expiries[-1] <= now_us + 2 * self.hold_us:
            return expiries
        sane = expiries[: bisect_right(expiries, now_us + 2 * self.hold_us)]
        return tuple(sorted(sane + (now_us + self.hold_us,) * (len(expiries) - len(sane))))

    def level(self, state: State | None, now_us: int) -> Level:
        return Level(max(0, self.limit - len(self.live(state or (), now_us))), 0)

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        return None  # a slot is released, not refunded

    def live(self, expiries: State, now_us: int) -> State:
        return expiries[bisect_right(expiries, now_us) :]

    def used(self, state: State, at_us: int) -> float:
        return float(len(self.live(state, at_us)))

    def with_used(self, used: float, at_us: int) -> State:
        return (at_us + self.hold_us,) * math.ceil(used)

    def scaled(self, numerator: int, denominator: int) -> Self:
        return replace(self, limit=scaled_size(self.limit, numerator, denominator))
