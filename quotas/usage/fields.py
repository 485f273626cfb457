"""What the Lua layer wrote down: the counters of a batch, its sampled arrivals, and denials.

A counter's field is `s<8 hex second>` (or `m…`, a whole minute, when nobody had drained for a while),
then the tenant's number, the endpoint's, one letter of outcome and the limit's number; its value is
cost × 2^24 + count. What cannot be read is counted and quoted, and never stops a drain.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

COUNT_BITS = 24
COUNT_MASK = (1 << COUNT_BITS) - 1
VALUE_MAX = 2**63
HEAD = 9  # bytes
MINUTE = 60
STEP = 10  # seconds; the finest rollup
BESIDE = frozenset({b"id", b"_"})  # no counters: the batch's own id, and padding that makes a hash a table
FUTURE = timedelta(days=1)  # later than this is no clock's mistake but garbage
QUOTED = 5  # how many unreadable items the log gets to see

# A letter this version does not know is kept: a newer library may count more than an older worker shows.
_SERIES = re.compile(rb"([0-9a-z]{5})([0-9a-z]{3})([a-z])([0-9a-z]{0,5})")
_HEAD = re.compile(rb"[sm][0-9a-f]{8}")
_ARRIVAL = re.compile(rb"([0-9a-z]{5})([0-9a-z]{3}) ([0-9a-f]{16}) (\d{1,16}) (\d{1,16}) ([ad])")
_DENIAL = re.compile(
    rb"(\d{1,16}) ([0-9a-z]{3}) (-|[0-9a-z]{1,5}) ([a-z_]{1,32}) (\d{1,16}) (-1|\d{1,16}) (\d{1,16})(?: (.*))?",
    re.DOTALL,
)


class UnreadableError(ValueError):
    """Something in Redis that this version cannot read."""


class Series(NamedTuple):
    tenant: int  # 0: a tenant nobody registered
    endpoint: int  # 0: not registered
    outcome: str
    limit: int  # 0: none


class Cell(NamedTuple):
    """One row of the finest rollup."""

    start: int  # epoch seconds, a multiple of STEP
    series: Series
    requests: int
    cost: int


# Sums hold count + cost × 2^64 in one number: wider lanes than Redis has, so that adding never mixes them.
LANE = 64
LANE_MASK = (1 << LANE) - 1
Sums = dict[int, int]  # number of the series → sum


@dataclass(frozen=True, slots=True)
class Arrival:
    tenant: int
    endpoint: int
    subject: int  # 64 bits of a hash, with a sign, as Postgres keeps them
    at_us: int
    cost: int
    allowed: bool


@dataclass(frozen=True, slots=True)
class Denied:
    tenant: int
    endpoint: int
    at_us: int
    limit: int  # 0: none
    reason: str
    cost: int
    retry_us: int  # -1: never
    revision: int
    subject: bytes  # its values; empty: the tenant as a whole


@dataclass(slots=True)
class Quotes:
    """How much could not be read, and the first few of it."""

    count: int = 0
    examples: list[bytes] = field(default_factory=list)

    def add(self, item: bytes) -> None:
        self.count += 1
        if len(self.examples) < QUOTED:
            self.examples.append(item[:80])


@dataclass(slots=True)
class Tally:
    """The sum of any number of batches. Each head and each tail of a field is parsed once."""

    unreadable: Quotes = field(default_factory=Quotes)
    _steps: dict[int, Sums] = field(default_factory=dict)
    _seconds: dict[bytes, Sums] = field(default_factory=dict)
    _series: list[Series] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)  # tail → place in _series

    def add(self, batch: Mapping[bytes, bytes]) -> None:
        seconds, numbers = self._seconds, self._numbers
        for name, text in batch.items():
            sums, number = seconds.get(name[:HEAD]), numbers.get(name[HEAD:])
            try:
                if sums is None or number is None:
                    self._add(name, parse_amount(text))
                else:
                    sums[number] = sums.get(number, 0) + parse_amount(text)
            except ValueError:
                if name not in BESIDE:
                    self.unreadable.add(name + b"=" + text)

    def cells(self) -> Iterator[Cell]:
        for start, sums in self._steps.items():
            for number, amount in sums.items():
                yield Cell(start, self._series[number], amount & LANE_MASK, amount >> LANE)

    def _add(self, name: bytes, amount: int) -> None:
        head, tail = name[:HEAD], name[HEAD:]
        start, seconds = parse_start(head)
        number = self._number(tail)
        for step, share in even(start, seconds, amount):
            sums = self._steps.setdefault(step, {})
            sums[number] = sums.get(number, 0) + share
            if seconds == 1:
                self._seconds[head] = sums

    def _number(self, tail: bytes) -> int:
        """A tail that ends in `+` goes on where the same one without it was full."""
        plain = tail.rstrip(b"+")
        if plain not in self._numbers:
            self._series.append(parse_series(plain))
            self._numbers[plain] = len(self._series) - 1
        self._numbers[tail] = self._numbers[plain]
        return self._numbers[tail]


def even(start: int, seconds: int, amount: int) -> Iterator[tuple[int, int]]:
    """An amount laid evenly over the steps it belongs to, so that every rollup has the same sum."""
    count, cost = amount & LANE_MASK, amount >> LANE
    steps = range(start, start + max(seconds, STEP), STEP)
    for i, step in enumerate(steps):
        share = (count + i) // len(steps) + ((cost + i) // len(steps) << LANE)
        if share:
            yield step, share


def parse_amount(text: bytes) -> int:
    value = int(text)
    if not 0 < value < VALUE_MAX:
        raise UnreadableError
    return (value & COUNT_MASK) + (value >> COUNT_BITS << LANE)


def parse_start(head: bytes) -> tuple[int, int]:
    """The start of the step or minute, and how many seconds the field covers."""
    if not _HEAD.fullmatch(head):
        raise UnreadableError
    second, seconds = int(head[1:], 16), MINUTE if head[:1] == b"m" else 1
    return second - second % max(seconds, STEP), seconds


def parse_series(tail: bytes) -> Series:
    match = _SERIES.fullmatch(tail)
    if match is None:
        raise UnreadableError
    tenant, endpoint, outcome, limit = match.groups()
    return Series(int(tenant, 36), int(endpoint, 36), outcome.decode(), int(limit or b"0", 36))


def parse_arrivals(items: Iterable[bytes], unreadable: Quotes) -> Iterator[Arrival]:
    for item in items:
        match = _ARRIVAL.fullmatch(item)
        if match is None:
            unreadable.add(item)
            continue
        tenant, endpoint, subject, at_us, cost, outcome = match.groups()
        signed = int.from_bytes(bytes.fromhex(subject.decode()), signed=True)
        yield Arrival(int(tenant, 36), int(endpoint, 36), signed, int(at_us), int(cost), outcome == b"a")


def parse_denials(tenant: int, items: Iterable[bytes], unreadable: Quotes) -> Iterator[Denied]:
    for item in items:
        match = _DENIAL.fullmatch(item)
        if match is None:
            unreadable.add(item)
            continue
        at_us, endpoint, limit, reason, cost, retry_us, revision, subject = match.groups()
        yield Denied(
            tenant=tenant,
            endpoint=int(endpoint, 36),
            at_us=int(at_us),
            limit=0 if limit == b"-" else int(limit, 36),
            reason=reason.decode(),
            cost=int(cost),
            retry_us=int(retry_us),
            revision=int(revision),
            subject=values_of(subject or b""),
        )


def values_of(record: bytes) -> bytes:
    """`[:<scope>]/<subject>:[<alternative>:]<values>` gives the values; the tenant as a whole has none."""
    return record.partition(b"/")[2].rpartition(b":")[2]
