"""What every algorithm offers: parameters, a reference model and the numbers for the headers.

The reference model is the oracle for the Lua kernels and the engine of replay. It decides on the same
state as Lua keeps, with whole numbers only, so both must agree to the last microsecond. At the end: what
algorithms with a limit per window, or with a counter for each period, share.
"""

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US

_UNITS_US = {
    "ms": 1_000,
    "s": SECOND_US,
    "m": 60 * SECOND_US,
    "h": 3_600 * SECOND_US,
    "d": DAY_US,
}
DURATION_PATTERN = "[1-9][0-9]{0,11}(ms|s|m|h|d)"
# For the schema, which cannot compare with EXACT_MAX (52,124 days): as many digits as are always below it.
_BELOW_EXACT_MAX = (
    "[1-9][0-9]{0,11}ms|[1-9][0-9]{0,8}s|[1-9][0-9]{0,6}m|[1-9][0-9]{0,5}h|([1-9][0-9]{0,3}|[1-4][0-9]{4})d"
)
_DURATION = re.compile(DURATION_PATTERN)


def parse_duration_us(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:20]!r} is not a duration; write one like 250ms, 1s, 5m, 1h or 1d")
    return int(text[: match.start(1)]) * _UNITS_US[match[1]]


def format_duration(us: int) -> str:
    for unit in ("d", "h", "m", "s", "ms"):
        if us % _UNITS_US[unit] == 0:
            return f"{us // _UNITS_US[unit]}{unit}"
    return f"{us}us"


def per_text(us: int) -> str:
    """The text after the slash: `s` in 100/s, `5min` in 100/5min. Not `m`, which could mean a month."""
    text = format_duration(us)
    if text.endswith("m"):
        text += "in"
    return text[1:] if text[0] == "1" and text[1:].isalpha() else text


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


# Everything Lua computes must fit a double exactly; 2^52 leaves room for one addition.
EXACT_MAX = 2**52

# Redis keeps state a little longer than a refill takes, so that expiry never admits more than waiting would.
TTL_SLACK_MS = 1_000

State = tuple[int, ...]  # of limits that share, one number is a float (chain.py)


class ParameterError(ValueError):
    """A parameter that cannot work. The message names the field and says what to write instead."""

    def __init__(self, field: str, message: str, code: str = "parameter") -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True)
class Verdict:
    admitted: bool
    remaining: int  # after the charge if admitted, before it otherwise
    reset_us: int  # until one more unit (buckets, log) or the period's end (windows); 0: full
    retry_us: int  # until this cost could pass; 0 if admitted; -1 if it never can
    wait_us: int  # how long an admitted request must wait for its turn
    quota: int | None = None  # of a limit that adapts: what it is now


@dataclass(frozen=True, slots=True)
class Level:
    """What is left, and how long until there is more (see Verdict)."""

    remaining: int
    reset_us: int


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    charged: State  # the state to keep if the request is charged
    kept: State | None  # the state if it is not; differs from the old one only after a clock repair


@dataclass(frozen=True, slots=True)
class Window:
    """The `q` and `w` of a RateLimit-Policy item."""

    quota: int
    seconds: int | None


class Algorithm(Protocol):
    """Immutable parameters of one limit, with its reference model."""

    name: ClassVar[str]
    kind: ClassVar[str]  # one letter, stored in the record's header
    width: ClassVar[int]  # how many numbers of the record are its own; 0: it has a key of its own
    parameters: ClassVar[tuple["Parameter", ...]]  # the fields that `parse` knows

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        """Reads its parameters, and removes them from `fields`. Raises ParameterError."""

    def describe(self) -> dict[str, Any]:
        """The parameters as `parse` takes them."""

    def words(self) -> str:
        """What the limit allows, in one line for people."""

    @property
    def capacity(self) -> int:
        """The largest cost that could ever pass."""

    @property
    def window(self) -> Window: ...

    def ttl_ms(self) -> int:
        """How long idle state must be kept; always longer than the time to become full."""

    def compiled(self) -> dict[str, Any]:
        """The numbers the Lua kernel reads, under one- or two-letter names."""

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome: ...

    def level(self, state: State | None, now_us: int) -> Level:
        """What `decide` would report now, without a request."""

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        """The state after giving back what a decision charged, if it is still charged.

        `given_us` is the decision's time, `tat_us` (buckets only) the TAT at which its charge ends (moves.py); 0 if
        nothing is left of it.
        """

    def used(self, state: State, at_us: int) -> float:
        """Units in use at that moment. A double, computed in the same order as in Lua."""

    def with_used(self, used: float, at_us: int) -> State:
        """The state of a subject that has used this many units."""

    def scaled(self, numerator: int, denominator: int) -> Self:
        """Rate and capacity times this fraction: the rate exactly, capacities rounded down to at least 1."""


@runtime_checkable
class CarriesItself(Protocol):
    """An algorithm whose state is more than one number of units."""

    def carried(self, old: Any, state: State, at_us: int, is_proportional: bool) -> State:
        """The state after parameters changed from `old`, which is of the same kind."""


def carry_over(old: Algorithm, new: Algorithm, state: State, at_us: int, mode: str) -> State | None:
    """The state after parameters changed from `old` to `new` at `at_us`; None is a fresh start."""
    if old.kind != new.kind:
        return None
    if new.kind == "c":  # requests in flight stay in flight
        return state
    if mode == "reset":
        return None
    if new.kind == "l":  # departure slots were already promised, so the TAT stays
        return (state[0] + (state[1] > 0), 0)
    if isinstance(new, CarriesItself):
        return new.carried(old, state, at_us, is_proportional=mode == "proportional")
    used = old.used(state, at_us)
    if mode == "proportional":
        used = used * new.capacity / old.capacity
    return new.with_used(min(used, float(new.capacity)), at_us)


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 tenant`, `1,200 tenants`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def scaled_size(size: int, numerator: int, denominator: int) -> int:
    if numerator < 1 or denominator < 1:
        raise ParameterError("multiplier", "multiplier must be above 0; suspend the tenant to refuse everything")
    return max(1, size * numerator // denominator)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One field of an algorithm, as an author writes it. The JSON Schema of a policy is made from these."""

    name: str
    description: str = ""
    default: str | None = None
    is_required: bool = True

    def schema(self) -> dict[str, Any]:
        stated = {"default": self.default, "description": self.description}
        return {**self._values(), **{keyword: text for keyword, text in stated.items() if text}}

    def _values(self) -> dict[str, Any]:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class WholeNumber(Parameter):
    most: int = EXACT_MAX
    least: int = 1

    @property
    def wanted(self) -> str:
        return f"a whole number of at least {self.least}"

    def read(self, fields: dict[str, Any], default: int | None = None) -> int:
        name, value = self.name, fields.pop(self.name, default)
        if value is None:
            raise ParameterError(name, f"{name} is missing; give {self.wanted}")
        if isinstance(value, bool) or not isinstance(value, int) or value < self.least:
            raise ParameterError(name, f"{name} must be {self.wanted}, not {shown(value)}")
        if value > EXACT_MAX:
            raise ParameterError(name, f"{name} is above {EXACT_MAX:,} (2^52), the most that can be counted exactly")
        return value

    def _values(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Duration(Parameter):
    def read(self, fields: dict[str, Any]) -> int:
        """Whole microseconds."""
        name, text = self.name, fields.pop(self.name, self.default)
        if text is None:
            raise ParameterError(name, f"{name} is missing; write a duration like 1s, 1m or 1h")
        if not isinstance(text, str):
            raise ParameterError(name, f"{name} must be a duration like 250ms, 1s, 5m, 1h or 1d, not {shown(text)}")
        try:
            span_us = parse_duration_us(text)
        except ValueError as error:
            raise ParameterError(name, f"{name}: {error}") from None
        if span_us > EXACT_MAX:
            longest = format_duration(EXACT_MAX // DAY_US * DAY_US)
            raise ParameterError(name, f"{name} is longer than {longest}; shorten it")
        return span_us

    def _values(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^({_BELOW_EXACT_MAX})$"}


LIMIT = WholeNumber("limit", "units per window or period, or requests in flight")
WINDOW = Duration("window")


@dataclass(frozen=True, slots=True)
class PerWindow:
    """Shared by the algorithms whose parameters are a limit and a window."""

    limit: int
    window_us: int

    parameters: ClassVar[tuple[Parameter, ...]] = (LIMIT, WINDOW)

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        return cls(LIMIT.read(fields), WINDOW.read(fields))

    def describe(self) -> dict[str, Any]:
        return {"limit": self.limit, "window": format_duration(self.window_us)}

    def compiled(self) -> dict[str, Any]:
        return {"n": self.limit, "W": self.window_us}

    @property
    def capacity(self) -> int:
        return self.limit

    @property
    def window(self) -> Window:
        if self.window_us >= SECOND_US:
            return Window(self.limit, ceil_div(self.window_us, SECOND_US))
        # The header counts whole seconds, so a shorter window is stated as what it allows in one second.
        return Window(self.limit * SECOND_US // self.window_us, 1)

    def scaled(self, numerator: int, denominator: int) -> Self:
        return replace(self, limit=scaled_size(self.limit, numerator, denominator))


@dataclass(frozen=True, slots=True)
class _Current:
    """The current period and its count."""

    period: int
    count: int
    end_us: int
    kept: State | None


class PeriodCounter(ABC):
    """The model of one counter for each period, shared by fixed windows and calendar quotas.

    State is the period (the index of a window, or the start in whole seconds) and the count in it. A stored
    period ahead of the clock by at most one stays the current one: adopting the earlier one would admit
    twice. Further ahead, its count moves into the current period.
    """

    __slots__ = ()

    limit: int
    width: ClassVar[int] = 2

    @abstractmethod
    def _period(self, now_us: int) -> int: ...

    @abstractmethod
    def end_us(self, period: int) -> int: ...

    @abstractmethod
    def _far_ahead(self, period: int, current: int) -> bool:
        """Whether `period` is more than one period after the current one."""

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        current = self._current(state, now_us)
        end_us = current.end_us - now_us
        if current.count + cost <= self.limit:
            count = current.count + cost
            verdict = Verdict(True, self.limit - count, end_us, 0, 0)
            return Outcome(verdict, (current.period, count), current.kept)
        left = self._level(current, now_us)
        verdict = Verdict(False, left.remaining, left.reset_us, -1 if cost > self.limit else end_us, 0)
        return Outcome(verdict, (current.period, current.count), current.kept)

    def level(self, state: State | None, now_us: int) -> Level:
        return self._level(self._current(state, now_us), now_us)

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        current = self._current(state, now_us)
        if current.kept is None or current.kept[0] != current.period or self._period(given_us) != current.period:
            return None
        return (current.period, max(0, current.count - cost))

    def _level(self, current: _Current, now_us: int) -> Level:
        return Level(max(0, self.limit - current.count), current.end_us - now_us if current.count else 0)

    def _current(self, state: State | None, now_us: int) -> _Current:
        period = self._period(now_us)
        if state is None or state[0] < period:
            return _Current(period, 0, self.end_us(period), state)
        if state[0] > period and self._far_ahead(state[0], period):
            state = (period, state[1])
        return _Current(state[0], state[1], self.end_us(state[0]), state)

    def used(self, state: State, at_us: int) -> float:
        return float(self._current(state, at_us).count)

    def with_used(self, used: float, at_us: int) -> State:
        return (self._period(at_us), math.ceil(used))
