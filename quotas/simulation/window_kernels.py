"""Kernels of fast replay for fixed windows, calendar quotas, sliding counters and sliding logs."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from headroom_edge.algorithms import CalendarQuota, FixedWindow, SlidingCounter, SlidingLog
from headroom_edge.algorithms.base import SECOND_US, State
from quotas.observations.arrays import Ints, whole_numbers
from quotas.simulation.generated_loop import LoopLines
from quotas.simulation.kernels import LARGEST, BaseKernel, Block, TooWideError, drop

NEVER = -2  # neither this nor the next number is the number of a window


@dataclass(frozen=True, slots=True)
class _Runs:
    """Arrivals of the same subject in the same window."""

    starts: Ints
    numbers: Ints  # the run of each arrival
    windows: Ints  # of each run
    counts: Ints  # running sum of units within the run

    @classmethod
    def of(cls, block: Block, windows: Ints) -> _Runs:
        new = np.concatenate(([True], windows[1:] != windows[:-1]))
        new[block.starts] = True
        starts = np.flatnonzero(new)
        numbers = np.cumsum(new) - 1
        before = block.asked[starts] - block.costs[starts]
        return cls(starts, numbers, windows[starts], block.asked - before[numbers])


@dataclass(frozen=True, slots=True)
class _Counts:
    """For each arrival: its window, the count in it including the arrival, and the count of the window before."""

    windows: Ints
    counts: Ints
    previous: Ints


class FixedKernel(BaseKernel[_Counts]):
    """State: the window and the count in it."""

    def __init__(self, window: FixedWindow | CalendarQuota, by_subject: bool, counts_requests: bool) -> None:
        super().__init__(by_subject, counts_requests)
        self._limit = window.limit
        self._span_us = window.window_us if isinstance(window, FixedWindow) else 0
        self._starts_s = () if isinstance(window, FixedWindow) else window.starts
        self._starts = whole_numbers(self._starts_s)
        self._used: dict[int, tuple[int, int]] = {}

    def scan(self, block: Block) -> int:
        return block.first(self.walk(block).counts > self._limit)

    def charge(self, block: Block) -> None:
        walk = self.walk(block)
        last = zip(walk.windows[block.ends].tolist(), walk.counts[block.ends].tolist(), strict=True)
        self._used.update(zip(block.subjects, last, strict=True))

    def _walk(self, block: Block) -> _Counts:
        windows = self._windows(block.times_us)
        runs = _Runs.of(block, windows)
        carried = np.zeros(len(runs.starts), np.int64)
        stored = np.array([self._used.get(subject, (NEVER, 0)) for subject in block.subjects], dtype=np.int64)
        first = runs.numbers[block.starts]
        carried[first] = np.where(stored[:, 0] == runs.windows[first], stored[:, 1], 0)
        return _Counts(windows, runs.counts + carried[runs.numbers], carried)

    def _windows(self, times_us: Ints) -> Ints:
        if self._span_us:
            return times_us // self._span_us
        places = np.searchsorted(self._starts, times_us // SECOND_US, side="right") - 1
        return self._starts[np.maximum(0, places)]

    def _window(self, now_us: int) -> int:
        if self._span_us:
            return now_us // self._span_us
        return self._starts_s[max(0, bisect_right(self._starts_s, now_us // SECOND_US) - 1)]

    def lines(self, cost: str) -> LoopLines:
        values = {
            "S@": self._used,
            "W@": self._span_us,
            "L@": self._limit,
            "window@": self._window,
            "NEVER@": (NEVER, 0),
        }
        now = "w@ = now // W@" if self._span_us else "w@ = window@(now)"
        new, fits = "if w@ != v@: v@, c@ = w@, 0", f"c@ + {cost} <= L@"
        load, store = "v@, c@ = S@.get({}, NEVER@)", "S@[{}] = (v@, c@)"
        if self.by_subject:
            return LoopLines(values, [now, load.format("who"), new], fits, [f"c@ += {cost}", store.format("who")])
        return LoopLines(values, [now, new], fits, [f"c@ += {cost}"], [load.format(0)], [store.format(0)])

    def state(self, subject: int) -> State | None:
        return self._used.get(subject)

    def forget(self, now_us: int) -> None:
        now = self._window(now_us)
        drop(self._used, [subject for subject, used in self._used.items() if used[0] != now])


class CounterKernel(BaseKernel[_Counts]):
    """State: the window, its count, and the count of the window before."""

    def __init__(self, counter: SlidingCounter, by_subject: bool, counts_requests: bool) -> None:
        super().__init__(by_subject, counts_requests)
        self._span_us, self._most = counter.window_us, counter.limit * counter.window_us
        self._used: dict[int, tuple[int, int, int]] = {}

    def scan(self, block: Block) -> int:
        walk = self.walk(block)
        left = (walk.windows + 1) * self._span_us - block.times_us
        if int(walk.counts.max()) * self._span_us * 2 >= LARGEST:
            raise TooWideError
        return block.first(walk.counts * self._span_us + walk.previous * left > self._most)

    def charge(self, block: Block) -> None:
        walk = self.walk(block)
        last = (column[block.ends].tolist() for column in (walk.windows, walk.counts, walk.previous))
        self._used.update(zip(block.subjects, zip(*last, strict=True), strict=True))

    def _walk(self, block: Block) -> _Counts:
        windows = block.times_us // self._span_us
        runs = _Runs.of(block, windows)
        stored = np.array([self._used.get(subject, (NEVER, 0, 0)) for subject in block.subjects], dtype=np.int64)
        first = runs.numbers[block.starts]
        carried, previous = np.zeros((2, len(runs.starts)), np.int64)
        same, next_one = stored[:, 0] == runs.windows[first], stored[:, 0] + 1 == runs.windows[first]
        carried[first] = np.where(same, stored[:, 1], 0)
        totals = runs.counts[np.append(runs.starts[1:], len(windows)) - 1] + carried
        previous[1:] = np.where(runs.windows[1:] == runs.windows[:-1] + 1, totals[:-1], 0)
        previous[first] = np.where(same, stored[:, 2], np.where(next_one, stored[:, 1], 0))
        return _Counts(windows, runs.counts + carried[runs.numbers], previous[runs.numbers])

    def lines(self, cost: str) -> LoopLines:
        values = {"S@": self._used, "W@": self._span_us, "M@": self._most, "NEVER@": (NEVER, 0, 0)}
        now, new = "w@ = now // W@", "if w@ != v@: v@, c@, p@ = w@, 0, c@ if v@ + 1 == w@ else 0"
        fits = f"(c@ + {cost}) * W@ + p@ * ((w@ + 1) * W@ - now) <= M@"
        load, store = "v@, c@, p@ = S@.get({}, NEVER@)", "S@[{}] = (v@, c@, p@)"
        if self.by_subject:
            return LoopLines(values, [now, load.format("who"), new], fits, [f"c@ += {cost}", store.format("who")])
        return LoopLines(values, [now, new], fits, [f"c@ += {cost}"], [load.format(0)], [store.format(0)])

    def state(self, subject: int) -> State | None:
        return self._used.get(subject)

    def forget(self, now_us: int) -> None:
        before = now_us // self._span_us - 1
        drop(self._used, [subject for subject, used in self._used.items() if used[0] < before])


@dataclass(frozen=True, slots=True)
class _Live:
    """Units within the window at each arrival, including its own."""

    units: Ints


class LogKernel(BaseKernel[_Live]):
    """State: the time of every unit within the window, oldest first."""

    def __init__(self, log: SlidingLog, by_subject: bool, counts_requests: bool) -> None:
        super().__init__(by_subject, counts_requests)
        self._limit, self._span_us = log.limit, log.window_us
        self._logs: dict[int, list[int]] = {}

    def scan(self, block: Block) -> int:
        return block.first(self.walk(block).units > self._limit)

    def _walk(self, block: Block) -> _Live:
        """Counts by binary search in one sorted list of all units; an offset per subject keeps them apart."""
        logs = [self._logs.get(subject, []) for subject in block.subjects]
        kept = np.array([len(log) for log in logs])
        lift = block.span_us + 2 * self._span_us + 1
        if lift * (len(logs) + 1) >= LARGEST:
            raise TooWideError
        zero = block.first_us - self._span_us
        times = block.times_us - zero + block.group * lift
        old = np.array([max(0, time - zero) for log in logs for time in log], dtype=np.int64)
        old += np.repeat(np.arange(len(logs)), kept) * lift
        entries = np.concatenate((old, times))
        order = np.argsort(entries, kind="stable")
        units = np.concatenate(([0], np.cumsum(np.concatenate((np.ones(len(old), np.int64), block.costs))[order])))
        gone = units[np.searchsorted(entries[order], times - self._span_us, side="right")]
        with_own = np.cumsum(kept)[block.group] + block.asked
        return _Live(with_own - gone)

    def charge(self, block: Block) -> None:
        times, costs = block.times_us.tolist(), block.costs.tolist()
        for subject, start, end in zip(block.subjects, block.starts.tolist(), block.ends.tolist(), strict=True):
            log = self._logs.setdefault(subject, [])
            for index in range(start, end + 1):
                log.extend([times[index]] * costs[index])
            del log[: bisect_right(log, times[end] - self._span_us)]

    def lines(self, cost: str) -> LoopLines:
        who = "who" if self.by_subject else "0"
        ask, keep = f"a@ = live@({who}, now) + {cost}", f"enter@({who}, now, {cost})"
        return LoopLines({"live@": self._live, "enter@": self._enter, "L@": self._limit}, [ask], "a@ <= L@", [keep])

    def _live(self, subject: int, now_us: int) -> int:
        log = self._logs.get(subject, [])
        return len(log) - bisect_right(log, now_us - self._span_us)

    def _enter(self, subject: int, now_us: int, cost: int) -> None:
        log = self._logs.setdefault(subject, [])
        del log[: bisect_right(log, now_us - self._span_us)]
        log.extend([now_us] * cost)

    def state(self, subject: int) -> State | None:
        log = self._logs.get(subject)
        return tuple(log) if log else None

    def forget(self, now_us: int) -> None:
        oldest = now_us - self._span_us
        drop(self._logs, [subject for subject, log in self._logs.items() if not log or log[-1] <= oldest])
