"""A bucket or meter that follows the health of its endpoint: the reference model, with the factor as an input.

The factor, in 1/1000, scales the cost of a request and never the rate. lua/scaled_bucket.lua must agree with it.
"""

from dataclasses import dataclass
from math import gcd
from typing import Final

from headroom_edge.algorithms.base import Level, Outcome, State, Verdict, ceil_div
from headroom_edge.algorithms.bucket import Gcra, TokenBucket

WHOLE: Final = 1_000  # the factor of a limit as it is configured


@dataclass(frozen=True, slots=True)
class AdaptedBucket:
    bucket: TokenBucket | Gcra
    factor: int
    least: int  # the smallest factor that it can have; decides how far back a clock may have gone

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        """A request whose scaled cost is above the burst passes a full bucket, and leaves a longer wait behind it."""
        bucket = self.bucket
        backlog, kept = self._backlog(state, now_us)
        needed = backlog + min(self.charge(cost), self._full)
        if cost > bucket.size or needed > self._most:
            left = self._level(backlog)
            retry_us = -1 if cost > bucket.size else ceil_div(needed - self._most, bucket.Q)
            return Outcome(
                Verdict(False, left.remaining, left.reset_us, retry_us, 0), self._state(backlog, now_us), kept
            )
        after = backlog + self.charge(cost)
        left = self._level(after)
        wait_us = max(0, ceil_div(needed - self._full, bucket.Q))
        return Outcome(Verdict(True, left.remaining, left.reset_us, 0, wait_us), self._state(after, now_us), kept)

    def level(self, state: State | None, now_us: int) -> Level:
        return self._level(self._backlog(state, now_us)[0])

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        """With the factor of the decision that is taken back."""
        backlog, _ = self._backlog(state, now_us)
        left = min(backlog, self.bucket.left_of(self.charge(cost), now_us, given_us, tat_us))
        return self._state(backlog - left, now_us) if left > 0 else None

    def charge(self, cost: int) -> int:
        return scaled_charge(cost * self.bucket.P, self.factor)

    @property
    def _full(self) -> int:
        return self.bucket.size * self.bucket.P

    @property
    def _most(self) -> int:
        return self._full + self.bucket.max_wait_us * self.bucket.Q

    @property
    def _far(self) -> int:
        """The largest backlog that a request can leave."""
        return self._most - self._full + scaled_charge(self._full, self.least)

    def _backlog(self, state: State | None, now_us: int) -> tuple[int, State | None]:
        if state is None or state[0] < now_us:
            return 0, state
        backlog = (state[0] - now_us) * self.bucket.Q + state[1]
        if backlog <= self._far:
            return backlog, state
        return self._far, self._state(self._far, now_us)

    def _state(self, backlog: int, now_us: int) -> State:
        return (now_us + backlog // self.bucket.Q, backlog % self.bucket.Q)

    def _level(self, backlog: int) -> Level:
        """How many requests of cost 1 pass, and when one more does."""
        full, unit = self._full, self.charge(1)
        left = max(0, full - backlog) // unit
        if left == 0 and backlog == 0:
            left = 1
        if left > 0 and (left + 1) * unit > full:
            return Level(left, 0)
        return Level(left, ceil_div(backlog - max(0, full - (left + 1) * unit), self.bucket.Q))


def scaled_charge(charge: int, factor: int) -> int:
    return ceil_div(charge * WHOLE, factor)


def longest_ms(bucket: TokenBucket | Gcra, least: int) -> int:
    """How long a record must be kept for a bucket whose factor may fall so low."""
    common = gcd(WHOLE, least)
    return ceil_div(bucket.ttl_ms() * (WHOLE // common), least // common)
