"""Replays many arrivals through a few limits: the same decisions as the reference models, many times faster.

Most arrivals are admitted, so a whole block is assumed admitted and checked at once with numpy; it is cut before the
first arrival that some limit would deny. While denials are frequent, arrivals are decided one by one. Only enforced
limits deny, so others are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headroom_edge.algorithms.base import Algorithm
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from quotas.observations.arrays import Ints, whole_numbers
from quotas.policies.spec import Limit
from quotas.simulation.generated_loop import ONE, Loop, build_loop
from quotas.simulation.kernels import BaseKernel, Block, BucketKernel, TooWideError
from quotas.simulation.window_kernels import CounterKernel, FixedKernel, LogKernel

ALLOWED = -1
AnyKernel = BaseKernel[Any]
Scope = frozenset[int] | None  # numbers of endpoints
LEAST_BLOCK = 256
MOST_BLOCK = 65_536
FEWEST_SINGLES = 32
MOST_SINGLES = 4_096
FORGET_EVERY = 1_000_000  # arrivals

_KERNELS: dict[type[Algorithm], Callable[..., AnyKernel]] = {
    TokenBucket: BucketKernel,
    Gcra: BucketKernel,
    LeakyBucket: BucketKernel,
    FixedWindow: FixedKernel,
    CalendarQuota: FixedKernel,
    SlidingCounter: CounterKernel,
    SlidingLog: LogKernel,
}


@dataclass(frozen=True, slots=True)
class ArrivalBatch:
    """Arrivals in order of time."""

    times_us: Ints
    subjects: Ints  # any numbers that tell them apart
    costs: Ints
    requests: Ints | None = None  # how many each arrival stands for, all allowed or all denied; None: one
    endpoints: Ints | None = None  # endpoint numbers, needed if limits have scopes

    def __len__(self) -> int:
        return len(self.times_us)

    def cut(self, first: int, last: int) -> ArrivalBatch:
        columns = (self.times_us, self.subjects, self.costs, self.requests, self.endpoints)
        return ArrivalBatch(*(None if column is None else column[first:last] for column in columns))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class BatchDecisions:
    denied_by: Ints  # index of the limit that denied; −1: allowed
    wait_us: Ints

    @property
    def denied(self) -> int:
        return int((self.denied_by != ALLOWED).sum())


class FastReplay:
    """The limits of one tenant and their state. Every dimension of a subject has the arrival's subject as its value.

    `scopes`: for each limit, the endpoints it counts; None: all.
    """

    def __init__(self, limits: Sequence[Limit], scopes: Sequence[Scope] | None = None) -> None:
        self._limits = _judged(limits)
        self._kernels = [_kernel(limit) for _, limit in self._limits]
        self._places = whole_numbers([*(place for place, _ in self._limits), ALLOWED])  # −1 stays −1
        self._scopes = [scopes[place] if scopes else None for place, _ in self._limits]
        self._loops: dict[tuple[str, ...], Loop] = {}
        self._block = LEAST_BLOCK
        self._singles = FEWEST_SINGLES
        self._last_us = 0
        self._since_forgotten = 0

    def decide(self, batch: ArrivalBatch) -> BatchDecisions:
        """Decides the batch. May be called again, with later arrivals."""
        self._check(batch)
        found = BatchDecisions(np.full(len(batch), ALLOWED, np.int64), np.zeros(len(batch), np.int64))
        place = 0
        while place < len(batch):
            block = batch.cut(place, place + self._block)
            admitted = self._admit(block, found.wait_us[place:])
            place += admitted
            if admitted < len(block):
                place += self._one_by_one(batch.cut(place, place + self._singles), found, place)
        return found

    def _check(self, batch: ArrivalBatch) -> None:
        if not len(batch):
            return
        if int(batch.times_us[0]) < self._last_us or (np.diff(batch.times_us) < 0).any():
            raise ValueError("arrivals must be in order of time; sort them first")
        if int(batch.costs.min()) < 1:
            raise ValueError("a cost must be at least 1")
        self._last_us = int(batch.times_us[-1])
        self._since_forgotten += len(batch)
        if self._since_forgotten >= FORGET_EVERY:
            self._since_forgotten = 0
            for kernel in self._kernels:
                kernel.forget(int(batch.times_us[0]))

    def _admit(self, batch: ArrivalBatch, wait_us: Ints) -> int:
        """Charges the arrivals before the first denied one and returns how many; adapts the size of the next block."""
        first = len(batch)
        blocks = _Blocks(batch)
        try:
            for kernel, scope in zip(self._kernels, self._scopes, strict=True):
                first = min(first, kernel.scan(blocks.of(kernel, scope)))
        except TooWideError:
            return self._admit(batch.cut(0, len(batch) // 2), wait_us) if len(batch) > 1 else 0
        if first:
            charged = blocks if first == len(batch) else _Blocks(batch.cut(0, first))
            for kernel, scope in zip(self._kernels, self._scopes, strict=True):
                self._charge(kernel, charged.of(kernel, scope), wait_us)
        self._block = max(LEAST_BLOCK, min(MOST_BLOCK, 2 * self._block if first == len(batch) else 2 * first))
        return first

    def _charge(self, kernel: AnyKernel, block: Block, wait_us: Ints) -> None:
        if kernel.makes_wait:
            wait_us[block.order] = np.maximum(wait_us[block.order], kernel.waits_us(block))
        kernel.charge(block)

    def _one_by_one(self, batch: ArrivalBatch, found: BatchDecisions, place: int) -> int:
        """Decides arrivals one by one, from the first denied one on; the next run is longer if denials continue."""
        denied_by, waits_us = [ALLOWED] * len(batch), [0] * len(batch)
        columns = [_costs(batch, kernel, scope) for kernel, scope in zip(self._kernels, self._scopes, strict=True)]
        costs = tuple(ONE if (column == 1).all() else f"cost{number}" for number, column in enumerate(columns))
        named = [column.tolist() for column, cost in zip(columns, costs, strict=True) if cost != ONE]
        loop = self._loop(costs)
        loop(batch.times_us.tolist(), batch.subjects.tolist(), *named, denied_by, waits_us, self._of_many)
        found.denied_by[place : place + len(batch)] = self._places[denied_by]
        found.wait_us[place : place + len(batch)] = waits_us
        often = denied_by.count(ALLOWED) * 50 < len(batch) * 49
        self._singles = min(MOST_SINGLES, 2 * self._singles) if often else FEWEST_SINGLES
        return len(batch)

    def _loop(self, costs: tuple[str, ...]) -> Loop:
        if costs not in self._loops:
            lines = [kernel.lines(cost) for kernel, cost in zip(self._kernels, costs, strict=True)]
            self._loops[costs] = build_loop(lines, costs)
        return self._loops[costs]

    def _of_many(self, now_us: int, subject: int, admits: tuple[bool, ...], costs: tuple[int, ...]) -> int:
        """The limit to report if several deny: the first that never admits, else the first with the longest wait."""
        deniers = [number for number, is_admitting in enumerate(admits) if not is_admitting]
        retries = {number: self._retry_us(number, now_us, subject, costs[number]) for number in deniers}
        never = [number for number, retry_us in retries.items() if retry_us < 0]
        return never[0] if never else max(deniers, key=lambda number: retries[number])

    def _retry_us(self, number: int, now_us: int, subject: int, cost: int) -> int:
        kernel, algorithm = self._kernels[number], self._limits[number][1].algorithm
        state = kernel.state(subject if kernel.by_subject else 0)
        return algorithm.decide(state, now_us, cost).verdict.retry_us


class _Blocks:
    """The same arrivals in the order and unit that each kind of kernel needs, built once."""

    def __init__(self, batch: ArrivalBatch) -> None:
        self._batch = batch
        self._made: dict[tuple[bool, bool, Scope], Block] = {}

    def of(self, kernel: AnyKernel, scope: Scope) -> Block:
        kind = (kernel.by_subject, kernel.counts_requests, scope)
        if kind not in self._made:
            subjects = self._batch.subjects if kernel.by_subject else None
            self._made[kind] = Block.of(self._batch.times_us, subjects, _costs(self._batch, kernel, scope))
        return self._made[kind]


def _costs(batch: ArrivalBatch, kernel: AnyKernel, scope: Scope) -> Ints:
    """What each arrival costs for this limit; 0 where the limit does not apply, which always passes."""
    costs = batch.costs
    if kernel.counts_requests:
        costs = np.ones(len(batch), np.int64) if batch.requests is None else batch.requests
    if scope is None or batch.endpoints is None:
        return costs
    return np.where(np.isin(batch.endpoints, list(scope)), costs, 0)


def _judged(limits: Sequence[Limit]) -> list[tuple[int, Limit]]:
    """The enforced limits with their index, in the order in which a plan checks them: grouped by subject."""
    subjects = list(dict.fromkeys(limit.subject for limit in limits if limit.mode != "off"))
    enforced = [(place, limit) for place, limit in enumerate(limits) if limit.mode == "enforce"]
    return sorted(enforced, key=lambda one: subjects.index(one[1].subject))


def can_replay(limit: Limit) -> bool:
    """Whether its decisions depend on its own arrivals alone."""
    return type(limit.algorithm) in _KERNELS


def why_not(algorithm: Algorithm) -> str:
    """Why the decisions of an algorithm that has no kernel need more than its own arrivals."""
    if isinstance(algorithm, Pool | Borrowing):
        return "it depends on what all members of its pool ask for"
    return "it depends on how long each request takes"


def _kernel(limit: Limit) -> AnyKernel:
    kind = _KERNELS.get(type(limit.algorithm))
    if kind is None:
        raise ValueError(
            f"limit {limit.name}: {limit.algorithm.name} cannot be replayed from arrivals alone, because "
            f"{why_not(limit.algorithm)}; leave it out"
        )
    return kind(limit.algorithm, bool(limit.subject.alternatives), limit.unit == "requests")
