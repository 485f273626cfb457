"""Pool and borrowing: limits that share. A borrowing limit names its parent, so limits form a chain from leaf to pool.

A member of a pool has its assured share whatever the others do; beyond it, it borrows what the pool has left, up to its
ceiling. A chain is judged as one unit (chain.py). By itself a limit knows only what is its own: that is what `decide`
judges, for processes that have lost the store.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, ClassVar, Self

from headroom_edge.algorithms.base import (
    EXACT_MAX,
    SECOND_US,
    TTL_SLACK_MS,
    Level,
    Outcome,
    Parameter,
    ParameterError,
    State,
    Verdict,
    WholeNumber,
    Window,
    format_duration,
    per_text,
    scaled_size,
    shown,
)
from headroom_edge.algorithms.bucket import PER, RATE, TokenBucket

MOST_LEVELS = 3
MOST_WEIGHT = 1_000_000
MOST_DEBT_MS = 60_000  # how far ahead of now loans may put a member's turn to borrow

POOL_BURST = WholeNumber("burst", "units at once", is_required=False)
RESERVE = WholeNumber("reserve", "units of the burst that are kept for assured shares", "0", False, least=0)
ASSURED = WholeNumber("assured", "units per `per` that are always its own", "0", False, least=0)
ASSURED_BURST = WholeNumber("burst", "units of its own share at once", is_required=False)
CEILING = WholeNumber("ceiling", "units per `per` at most, with what it borrows", is_required=False)
CEILING_BURST = WholeNumber("ceiling_burst", "units at once at most, with what it borrows", is_required=False)
WEIGHT = WholeNumber(
    "weight", "its part of what is lent: the assured share by default", is_required=False, most=MOST_WEIGHT
)
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class LimitName(Parameter):
    """The name of another limit."""

    def read(self, fields: dict[str, Any]) -> str:
        value = fields.pop(self.name, None)
        if value is None:
            raise ParameterError(self.name, f"{self.name} is missing; name the limit that it borrows from", "missing")
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise ParameterError(self.name, f"{self.name} must be the name of a limit, not {shown(value)}")
        return value

    def _values(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{_NAME.pattern}$"}


PARENT = LimitName("parent", "the limit of the same plan that it borrows from: a pool, or another borrowing limit")


def _reserve(fields: dict[str, Any], burst: int) -> int:
    reserve = RESERVE.read(fields, default=0)
    if reserve > burst:
        raise ParameterError("reserve", f"reserve cannot be above the burst of {burst:,}; lower it, or raise burst")
    return reserve


@dataclass(frozen=True, slots=True)
class Pool:
    rate: int
    per_us: int
    burst: int
    reserve: int = 0
    decimals: int = field(default=0, compare=False)  # of the rate as typed (bucket.py)
    bucket: TokenBucket = field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "pool"
    kind: ClassVar[str] = "p"
    width: ClassVar[int] = 4
    parameters: ClassVar[tuple[Parameter, ...]] = (RATE, PER, POOL_BURST, RESERVE)

    def __post_init__(self) -> None:
        bucket = TokenBucket(self.rate, self.per_us, self.burst, decimals=self.decimals)
        object.__setattr__(self, "bucket", bucket)

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        rate, per_us, decimals = RATE.read_rate(fields)
        burst = POOL_BURST.read(fields, default=max(1, 2 * rate // 10**decimals))
        return cls(rate, per_us, burst, _reserve(fields, burst), decimals)

    def describe(self) -> dict[str, Any]:
        return {**self.bucket.describe(), "reserve": self.reserve}

    def words(self) -> str:
        kept = f", {self.reserve:,} of them kept for guaranteed shares" if self.reserve else ""
        return f"a pool of {self.bucket.rate_words}, up to {self.burst:,} at once{kept}"

    @property
    def capacity(self) -> int:
        return self.burst

    @property
    def lendable(self) -> int:
        """What it may lend at once."""
        return self.burst - self.reserve

    @property
    def window(self) -> Window:
        return self.bucket.window

    def ttl_ms(self) -> int:
        return self.bucket.ttl_ms()

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        outcome = self.bucket.decide(state[:2] if state else None, now_us, cost)
        rest = state[2:] if state else (0, 0)
        return Outcome(outcome.verdict, outcome.charged + rest, outcome.kept and outcome.kept + rest)

    def level(self, state: State | None, now_us: int) -> Level:
        return self.bucket.level(state[:2] if state else None, now_us)

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        given = self.bucket.refund(state[:2], now_us, cost, given_us, tat_us)
        return given and given + state[2:]

    def used(self, state: State, at_us: int) -> float:
        return self.bucket.used(state[:2], at_us)

    def with_used(self, used: float, at_us: int) -> State:
        return (*self.bucket.with_used(used, at_us), 0, 0)

    def compiled(self) -> dict[str, Any]:
        return {"aP": self.bucket.P, "aQ": self.bucket.Q, "an": self.burst, "rs": self.reserve}

    def scaled(self, numerator: int, denominator: int) -> Self:
        bucket = self.bucket.scaled(numerator, denominator)
        reserve = min(bucket.size, self.reserve * numerator // denominator)
        return replace(
            self, rate=bucket.rate, per_us=bucket.per_us, burst=bucket.size, reserve=reserve, decimals=bucket.decimals
        )


@dataclass(frozen=True, slots=True)
class Borrowing:
    """A share of its parent. Its own part is a bucket of `assured`; all that it uses is bounded by `ceiling`."""

    assured: int  # 0: it has nothing of its own
    per_us: int
    burst: int  # of its own part; 0 if it has none
    ceiling: int | None  # None: as much as its parent lends
    ceiling_burst: int | None
    reserve: int  # of the burst, for its own children
    parent: str
    weight: int | None = None  # None: as its assured share, at least 1
    own: TokenBucket | None = field(init=False, repr=False, compare=False)
    most: TokenBucket | None = field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "borrowing"
    kind: ClassVar[str] = "b"
    width: ClassVar[int] = 7
    parameters: ClassVar[tuple[Parameter, ...]] = (
        ASSURED,
        PER,
        ASSURED_BURST,
        CEILING,
        CEILING_BURST,
        RESERVE,
        PARENT,
        WEIGHT,
    )

    def __post_init__(self) -> None:
        own = _bucket(ASSURED, ASSURED_BURST, self.assured, self.per_us, self.burst) if self.assured else None
        ceiling_burst = self.ceiling_burst or 1
        most = _bucket(CEILING, CEILING_BURST, self.ceiling, self.per_us, ceiling_burst) if self.ceiling else None
        object.__setattr__(self, "own", own)
        object.__setattr__(self, "most", most)

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        assured, per_us = ASSURED.read(fields, default=0), PER.read(fields)
        burst = _own_burst(fields, assured)
        ceiling = CEILING.read(fields) if fields.get("ceiling") is not None else None
        if ceiling is not None and ceiling < assured:
            raise ParameterError("ceiling", f"ceiling cannot be below assured, which is {assured:,}; raise it")
        ceiling_burst = _ceiling_burst(fields, ceiling, burst)
        reserve, parent = _reserve(fields, burst), PARENT.read(fields)
        weight = WEIGHT.read(fields) if fields.get("weight") is not None else None
        if weight is not None and weight > MOST_WEIGHT:
            raise ParameterError("weight", f"weight is above {MOST_WEIGHT:,}; only the ratio of weights counts")
        return cls(assured, per_us, burst, ceiling, ceiling_burst, reserve, parent, weight)

    def describe(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"assured": self.assured, "per": format_duration(self.per_us)}
        if self.assured:
            fields["burst"] = self.burst
        if self.ceiling is not None:
            fields |= {"ceiling": self.ceiling, "ceiling_burst": self.ceiling_burst}
        if self.weight is not None:
            fields["weight"] = self.weight
        return fields | {"reserve": self.reserve, "parent": self.parent}

    def words(self) -> str:
        own = f"{self.assured:,}/{per_text(self.per_us)} guaranteed" if self.assured else "nothing guaranteed"
        most = f"up to {self.ceiling:,}/{per_text(self.per_us)}" if self.ceiling else "as much as it has"
        return f"{own}, borrows from {self.parent} {most}"

    @property
    def counts_as(self) -> int:
        """Its weight among the others that borrow."""
        return self.weight or min(MOST_WEIGHT, max(1, self.assured))

    @property
    def capacity(self) -> int:
        """As far as it knows by itself: its parent's burst may be smaller."""
        return self.ceiling_burst or EXACT_MAX

    @property
    def window(self) -> Window:
        bucket = self.most or self.own
        return bucket.window if bucket else Window(1, 1)

    def ttl_ms(self) -> int:
        buckets = [bucket.ttl_ms() for bucket in (self.own, self.most) if bucket]
        return max([MOST_DEBT_MS + TTL_SLACK_MS, *buckets])

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        """Its own share alone, below its ceiling."""
        before = state or (0,) * self.width
        if self.own is None:
            return Outcome(Verdict(False, 0, 0, SECOND_US, 0), before, state)
        own = self.own.decide(before[:2], now_us, cost)
        if self.most is None:
            return Outcome(own.verdict, own.charged + before[2:], _kept(own, before, 0) if state else None)
        most = self.most.decide(before[2:4], now_us, cost)
        first = min(own.verdict, most.verdict, key=_severity)
        charged = own.charged + most.charged + before[4:]
        kept = _kept(most, _kept(own, before, 0), 2) if state else None
        return Outcome(first, charged, kept)

    def level(self, state: State | None, now_us: int) -> Level:
        before = state or (0,) * self.width
        own = self.own.level(before[:2], now_us) if self.own else Level(0, 0)
        most = self.most.level(before[2:4], now_us) if self.most else own
        return min(own, most, key=lambda level: level.remaining)

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        given = self.own.refund(state[:2], now_us, cost, given_us, tat_us) if self.own else None
        if given is None:
            return None
        most = self.most.refund(state[2:4], now_us, cost, given_us, tat_us) if self.most else None
        return given + (most or state[2:4]) + state[4:]

    def used(self, state: State, at_us: int) -> float:
        return self.own.used(state[:2], at_us) if self.own else 0.0

    def with_used(self, used: float, at_us: int) -> State:
        own = self.own.with_used(used, at_us) if self.own else (0, 0)
        most = self.most.with_used(used, at_us) if self.most else (0, 0)
        return (*own, *most, 0, 0, 0)

    def carried(self, old: "Borrowing", state: State, at_us: int, is_proportional: bool) -> State:
        """Both buckets keep what is used of them; its turn to borrow and what it lends start anew."""
        own = _carried(old.own, self.own, state[:2], at_us, is_proportional)
        most = _carried(old.most, self.most, state[2:4], at_us, is_proportional)
        return (*own, *most, 0, 0, 0)

    def compiled(self) -> dict[str, Any]:
        row: dict[str, Any] = {"w": self.counts_as, "an": self.burst, "rs": self.reserve}
        if self.own:
            row |= {"aP": self.own.P, "aQ": self.own.Q}
        if self.most:
            row |= {"cP": self.most.P, "cQ": self.most.Q, "cn": self.ceiling_burst}
        return row

    def scaled(self, numerator: int, denominator: int) -> Self:
        """The rates exactly: `per` gets longer where a rate would not stay whole."""
        common = gcd(gcd(self.assured, self.ceiling or 0) * numerator, denominator) or 1
        rate, per = numerator, denominator // common
        return replace(
            self,
            assured=self.assured * rate // common,
            per_us=self.per_us * per,
            burst=scaled_size(self.burst, numerator, denominator) if self.assured else 0,
            ceiling=self.ceiling * rate // common if self.ceiling else None,
            ceiling_burst=scaled_size(self.ceiling_burst, numerator, denominator) if self.ceiling_burst else None,
            reserve=self.reserve * numerator // denominator,
        )


def window_of(path: Sequence[Pool | Borrowing]) -> Window:
    """What headers tell of the first limit of a chain that ends at a pool.

    One that has neither a share nor a ceiling tells of the first above it that bounds what it may borrow.
    """
    first, *above = path
    if isinstance(first, Pool) or first.own or first.most:
        return first.window
    return next(lender.window for lender in above if isinstance(lender, Pool) or lender.most)


def _bucket(rate: Parameter, burst: Parameter, units: int, per_us: int, size: int) -> TokenBucket:
    """Its refusals name the parameters of a share."""
    try:
        return TokenBucket(units, per_us, size)
    except ParameterError as error:
        name = rate.name if error.field == RATE.name else burst.name
        raise ParameterError(name, f"{name} is too high to count exactly; lower it") from None


def _kept(outcome: Outcome, state: State, at: int) -> State:
    """The state with what a bucket keeps of it, which differs only after a clock repair."""
    return state[:at] + (outcome.kept or (0, 0)) + state[at + 2 :]


def _severity(verdict: Verdict) -> tuple[bool, float, int]:
    """The verdict that decides comes first: never, the longest wait, the least remaining."""
    wait = float("inf") if verdict.retry_us < 0 else verdict.retry_us
    return verdict.admitted, -wait, verdict.remaining


def _carried(
    old: TokenBucket | None, new: TokenBucket | None, state: State, at_us: int, is_proportional: bool
) -> State:
    """A bucket that only one of the two has starts full."""
    if old is None or new is None:
        return (0, 0)
    used = old.used(state, at_us)
    if is_proportional:
        used = used * new.size / old.size
    return new.with_used(min(used, float(new.size)), at_us)


def _own_burst(fields: dict[str, Any], assured: int) -> int:
    if assured:
        return ASSURED_BURST.read(fields, default=assured)
    if fields.get("burst") is not None:
        raise ParameterError("burst", "burst belongs to an assured share, and assured is 0; remove burst")
    fields.pop("burst", None)
    return 0


def _ceiling_burst(fields: dict[str, Any], ceiling: int | None, burst: int) -> int | None:
    if ceiling is None:
        if fields.pop("ceiling_burst", None) is not None:
            raise ParameterError("ceiling_burst", "ceiling_burst needs a ceiling; add one, or remove ceiling_burst")
        return None
    most = CEILING_BURST.read(fields, default=max(burst, ceiling))
    if most < burst:
        raise ParameterError("ceiling_burst", f"ceiling_burst cannot be below burst, which is {burst:,}; raise it")
    return most
