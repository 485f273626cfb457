"""Kernels of fast replay: one limit over a block of arrivals, or over one arrival at a time.

A kernel holds the state of every subject of one limit. `scan` finds the first arrival of a block that would be denied
if all before it are charged; `charge` then charges a block without denials. `lines` does the same for a single
arrival, as source text for one loop over all limits, because function calls would dominate. All agree with the
reference models to the microsecond. Arrivals are in order of time, so a clock that steps back is not handled here.
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
    """The block spans too much time for 64-bit numbers; the caller tries a shorter one."""


@dataclass(frozen=True)
class Block:
    """Arrivals sorted by subject, then by time."""

    order: Ints  # index in the order of time
    times_us: Ints
    costs: Ints
    starts: Ints  # where each subject begins
    subjects: list[int]

    @classmethod
    def of(cls, times_us: Ints, subjects: Ints | None, costs: Ints) -> Block:
        """`subjects` None: the tenant as a whole."""
        if subjects is None:
            return cls(np.arange(len(times_us)), times_us, costs, np.zeros(1, np.int64), [0])
        order = np.argsort(subjects, kind="stable")
        ordered = subjects[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        return cls(order, times_us[order], costs[order], starts, ordered[starts].tolist())

    @cached_property
    def ends(self) -> Ints:
        """Index of the last arrival of each subject."""
        return np.append(self.starts[1:], len(self.times_us)) - 1

    @cached_property
    def group(self) -> Ints:
        """The number of each arrival's subject within the block."""
        return np.repeat(np.arange(len(self.starts)), self.ends - self.starts + 1)

    @cached_property
    def asked(self) -> Ints:
        """Running sum of units, over all subjects."""
        return np.cumsum(self.costs)

    @cached_property
    def first_us(self) -> int:
        return int(self.times_us.min())

    @cached_property
    def span_us(self) -> int:
        return int(self.times_us.max()) - self.first_us

    def first(self, flags: Flags) -> int:
        """The earliest flagged arrival in order of time; the length of the block if none is flagged."""
        return int(self.order[flags].min(initial=len(self.order)))


class BaseKernel(ABC, Generic[Walk]):
    makes_wait = False

    def __init__(self, by_subject: bool, counts_requests: bool) -> None:
        self.by_subject = by_subject
        self.counts_requests = counts_requests
        self._walked: tuple[Block, Walk] | None = None

    def walk(self, block: Block) -> Walk:
        """Computes once per block what both `scan` and the following `charge` need."""
        if self._walked is None or self._walked[0] is not block:
            self._walked = (block, self._walk(block))
        return self._walked[1]

    @abstractmethod
    def _walk(self, block: Block) -> Walk: ...

    @abstractmethod
    def scan(self, block: Block) -> int:
        """The earliest arrival that would be denied; the length of the block if none would."""

    @abstractmethod
    def charge(self, block: Block) -> None: ...

    def waits_us(self, block: Block) -> Ints:
        """Waits in the order of the block, if all are charged. Call it before `charge`."""
        return np.zeros(len(block.order), np.int64)

    @abstractmethod
    def lines(self, cost: str) -> LoopLines:
        """Source lines that decide a single arrival (see generated_loop); `cost` is a variable name, or 1."""

    @abstractmethod
    def state(self, subject: int) -> State | None:
        """The state as the reference model represents it."""

    @abstractmethod
    def forget(self, now_us: int) -> None:
        """Drops states that can no longer affect a decision."""


def drop(states: dict[int, Any], subjects: list[int]) -> None:
    """Deletes in place, because generated loops keep a reference to the dict."""
    for subject in subjects:
        del states[subject]


@dataclass(frozen=True, slots=True)
class _Tats:
    """Theoretical arrival times (TAT), in 1/Q microseconds since the first arrival of the block."""

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
        """TAT = asked·P + the running maximum over the subject's arrivals of (now − asked before·P).

        One `maximum.accumulate` serves all subjects: each subject is offset by more than the range of the ones before.
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
