"""One limit over many arrivals at once, and over one arrival after the other.

A kernel keeps the state of every subject of one limit. `scan` says where in a block the first arrival would be
denied, on the assumption that all before it are charged; `charge` charges a block of which that is known to hold.
`lines` do the same for a single arrival, as text for a loop over all limits, because each call counts. All agree with
the reference models to the last microsecond; arrivals come in order of time, so nothing here mends a clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from headroom_edge.algorithms import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.base import State
from quotas.observations.arrays import Flags, Ints
from quotas.simulation.generated_loop import ONE, LoopLines

LARGEST = 2**62

Walk = TypeVar("Walk")


class TooWideError(Exception):
    """The block spans so much that whole numbers of 64 bits cannot hold it: a shorter one will do."""


@dataclass(frozen=True)
class Block:
    """Arrivals ordered by subject and, within one, by time."""

    order: Ints  # place in the order of time
    times_us: Ints
    costs: Ints
    starts: Ints  # where each subject begins
    subjects: list[int]

    @classmethod
    def of(cls, times_us: Ints, subjects: Ints | None, costs: Ints) -> Block:
        """No subjects: the tenant as a whole."""
        if subjects is None:
            return cls(np.arange(len(times_us)), times_us, costs, np.zeros(1, np.int64), [0])
        order = np.argsort(subjects, kind="stable")
        ordered = subjects[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        return cls(order, times_us[order], costs[order], starts, ordered[starts].tolist())

    @cached_property
    def ends(self) -> Ints:
        """The last arrival of each subject."""
        return np.append(self.starts[1:], len(self.times_us)) - 1

    @cached_property
    def group(self) -> Ints:
        """Number of each arrival's subject."""
        return np.repeat(np.arange(len(self.starts)), self.ends - self.starts + 1)

    @cached_property
    def asked(self) -> Ints:
        """Units up to and with each arrival, over all subjects."""
        return np.cumsum(self.costs)

    @cached_property
    def first_us(self) -> int:
        return int(self.times_us.min())

    @cached_property
    def span_us(self) -> int:
        return int(self.times_us.max()) - self.first_us

    def first(self, flags: Flags) -> int:
        """The earliest flagged arrival in order of time; none: their number."""
        return int(self.order[flags].min(initial=len(self.order)))


class BaseKernel(ABC, Generic[Walk]):
    makes_wait = False

    def __init__(self, by_subject: bool, counts_requests: bool) -> None:
        self.by_subject = by_subject
        self.counts_requests = counts_requests
        self._walked: tuple[Block, Walk] | None = None

    def walk(self, block: Block) -> Walk:
        """Of one block: the same for a scan and for the charge that follows it."""
        if self._walked is None or self._walked[0] is not block:
            self._walked = (block, self._walk(block))
        return self._walked[1]

    @abstractmethod
    def _walk(self, block: Block) -> Walk: ...

    @abstractmethod
    def scan(self, block: Block) -> int:
        """The earliest arrival that would be denied; none: their number."""

    @abstractmethod
    def charge(self, block: Block) -> None: ...

    def waits_us(self, block: Block) -> Ints:
        """In the block's order, if all are charged; asked before `charge`."""
        return np.zeros(len(block.order), np.int64)

    @abstractmethod
    def lines(self, cost: str) -> LoopLines:
        """Of a single arrival, for a loop over many limits; `cost` is a name in it, or 1."""

    @abstractmethod
    def state(self, subject: int) -> State | None:
        """As the reference model keeps it."""

    @abstractmethod
    def forget(self, now_us: int) -> None:
        """Drops what makes no difference any more."""


def drop(states: dict[int, Any], subjects: list[int]) -> None:
    """In place: loops hold on to the dict."""
    for subject in subjects:
        del states[subject]


@dataclass(frozen=True, slots=True)
class _Tats:
    """In 1/Q microseconds from the block's first arrival."""

    now: Ints
    after: Ints


class BucketKernel(BaseKernel[_Tats]):
    """State: the TAT in 1/Q microseconds."""

    def __init__(self, bucket: TokenBucket | Gcra | LeakyBucket, by_subject: bool, counts_requests: bool) -> None:
        super().__init__(by_subject, counts_requests)
        self.makes_wait = bucket.max_wait_us > 0 or bucket.kind == "l"
        self._interval, self._per, self._size = bucket.P, bucket.Q, bucket.size
        self._full = bucket.size * bucket.P
        self._most = self._full + bucket.max_wait_us * bucket.Q
        self._is_leaky = bucket.kind == "l"
        self._tats: dict[int, int] = {}

    def scan(self, block: Block) -> int:
        walk = self.walk(block)
        return block.first((walk.after - walk.now > self._most) | (block.costs > self._size))

    def charge(self, block: Block) -> None:
        after = self.walk(block).after[block.ends].tolist()
        zero = block.first_us * self._per
        self._tats.update(zip(block.subjects, (zero + tat for tat in after), strict=True))

    def waits_us(self, block: Block) -> Ints:
        walk = self.walk(block)
        backlog = walk.after - walk.now - (block.costs * self._interval if self._is_leaky else self._full)
        waits: Ints = np.maximum(0, -(-backlog // self._per))
        return waits

    def _walk(self, block: Block) -> _Tats:
        """The TAT is asked·P + max over the subject's arrivals so far of (now − asked before·P): a running maximum.

        One pass serves all subjects, each lifted clear of those before it.
        """
        zero = block.first_us * self._per
        tats = np.array([max(0, self._tats.get(subject, 0) - zero) for subject in block.subjects], dtype=np.int64)
        lift = block.span_us * self._per + int(tats.max()) + int(block.asked[-1]) * self._interval + 1
        if lift * (len(tats) + 1) >= LARGEST:
            raise TooWideError
        now = (block.times_us - block.first_us) * self._per
        charged = block.asked * self._interval
        lows = now - charged + block.costs * self._interval
        before = charged[block.starts] - block.costs[block.starts] * self._interval
        lows[block.starts] = np.maximum(lows[block.starts], tats - before)
        if len(tats) == 1:
            return _Tats(now, charged + np.maximum.accumulate(lows))
        lifted = block.group * lift
        return _Tats(now, charged + np.maximum.accumulate(lows + lifted) - lifted)

    def lines(self, cost: str) -> LoopLines:
        values = {"S@": self._tats, "get@": self._tats.get, "Q@": self._per, "P@": self._interval, "M@": self._most}
        charge, now = "P@" if cost == ONE else f"{cost} * P@", "now" if self._per == 1 else "n@"
        ask = [] if self._per == 1 else ["n@ = now * Q@"]
        ask.append(f"a@ = (t@ if t@ > {now} else {now}) + {charge}")
        fits = f"a@ - {now} <= M@" if cost == ONE else f"a@ - {now} <= M@ and {cost} <= {self._size}"
        keep = self._wait_lines(charge, now) if self.makes_wait else []
        if self.by_subject:
            return LoopLines(values, ["t@ = get@(who, 0)", *ask], fits, [*keep, "S@[who] = a@"])
        return LoopLines(values, ask, fits, [*keep, "t@ = a@"], ["t@ = get@(0, 0)"], ["S@[0] = t@"])

    def _wait_lines(self, charge: str, now: str) -> list[str]:
        free = charge if self._is_leaky else str(self._full)
        return [f"b@ = -(({now} + {free} - a@) // Q@)", "if b@ > waits[i]: waits[i] = b@"]

    def state(self, subject: int) -> State | None:
        tat = self._tats.get(subject)
        return None if tat is None else divmod(tat, self._per)

    def forget(self, now_us: int) -> None:
        now = now_us * self._per
        drop(self._tats, [subject for subject, tat in self._tats.items() if tat <= now])
