"""Token bucket, GCRA meter and leaky bucket: one number of state (the theoretical arrival time, TAT).

The interval between two units is P/Q microseconds in lowest terms. State is TAT in whole microseconds
plus a numerator 0 <= frac < Q, so nothing drifts however long the bucket runs. "Backlog" is the time
until the bucket is full again, counted in 1/Q microseconds.
"""

import math
import re
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import gcd
from typing import Any, ClassVar, Self

from headroom_edge.algorithms.base import (
    EXACT_MAX,
    SECOND_US,
    TTL_SLACK_MS,
    Duration,
    Level,
    Outcome,
    Parameter,
    ParameterError,
    State,
    Verdict,
    WholeNumber,
    Window,
    ceil_div,
    format_duration,
    per_text,
    scaled_size,
    shown,
)

MOST_DECIMALS = 6
MOST_DIGITS = 15  # more than these a JSON number does not keep
# A rate as people write it: the number, how many of its time, and which, such as 4.2, 10 and s.
RATE_TEXT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(?:/([1-9][0-9]{0,11})?(ms|s|m|min|h|d))?", re.ASCII)
_RATE_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,6})?/([1-9][0-9]{0,11})?(ms|s|m|min|h|d)$"  # for the schema


@dataclass(frozen=True, slots=True)
class Rate(WholeNumber):
    """A number above 0. With decimals it is kept as whole numbers, 4.2 per 10 s as 42 per 100 s, and shown as typed.

    As text it may name its time: `4.2/10s`.
    """

    @property
    def wanted(self) -> str:
        return "a number above 0, such as 100, 4.2 or 4.2/10s"

    def read_rate(self, fields: dict[str, Any]) -> tuple[int, int, int]:
        """Rate and microseconds, whole, and how many decimals were typed."""
        if isinstance(fields.get("rate"), str):
            self.split(fields)
        value = fields.get("rate")
        # How a limit is stored (quotas.policies.limit_codec): whole already, with the decimals to show.
        decimals = fields.pop("decimals", 0)
        if isinstance(value, float) and not value.is_integer():
            fields["rate"], decimals = self._whole(value)
            rate, per_us = self.read(fields), PER.read(fields) * 10**decimals
        else:
            fields["rate"] = int(value) if isinstance(value, float) and abs(value) < EXACT_MAX else value
            rate, per_us = self.read(fields), PER.read(fields)
        if per_us > EXACT_MAX:
            raise ParameterError("rate", "rate has too many decimals for so long a per; write fewer, or shorten per")
        return rate, per_us, decimals

    def split(self, fields: dict[str, Any]) -> None:
        """Writes a rate that is text as a number, and the time that it names as `per`."""
        found = RATE_TEXT.fullmatch(fields["rate"])
        if found is None or found[0].isdigit():
            return  # `read` says what to write
        if found[3]:
            if fields.get("per") is not None:
                what = f"rate {fields['rate']} has its own time"
                raise ParameterError("rate", f"{what}; remove per, or write only {found[1]}")
            fields["per"] = f"{found[2] or 1}{found[3].removesuffix('in')}"
        fields["rate"] = float(found[1]) if "." in found[1] else int(found[1])

    def _whole(self, value: float) -> tuple[int, int]:
        if not math.isfinite(value) or value <= 0:
            raise ParameterError("rate", f"rate must be above 0, not {shown(value)}")
        typed = Decimal(repr(value)).normalize()
        decimals = -int(typed.as_tuple().exponent)
        if decimals > MOST_DECIMALS or len(typed.as_tuple().digits) > MOST_DIGITS:
            most = f"{MOST_DECIMALS} decimals and {MOST_DIGITS} digits"
            raise ParameterError("rate", f"rate {shown(value)} has more than {most}; round it, or lengthen per")
        return int(typed.scaleb(decimals)), decimals

    def _values(self) -> dict[str, Any]:
        number = {"type": "number", "exclusiveMinimum": 0, "maximum": self.most}
        text = {"type": "string", "pattern": _RATE_PATTERN}
        return {"anyOf": [number, text]}


RATE = Rate("rate", "units per `per`; 4.2 is kept exactly, and 4.2/10s has its own `per`")
PER = Duration("per", default="1s", is_required=False)
BURST = WholeNumber("burst", "units at once; token_bucket: 2 × rate by default, gcra: 1", is_required=False)
QUEUE = WholeNumber("queue", "units that may wait")
MAX_WAIT = Duration("max_wait", "how long an admitted request may be told to wait", is_required=False)


def rate_text(rate: int | float) -> str:
    """`1,000`, `4.2`, `0.000001`."""
    return f"{rate:,}" if isinstance(rate, int) else f"{Decimal(repr(rate)):,f}"


@dataclass(frozen=True, slots=True)
class _Bucket:
    rate: int
    per_us: int
    size: int  # burst, or queue
    max_wait_us: int = 0
    decimals: int = field(default=0, compare=False)  # of the rate as typed: rate and per_us are 10^decimals times that
    P: int = field(init=False, repr=False, compare=False)  # the letters of the formula
    Q: int = field(init=False, repr=False, compare=False)

    name: ClassVar[str]
    kind: ClassVar[str]
    size_field: ClassVar[str] = "burst"
    width: ClassVar[int] = 2

    def __post_init__(self) -> None:
        common = gcd(self.per_us, self.rate)
        object.__setattr__(self, "P", self.per_us // common)
        object.__setattr__(self, "Q", self.rate // common)
        if self.size * self.P > EXACT_MAX:
            raise ParameterError(
                self.size_field,
                f"{self.size_field} × per is too large to count exactly; "
                f"lower {self.size_field}, shorten per, or use fixed_window",
            )
        if self._most > EXACT_MAX:
            raise ParameterError("max_wait", "max_wait is too long to count exactly at this rate; shorten it")
        if self.Q >= 2**32:
            raise ParameterError("rate", "rate is too high to count exactly; lower it below 4e9")

    @property
    def _most(self) -> int:
        """The largest backlog an admitted request can leave."""
        return self.size * self.P + self.max_wait_us * self.Q

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
        backlog, kept = self.backlog(state, now_us)
        if cost > self.size:
            return self._denied(backlog, -1, now_us, kept)
        after = backlog + cost * self.P
        if after > self._most:
            return self._denied(backlog, ceil_div(after - self._most, self.Q), now_us, kept)
        charged = self.state_at(after, now_us)
        left = self.level_at(after)
        verdict = Verdict(True, left.remaining, left.reset_us, 0, self._wait_us(backlog, after))
        return Outcome(verdict, charged, kept)

    def level(self, state: State | None, now_us: int) -> Level:
        return self.level_at(self.backlog(state, now_us)[0])

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        backlog, _ = self.backlog(state, now_us)
        left = min(backlog, self.left_of(cost * self.P, now_us, given_us, tat_us))
        return self.state_at(backlog - left, now_us) if left > 0 else None

    def left_of(self, charge: int, now_us: int, given_us: int, tat_us: int) -> int:
        """What has not flowed back yet of a charge that ends at this TAT, rounded down; 0: nothing is left.

        Whatever came before it, no more of it has flowed back than time has passed since it was made.
        """
        if tat_us == 0:
            return 0
        return min(charge, max((tat_us - now_us) * self.Q, charge - (now_us - given_us) * self.Q))

    def backlog(self, state: State | None, now_us: int) -> tuple[int, State | None]:
        """The backlog, and the state to keep, which differs from the old one only after a clock repair."""
        if state is None or state[0] < now_us:
            return 0, state
        backlog = (state[0] - now_us) * self.Q + state[1]
        if backlog <= self._most:
            return backlog, state
        # The clock went back: nobody waits longer than one full refill from here on.
        return self._most, self.state_at(self._most, now_us)

    def state_at(self, backlog: int, now_us: int) -> State:
        return (now_us + backlog // self.Q, backlog % self.Q)

    def level_at(self, backlog: int) -> Level:
        full = self.size * self.P
        if backlog >= full:
            return Level(0, ceil_div(backlog - full + self.P, self.Q))
        left = (full - backlog) // self.P
        if left == self.size:
            return Level(left, 0)
        return Level(left, ceil_div(backlog - (full - (left + 1) * self.P), self.Q))

    def _denied(self, backlog: int, retry_us: int, now_us: int, kept: State | None) -> Outcome:
        left = self.level_at(backlog)
        verdict = Verdict(False, left.remaining, left.reset_us, retry_us, 0)
        return Outcome(verdict, self.state_at(backlog, now_us), kept)

    def _wait_us(self, backlog: int, after: int) -> int:
        return max(0, ceil_div(after - self.size * self.P, self.Q))

    def used(self, state: State, at_us: int) -> float:
        if state[0] < at_us:
            return 0.0
        return ((state[0] - at_us) * self.Q + state[1]) / self.P

    def with_used(self, used: float, at_us: int) -> State:
        return (at_us + math.ceil(used * self.P / self.Q), 0)

    def scaled(self, numerator: int, denominator: int) -> Self:
        common = gcd(self.rate * numerator, denominator)
        return replace(
            self,
            rate=self.rate * numerator // common,
            per_us=self.per_us * (denominator // common),
            decimals=self.decimals if common == denominator else 0,
            size=scaled_size(self.size, numerator, denominator),
        )

    @property
    def typed_rate(self) -> int | float:
        """In `typed_per_us`. A float with at most MOST_DIGITS, so its shortest text is the decimal number itself."""
        whole, rest = divmod(self.rate, 10**self.decimals)
        return whole if rest == 0 else float(Decimal(self.rate).scaleb(-self.decimals))

    @property
    def typed_per_us(self) -> int:
        scale: int = 10**self.decimals
        return self.per_us // scale

    @property
    def rate_words(self) -> str:
        """`1,000/s`, `4.2/10s`."""
        return f"{rate_text(self.typed_rate)}/{per_text(self.typed_per_us)}"

    def describe(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "rate": self.typed_rate,
            "per": format_duration(self.typed_per_us),
            self.size_field: self.size,
        }
        if self.max_wait_us:
            fields["max_wait"] = format_duration(self.max_wait_us)
        return fields


@dataclass(frozen=True, slots=True)
class TokenBucket(_Bucket):
    name: ClassVar[str] = "token_bucket"
    kind: ClassVar[str] = "t"
    parameters: ClassVar[tuple[Parameter, ...]] = (RATE, PER, BURST, MAX_WAIT)

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        rate, per_us, decimals = RATE.read_rate(fields)
        burst = BURST.read(fields, default=max(1, 2 * rate // 10**decimals))
        wait_us = MAX_WAIT.read(fields) if fields.get("max_wait") is not None else 0
        return cls(rate, per_us, burst, wait_us, decimals)

    def words(self) -> str:
        return f"{self.rate_words} sustained, up to {self.size:,} at once"


@dataclass(frozen=True, slots=True)
class Gcra(_Bucket):
    name: ClassVar[str] = "gcra"
    kind: ClassVar[str] = "g"
    parameters: ClassVar[tuple[Parameter, ...]] = (RATE, PER, BURST)

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        rate, per_us, decimals = RATE.read_rate(fields)
        return cls(rate, per_us, BURST.read(fields, default=1), decimals=decimals)

    def words(self) -> str:
        return f"{self.rate_words} evenly spaced, up to {self.size:,} at once"


@dataclass(frozen=True, slots=True)
class LeakyBucket(_Bucket):
    """Shaping: every admitted request gets its own departure slot, and waits for it."""

    name: ClassVar[str] = "leaky_bucket"
    kind: ClassVar[str] = "l"
    parameters: ClassVar[tuple[Parameter, ...]] = (RATE, PER, QUEUE)
    size_field: ClassVar[str] = "queue"

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        rate, per_us, decimals = RATE.read_rate(fields)
        return cls(rate, per_us, QUEUE.read(fields), decimals=decimals)

    def words(self) -> str:
        return f"smoothed to {self.rate_words}, up to {self.size:,} waiting"

    def _wait_us(self, backlog: int, after: int) -> int:
        return ceil_div(backlog, self.Q)
