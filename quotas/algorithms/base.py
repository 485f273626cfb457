"""What every algorithm offers: parameters, a reference model and the numbers for the headers.

The reference model is the oracle for the Lua kernels and the engine of replay. It decides on the same
state as Lua keeps, with whole numbers only, so both must agree to the last microsecond.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

# Everything Lua computes must fit a double exactly; 2^52 leaves room for one addition.
EXACT_MAX = 2**52

State = tuple[int, ...]


class ParameterError(ValueError):
    """A parameter that cannot work: names the field and the way out."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True)
class Verdict:
    admitted: bool
    remaining: int  # after the charge if admitted, before it otherwise
    reset_us: int  # until one more unit (buckets, log) or the period's end (windows); 0: full
    retry_us: int  # until this cost could pass; 0 if admitted; -1 if it never can
    wait_us: int  # how long an admitted request must wait for its turn


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

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        """From a policy's fields; takes what it knows out of `fields`, raises ParameterError."""

    def describe(self) -> dict[str, Any]:
        """The fields again, as `parse` takes them."""

    def words(self) -> str:
        """What this buys, in one line for people."""

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

    def used(self, state: State, at_us: int) -> float:
        """Units in use at that moment. A double, computed in the same order as in Lua."""

    def with_used(self, used: float, at_us: int) -> State:
        """The state of somebody who has used so much."""


def carry_over(
    old: "Algorithm", new: "Algorithm", state: State, at_us: int, mode: str
) -> State | None:
    """The state after parameters changed from `old` to `new` at `at_us`; None is a fresh start."""
    if mode == "reset" or old.kind != new.kind:
        return None
    if new.kind == "l":  # the slots of a leaky bucket are promised: its TAT stays
        return (state[0] + (state[1] > 0), 0)
    used = old.used(state, at_us)
    if mode == "proportional":
        used = used * new.capacity / old.capacity
    return new.with_used(min(used, float(new.capacity)), at_us)


def whole(fields: dict[str, Any], name: str, default: int | None = None, minimum: int = 1) -> int:
    value = fields.pop(name, default)
    if value is None:
        raise ParameterError(name, f"{name} is missing; give a whole number of at least {minimum}")
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ParameterError(name, f"{name} must be a whole number of at least {minimum}")
    return value
