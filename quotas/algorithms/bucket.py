"""Token bucket, GCRA meter and leaky bucket: one number of state (the theoretical arrival time, TAT).

The interval between two units is P/Q microseconds in lowest terms. State is TAT in whole microseconds
plus a numerator 0 <= frac < Q, so nothing drifts however long the bucket runs. "Backlog" is the time
until the bucket is full again, counted in 1/Q microseconds.
"""

import math
from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar, Self

from quotas.algorithms.base import EXACT_MAX, Outcome, ParameterError, State, Verdict, Window, whole
from quotas.algorithms.units import SECOND_US, ceil_div, format_duration, parse_duration_us

# A record is kept a little longer than it needs to refill, so that expiry never gives more than waiting.
TTL_SLACK_MS = 1_000


def duration(fields: dict[str, Any], name: str, default: str | None = None) -> int:
    text = fields.pop(name, default)
    if text is None:
        raise ParameterError(name, f"{name} is missing; write a duration like 1s, 1m or 1h")
    if not isinstance(text, str):
        raise ParameterError(name, f"{name} must be a duration like 250ms, 1s, 5m, 1h or 1d")
    try:
        return parse_duration_us(text)
    except ValueError as error:
        raise ParameterError(name, f"{name}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Bucket:
    rate: int
    per_us: int
    size: int  # burst, or queue
    max_wait_us: int = 0

    name: ClassVar[str]
    kind: ClassVar[str]
    size_field: ClassVar[str] = "burst"
    width: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.size * self.P > EXACT_MAX or self.max_wait_us * self.Q > EXACT_MAX:
            raise ParameterError(
                self.size_field,
                f"{self.size_field} × per is too large to count exactly; "
                f"lower {self.size_field}, shorten per, or use fixed_window",
            )
        if self.Q >= 2**32:
            raise ParameterError("rate", "rate is too high to count exactly; lower it below 4e9")

    @property
    def P(self) -> int:  # noqa: N802 - the letters of the formula
        return self.per_us // gcd(self.per_us, self.rate)

    @property
    def Q(self) -> int:  # noqa: N802
        return self.rate // gcd(self.per_us, self.rate)

    @property
    def capacity(self) -> int:
        return self.size

    @property
    def window(self) -> Window:
        refill_us = ceil_div(self.size * self.P, self.Q)
        if refill_us >= SECOND_US:
            return Window(self.size, ceil_div(refill_us, SECOND_US))
        return Window(max(1, self.rate * SECOND_US // self.per_us), 1)

    def ttl_ms(self) -> int:
        return ceil_div(self.size * self.P, self.Q * 1_000) + self.max_wait_us // 1_000 + TTL_SLACK_MS

    def compiled(self) -> dict[str, Any]:
        return {"P": self.P, "Q": self.Q, "n": self.size, "mw": self.max_wait_us}

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        full = self.size * self.P
        backlog, kept = self._backlog(state, now_us)
        if cost > self.size:
            return self._denied(backlog, -1, now_us, kept)
        after = backlog + cost * self.P
        limit = full + self.max_wait_us * self.Q
        if after > limit:
            return self._denied(backlog, ceil_div(after - limit, self.Q), now_us, kept)
        charged = self._state(after, now_us)
        verdict = Verdict(True, *self._level(after), 0, self._wait_us(backlog, after))
        return Outcome(verdict, charged, kept)

    def _backlog(self, state: State | None, now_us: int) -> tuple[int, State | None]:
        if state is None or state[0] < now_us:
            return 0, state
        backlog = (state[0] - now_us) * self.Q + state[1]
        most = self.size * self.P + self.max_wait_us * self.Q
        if backlog <= most:
            return backlog, state
        # The clock went back: nobody waits longer than one full refill from here on.
        return most, self._state(most, now_us)

    def _state(self, backlog: int, now_us: int) -> State:
        return (now_us + backlog // self.Q, backlog % self.Q)

    def _level(self, backlog: int) -> tuple[int, int]:
        """Units left, and microseconds until there is one more."""
        full = self.size * self.P
        if backlog >= full:
            return 0, ceil_div(backlog - full + self.P, self.Q)
        left = (full - backlog) // self.P
        if left == self.size:
            return left, 0
        return left, ceil_div(backlog - (full - (left + 1) * self.P), self.Q)

    def _denied(self, backlog: int, retry_us: int, now_us: int, kept: State | None) -> Outcome:
        left, reset_us = self._level(backlog)
        verdict = Verdict(False, left, reset_us, retry_us, 0)
        return Outcome(verdict, self._state(backlog, now_us), kept)

    def _wait_us(self, backlog: int, after: int) -> int:
        return max(0, ceil_div(after - self.size * self.P, self.Q))

    def used(self, state: State, at_us: int) -> float:
        if state[0] < at_us:
            return 0.0
        return ((state[0] - at_us) * self.Q + state[1]) / self.P

    def with_used(self, used: float, at_us: int) -> State:
        return (at_us + math.ceil(used * self.P / self.Q), 0)

    def describe(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "rate": self.rate,
            "per": format_duration(self.per_us),
            self.size_field: self.size,
        }
        if self.max_wait_us:
            fields["max_wait"] = format_duration(self.max_wait_us)
        return fields


@dataclass(frozen=True, slots=True)
class TokenBucket(_Bucket):
    name: ClassVar[str] = "token_bucket"
    kind: ClassVar[str] = "t"

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        rate = whole(fields, "rate")
        max_wait = fields.pop("max_wait", None)
        return cls(
            rate,
            duration(fields, "per", "1s"),
            whole(fields, "burst", default=2 * rate),
            duration({"max_wait": max_wait}, "max_wait") if max_wait else 0,
        )

    def words(self) -> str:
        return f"{self.rate}/{format_duration(self.per_us)} sustained, up to {self.size} at once"


@dataclass(frozen=True, slots=True)
class Gcra(_Bucket):
    name: ClassVar[str] = "gcra"
    kind: ClassVar[str] = "g"

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        return cls(whole(fields, "rate"), duration(fields, "per", "1s"), whole(fields, "burst", 1))

    def words(self) -> str:
        gap = ceil_div(self.P, self.Q)
        return f"one request each {gap:,} µs, {self.size} tolerated at once"


@dataclass(frozen=True, slots=True)
class LeakyBucket(_Bucket):
    """Shaping: every admitted request gets its own departure slot, and waits for it."""

    name: ClassVar[str] = "leaky_bucket"
    kind: ClassVar[str] = "l"
    size_field: ClassVar[str] = "queue"

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        return cls(whole(fields, "rate"), duration(fields, "per", "1s"), whole(fields, "queue"))

    def words(self) -> str:
        return f"smoothed to {self.rate}/{format_duration(self.per_us)}, up to {self.size} waiting"

    def _wait_us(self, backlog: int, after: int) -> int:
        return ceil_div(backlog, self.Q)
