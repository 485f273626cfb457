"""Parses what the Lua layer writes to Redis: counters, sampled arrivals and denials.

The field of a counter is `s` and the second in 8 hex digits (`m…`, a whole minute, while drains are behind), the
tenant number, the endpoint number, one letter for the outcome, and the limit number. Its value is cost × 2^24 + count.
A field that ends in `+` continues the same field without it, whose value was full. Unreadable items are counted and
quoted in the log; they never stop a drain.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

import numpy as np

from quotas.observations.arrays import Flags, Ints
from quotas.observations.cells import MINUTE_S, Cells

COUNT_BITS = 24
COUNT_MASK = (1 << COUNT_BITS) - 1
LONGEST = 20  # one more than the digits of 2^63; a larger value of 19 digits overflows to a negative number
NOT_COUNTERS = frozenset({b"id", b"_"})  # the batch id, and padding that makes Redis store the hash as a table
FUTURE = timedelta(days=1)  # a time further ahead is garbage, not a clock difference
QUOTED = 5  # unreadable items shown in the log

# Offsets within a field, in bytes.
SECOND, TENANT, ENDPOINT, OUTCOME, LIMIT, END = 1, 9, 14, 17, 18, 23
WIDEST = 32  # including every `+` that Lua may append
TENANT_PLACE, ENDPOINT_PLACE = slice(TENANT, ENDPOINT), slice(ENDPOINT, OUTCOME)
AT_ONCE = 16_384  # fields; their columns fit into the processor's cache
_DIGITS = np.full(256, 255, np.uint8)
_DIGITS[list(b"0123456789abcdefghijklmnopqrstuvwxyz")] = np.arange(36)

_ARRIVAL = re.compile(rb"([0-9a-z]{5})([0-9a-z]{3}) ([0-9a-f]{16}) (\d{1,16}) (\d{1,16}) ([ad])")
_DENIAL = re.compile(
    rb"(\d{1,16}) ([0-9a-z]{3}) (-|[0-9a-z]{1,5}) ([a-z_]{1,24}(?:/[a-z]{1,7})?) "
    rb"(\d{1,16}) (-1|\d{1,16}) (\d{1,16})(?: (.*))?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ArrivalRecord:
    tenant: int
    endpoint: int
    subject: int  # 64 bits of a hash as a signed number, as Postgres stores it
    at_us: int
    cost: int
    allowed: bool


@dataclass(frozen=True, slots=True)
class DenialRecord:
    tenant: int
    endpoint: int
    at_us: int
    limit: int  # 0: none
    reason: str  # of a limit that borrows: `limit/` and the cause
    cost: int
    retry_us: int  # -1: never
    revision: int
    subject: bytes  # the values of its dimensions; empty: the tenant as a whole


@dataclass(slots=True)
class UnreadableItems:
    """The number of items that could not be parsed, and the first few of them."""

    count: int = 0
    examples: list[bytes] = field(default_factory=list)

    def add(self, item: bytes) -> None:
        self.count += 1
        if len(self.examples) < QUOTED:
            self.examples.append(item[:80])


@dataclass(frozen=True, slots=True)
class ParsedCounters:
    cells: Cells
    unreadable: UnreadableItems


def parse_counters(batches: Iterable[Mapping[bytes, bytes]]) -> list[ParsedCounters]:
    """One result per batch. All batches are parsed together, because each numpy call has a fixed cost."""
    names: list[bytes] = []
    texts: list[bytes] = []
    ends = []
    for batch in batches:
        names += batch.keys()
        texts += batch.values()
        ends.append(len(names))
    if not names:
        return [ParsedCounters(Cells.of(()), UnreadableItems()) for _ in ends]
    places = [slice(first, first + AT_ONCE) for first in range(0, len(names), AT_ONCE)]
    found = [_fields(names[place], _amounts(texts[place])) for place in places]
    cells, is_good = Cells.joined([part for part, _ in found]), np.concatenate([good for _, good in found])
    return [_part(cells, is_good, names, texts, slice(*ends)) for ends in pairwise((0, *ends))]


def _part(cells: Cells, is_good: Flags, names: Sequence[bytes], texts: Sequence[bytes], place: slice) -> ParsedCounters:
    unreadable, good = UnreadableItems(), is_good[place]
    if good.all():
        return ParsedCounters(cells.where(place), unreadable)
    for bad in (np.flatnonzero(~good) + place.start).tolist():
        if names[bad] not in NOT_COUNTERS:
            unreadable.add(names[bad] + b"=" + texts[bad])
    return ParsedCounters(cells.where(place).where(good), unreadable)


def _fields(names: Sequence[bytes], amounts: Ints) -> tuple[Cells, Flags]:
    """Returns the cells and a flag per field that says whether it was valid.

    The fields form one matrix of bytes, with one row per offset, so that each rule is one numpy operation.
    """
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    letters = _letters(names, WIDEST)
    ends = lengths - (letters == ord("+")).sum(axis=0)
    is_good = (amounts > 0) & (lengths <= WIDEST) & (ends >= LIMIT) & (ends <= END)
    is_minute = letters[0] == ord("m")
    is_good &= is_minute | (letters[0] == ord("s"))
    second = _number(letters[SECOND:TENANT], 16, is_good)
    tenant, endpoint = (_number(letters[place], 36, is_good) for place in (TENANT_PLACE, ENDPOINT_PLACE))
    outcome = letters[OUTCOME].astype(np.int64)
    is_good &= (outcome >= ord("a")) & (outcome <= ord("z"))
    start = np.where(is_minute, second - second % MINUTE_S, second)
    length = np.where(is_minute, MINUTE_S, 1)
    limit = _limits(letters, ends, is_good)
    cells = Cells(start, length, tenant, endpoint, outcome, limit, amounts & COUNT_MASK, amounts >> COUNT_BITS)
    return cells, is_good


def _letters(texts: Sequence[bytes], width: int) -> np.ndarray:
    return np.ascontiguousarray(np.array(texts, f"S{width}").view(np.uint8).reshape(len(texts), width).T)


def _limits(letters: np.ndarray, ends: Ints, is_good: Flags) -> Ints:
    """The base-36 digits from LIMIT up to the first `+`."""
    limit = np.zeros(len(ends), np.int64)
    for place in range(LIMIT, min(END, int(ends.max()))):
        digit, is_there = _DIGITS[letters[place]], place < ends
        is_good &= (digit < 36) | ~is_there
        limit = np.where(is_there, limit * 36 + digit, limit)
    return limit


def _number(letters: np.ndarray, base: int, is_good: Flags) -> Ints:
    found = _DIGITS[letters]
    is_good &= found.max(axis=0) < base
    number: Ints = found[0].astype(np.int64)
    for digit in found[1:]:
        number = number * base + digit
    return number


def _amounts(texts: Sequence[bytes]) -> Ints:
    """The values as numbers; 0 where the text is not a positive number below 2^63."""
    digits = _letters(texts, LONGEST)
    digits = digits[: int((digits != 0).any(axis=1).sum())]
    is_there, values = digits != 0, digits - np.uint8(ord("0"))
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    is_good = ((values < 10) | ~is_there).all(axis=0) & (is_there.sum(axis=0) == lengths) & (lengths < LONGEST)
    amounts = np.zeros(len(texts), np.int64)
    for is_digit, value in zip(is_there, values, strict=True):
        amounts = amounts * 10 + value if is_digit.all() else np.where(is_digit, amounts * 10 + value, amounts)
    return np.where(is_good & (amounts > 0), amounts, 0)


def parse_arrivals(items: Iterable[bytes], unreadable: UnreadableItems) -> Iterator[ArrivalRecord]:
    for item in items:
        match = _ARRIVAL.fullmatch(item)
        if match is None:
            unreadable.add(item)
            continue
        tenant, endpoint, subject, at_us, cost, outcome = match.groups()
        signed = int.from_bytes(bytes.fromhex(subject.decode()), signed=True)
        yield ArrivalRecord(int(tenant, 36), int(endpoint, 36), signed, int(at_us), int(cost), outcome == b"a")


def parse_denials(tenant: int, items: Iterable[bytes], unreadable: UnreadableItems) -> Iterator[DenialRecord]:
    for item in items:
        match = _DENIAL.fullmatch(item)
        if match is None:
            unreadable.add(item)
            continue
        at_us, endpoint, limit, reason, cost, retry_us, revision, subject = match.groups()
        yield DenialRecord(
            tenant=tenant,
            endpoint=int(endpoint, 36),
            at_us=int(at_us),
            limit=0 if limit == b"-" else int(limit, 36),
            reason=reason.decode(),
            cost=int(cost),
            retry_us=int(retry_us),
            revision=int(revision),
            subject=subject_values(subject or b""),
        )


def subject_values(record: bytes) -> bytes:
    """The values in `[:<scope>]/<subject>:[<alternative>:]<values>`; empty for the tenant as a whole."""
    return record.partition(b"/")[2].rpartition(b":")[2]
