"""Limits requests in flight to what the service behind can answer within a target time.

Every release may tell how the request ended. Once a window of 200 ms is over, the live limit follows: down in
proportion if the answers took longer than the target on average, or if the service refused some; up a little if they
did not, and if the limit was nearly reached. A cut that lowers the throughput instead of the latency is taken back
(then nothing was queueing, the service itself is slower), and the target is raised for a while.

State: the numbers of `_Numbers`, then the expiry of every holder, soonest first, as in concurrency.py. All are whole,
and Lua computes the same. Limits and throughputs are kept in thousandths.
"""

import math
from bisect import insort
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from headroom_edge.algorithms.base import (
    Level,
    Outcome,
    Parameter,
    ParameterError,
    State,
    Verdict,
    WholeNumber,
    Window,
    format_duration,
    parse_duration_us,
    scaled_size,
    shown,
)
from headroom_edge.algorithms.concurrency import HOLD, RETRY_HINT_US, Concurrency
from headroom_edge.results import Result

CALIBRATED = "calibrated"
MOST = 1_000_000  # in flight
LONGEST_TARGET_US = 600_000_000
# Until an endpoint's own latency is known.
DEFAULT_TARGET_US = 1_000_000

WINDOW_US = 200_000
SAMPLES = 10  # a window with fewer answers stays open
LONGEST = 50  # windows; then its answers are too old to count
PROBES = 5  # windows from the first cut on, until the guard compares
LAST_PROBE = 15
DECAY = 986  # ‰ of the raised target that is left after a window: half after 10 s
FORGOTTEN = 1_000  # windows
_X_MAX = 2**32 - 1

# The live limit survives this much idle time.
IDLE_MS = 60_000

# Why the live limit is what it is.
STARTED, RAISED, SLOW, DROPPED, SLOWER = range(5)
REASONS = (
    "at its start",
    "raised: answers are within the target",
    "lowered: answers are slower than the target",
    "lowered: the service refused or timed out",
    "service slower than its target",
)


@dataclass(frozen=True, slots=True)
class Target(Parameter):
    """A duration, or the word `calibrated` (None)."""

    def read(self, fields: dict[str, Any]) -> int | None:
        value = fields.pop(self.name, None)
        if value is None:
            raise ParameterError(self.name, f"{self.name} is missing; write a duration like 100ms, or {CALIBRATED}")
        if value == CALIBRATED:
            return None
        try:
            target_us = parse_duration_us(value) if isinstance(value, str) else 0
        except ValueError:
            target_us = 0
        if not 0 < target_us <= LONGEST_TARGET_US:
            wanted = f"a duration from 1ms to 10m, or {CALIBRATED}"
            raise ParameterError(self.name, f"{self.name} must be {wanted}, not {shown(value)}")
        return target_us

    def _values(self) -> dict[str, Any]:
        return {"type": "string", "pattern": "^(calibrated|[1-9][0-9]{0,4}ms|[1-9][0-9]?s|[1-5][0-9]{2}s|[1-9]m|10m)$"}


MIN = WholeNumber("min", "requests in flight that are always allowed", most=MOST)
MAX = WholeNumber("max", "requests in flight at most", most=MOST)
START = WholeNumber("start", "where the live limit begins: half-way between by default", is_required=False, most=MOST)
TARGET = Target("target", "the mean time to an answer that is wanted, or calibrated: from the endpoint's own latency")


@dataclass(slots=True)
class _Numbers:
    """In the order of the record (lua/adaptive_concurrency.lua)."""

    live: int = 0  # the limit, in thousandths; 0: not started
    extra_us: int = 0  # on top of the target, while the service is slower than that
    first: int = 0  # the first window that the counts below are of
    span: int = 0  # windows from the first to the last answer
    answers: int = 0
    total_us: int = 0  # of these answers
    drops: int = 0
    peak: int = 0  # in flight
    x1: int = 0  # answers per window, in thousandths: of the newest full window, the one before, and so on
    x2: int = 0
    x3: int = 0
    marked: int = 0  # live limit before the first of the latest cuts; 0: nothing to compare
    marked_x: int = 0
    marked_us: int = 0
    probes: int = 0
    why: int = 0
    changed: int = 0  # window of the last change

    def as_state(self) -> State:
        return tuple(getattr(self, name) for name in _NAMES)

    def restart(self, window: int) -> None:
        self.first, self.span, self.answers, self.total_us, self.drops, self.peak = window, 0, 0, 0, 0, 0

    @property
    def mean_x(self) -> int:
        known = [x for x in (self.x1, self.x2, self.x3) if x]
        return sum(known) // len(known)

    def mark(self, mean_us: int) -> None:
        self.marked, self.marked_x, self.marked_us, self.probes = self.live, self.mean_x, mean_us, 0

    def forget_extra(self, windows: int) -> None:
        if windows >= FORGOTTEN:
            self.extra_us = 0
        for _ in range(windows if self.extra_us else 0):
            self.extra_us = self.extra_us * DECAY // 1_000


_NAMES = tuple(one.name for one in fields(_Numbers))
WIDTH = len(_NAMES)


@dataclass(frozen=True, slots=True)
class Live:
    """The live limit and why it is so."""

    limit: int
    reason: str
    target_us: int
    changed_us: int  # 0: never


@dataclass(frozen=True, slots=True)
class AdaptiveConcurrency:
    least: int
    most: int
    start: int
    target_us: int | None  # None: calibrated
    hold_us: int
    slots: Concurrency = field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "adaptive_concurrency"
    kind: ClassVar[str] = "a"
    parameters: ClassVar[tuple[Parameter, ...]] = (MIN, MAX, START, TARGET, HOLD)
    width: ClassVar[int] = WIDTH

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", Concurrency(self.most, self.hold_us))

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        least, most = MIN.read(fields), MAX.read(fields)
        if most < least or most > MOST:
            raise ParameterError("max", f"max must be from min, which is {least:,}, to {MOST:,}, not {most:,}")
        start = START.read(fields, default=(least + most) // 2)
        if not least <= start <= most:
            raise ParameterError("start", f"start must be from {least:,} to {most:,}, not {start:,}")
        return cls(least, most, start, TARGET.read(fields), HOLD.read(fields))

    def describe(self) -> dict[str, Any]:
        return {
            "min": self.least,
            "max": self.most,
            "start": self.start,
            "target": self.target_words,
            "hold": format_duration(self.hold_us),
        }

    @property
    def target_words(self) -> str:
        return CALIBRATED if self.target_us is None else format_duration(self.target_us)

    def words(self) -> str:
        target = "its usual latency" if self.target_us is None else format_duration(self.target_us)
        return f"{self.least:,} to {self.most:,} in flight at once, as many as are answered within {target}"

    @property
    def capacity(self) -> int:
        return self.most

    @property
    def window(self) -> Window:
        """Without the live limit, which is in the verdict."""
        return Window(self.start, None)

    @property
    def usual_target_us(self) -> int:
        return DEFAULT_TARGET_US if self.target_us is None else self.target_us

    def ttl_ms(self) -> int:
        return max(self.slots.ttl_ms(), IDLE_MS)

    def compiled(self) -> dict[str, Any]:
        """A calibrated target is not part of the parameters: the compiler adds it, and it may change in between."""
        row = {"n": self.most, "lo": self.least, "st": self.start, "H": self.hold_us}
        return row if self.target_us is None else row | {"tg": self.target_us}

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        kept, numbers = state, self._rolled(state, now_us)
        expiries = self.slots.mended(state[WIDTH:] if state else (), now_us)
        held = list(self.slots.live(expiries, now_us))
        limit = numbers.live // 1_000
        if len(held) >= limit:
            return Outcome(Verdict(False, 0, 0, RETRY_HINT_US, 0, limit), state or (), kept)
        insort(held, now_us + self.hold_us)
        numbers.peak = max(numbers.peak, len(held))
        verdict = Verdict(True, limit - len(held), 0, 0, 0, limit)
        return Outcome(verdict, (*numbers.as_state(), *held), kept)

    def sample(self, state: State | None, now_us: int, in_flight: int, latency_us: int, result: Result) -> State:
        """The numbers after a request that held one of `in_flight` slots was answered, or not (`drop`)."""
        numbers = self._rolled(state, now_us)
        numbers.peak = max(numbers.peak, in_flight)
        if result == "ok":
            numbers.answers, numbers.total_us = numbers.answers + 1, numbers.total_us + latency_us
        else:
            numbers.drops += 1
        numbers.span = max(numbers.span, 1, now_us // WINDOW_US - numbers.first + 1)
        return numbers.as_state()

    def live(self, state: State | None, now_us: int) -> Live:
        numbers = self._rolled(state, now_us)
        is_slower = numbers.extra_us * 10 > self.usual_target_us
        why = SLOWER if is_slower else numbers.why
        target_us = self.usual_target_us + numbers.extra_us
        return Live(numbers.live // 1_000, REASONS[why], target_us, numbers.changed * WINDOW_US)

    def level(self, state: State | None, now_us: int) -> Level:
        held = self.slots.live(state[WIDTH:] if state else (), now_us)
        return Level(max(0, self._rolled(state, now_us).live // 1_000 - len(held)), 0)

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        return None  # a slot is released, not refunded

    def used(self, state: State, at_us: int) -> float:
        """The live limit: what a change of parameters keeps."""
        return state[0] / 1_000

    def with_used(self, used: float, at_us: int) -> State:
        if used == 0:
            return _Numbers().as_state()
        live = min(max(math.floor(used * 1_000), self.least * 1_000), self.most * 1_000)
        return _Numbers(live=live).as_state()

    def scaled(self, numerator: int, denominator: int) -> Self:
        least, most, start = (scaled_size(size, numerator, denominator) for size in (self.least, self.most, self.start))
        return replace(self, least=least, most=most, start=start)

    def _rolled(self, state: State | None, now_us: int) -> _Numbers:
        """The numbers at this time: the window that is over, if one is, has changed the live limit."""
        numbers = _Numbers(*state[:WIDTH]) if state else _Numbers()
        if not numbers.live:
            numbers.live = self.start * 1_000
        self._roll(numbers, now_us // WINDOW_US)
        return numbers

    def _roll(self, numbers: _Numbers, window: int) -> None:
        first, ended = numbers.first, numbers.first + max(1, numbers.span)
        if window < ended:
            if first - window > LONGEST:  # the clock went back
                numbers.restart(window)
            return
        count = numbers.answers + numbers.drops
        if count >= (1 if numbers.marked else SAMPLES):
            numbers.forget_extra(numbers.span)
            self._close(numbers)
            numbers.forget_extra(window - ended)
        elif count and window - first < LONGEST:
            return
        else:
            numbers.forget_extra(window - first)
        numbers.restart(window)

    def _close(self, numbers: _Numbers) -> None:
        before, mean_us, target_us = numbers.live, 0, self.usual_target_us + numbers.extra_us
        if numbers.answers:
            mean_us = numbers.total_us // numbers.answers
            x = min(_X_MAX, numbers.answers * 1_000 // numbers.span)
            numbers.x1, numbers.x2, numbers.x3 = x, numbers.x1, numbers.x2
        self._adjust(numbers, mean_us, target_us)
        if numbers.marked and numbers.answers:
            self._guard(numbers, mean_us, target_us)
        if numbers.live != before:
            numbers.changed = numbers.first + numbers.span

    def _adjust(self, numbers: _Numbers, mean_us: int, target_us: int) -> None:
        part = 1_000
        if mean_us > target_us:
            # A far slower window means that something else has happened since: compare with that.
            if not numbers.marked or mean_us > 2 * numbers.marked_us:
                numbers.mark(mean_us)
            part, numbers.why = max(500, target_us * 1_000 // mean_us), SLOW
        if numbers.drops:
            # What the service refused is no proof against the guard, so the limit to restore falls with it.
            answered = max(500, numbers.answers * 1_000 // (numbers.answers + numbers.drops))
            if numbers.marked:
                numbers.marked = max(self.least * 1_000, numbers.marked * answered // 1_000)
            if answered < part:
                part, numbers.why = answered, DROPPED
        if part < 1_000:
            numbers.live = max(self.least * 1_000, numbers.live * part // 1_000)
        elif numbers.peak * 10_000 >= numbers.live * 7:
            step = max(1_000, math.floor(math.sqrt(numbers.live * 1_000) / 2))
            numbers.live, numbers.why = min(self.most * 1_000, numbers.live + step), RAISED

    def _guard(self, numbers: _Numbers, mean_us: int, target_us: int) -> None:
        """Some windows after a cut that did not bring the target: was it queueing, or is the service slower?

        Little's law: while requests queue, a lower limit leaves the throughput alone. So a throughput that fell by
        more than half of the cut's share means that nothing queued.
        """
        numbers.probes += 1
        if numbers.probes < PROBES:
            return
        if mean_us > target_us:
            cut = numbers.live * 1_000 // numbers.marked
            if cut < 800 and 2 * (numbers.mean_x * 1_000 // numbers.marked_x) < 1_000 + cut:
                numbers.live, numbers.why = numbers.marked, SLOWER
                numbers.extra_us = max(numbers.extra_us, mean_us * 3 // 2 - self.usual_target_us)
            elif numbers.probes <= LAST_PROBE:
                return
        numbers.marked, numbers.marked_x, numbers.marked_us, numbers.probes = 0, 0, 0, 0
