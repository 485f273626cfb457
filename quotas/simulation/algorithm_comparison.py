"""Compares limits on the same arrivals, each on its own: what it accepts, when that leaves, and its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.sliding_log import SlidingLog
from quotas.observations.arrays import Flags, Ints, whole_numbers
from quotas.policies.spec import Limit
from quotas.simulation import replay
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.fast_replay import ALLOWED, ArrivalBatch, FastReplay, can_replay

# Memory of one subject with one limit in Valkey, as measured by `make bench`.
RECORD_BYTES = {"token_bucket": 102, "sliding_counter": 117, "sliding_log": 211, "concurrency": 219}
OTHER_RECORD_BYTES = 101
ENTRY_BYTES = 12  # of a log entry or a holder, including what the server over-allocates
PACKED_HOLDERS = 128  # above this, Redis stores the holders as a hash table
HOLDER_BYTES = 64


@dataclass(frozen=True, slots=True)
class Timeline:
    """Steps of equal length from a start time."""

    begin_us: int
    step_us: int
    steps: int

    @property
    def span_us(self) -> int:
        return self.step_us * self.steps

    def counts(self, times_us: Ints) -> list[int]:
        """How many times fall into each step; later ones are left out."""
        places = (times_us - self.begin_us) // self.step_us
        counts: list[int] = np.bincount(places[places < self.steps], minlength=self.steps).tolist()
        return counts


@dataclass(frozen=True, slots=True)
class AlgorithmResult:
    """The result of one limit; lists have one number per step."""

    limit: Limit
    accepted: list[int]
    denied: list[int]
    out: list[int]  # accepted requests that leave for the backend in this step
    queued: list[int]  # accepted and still waiting at the end of the step
    accepted_count: int
    denied_count: int
    first_denied_us: int | None  # since the start
    most_out: int  # in any second
    longest_wait_us: int
    memory_bytes: int  # of the subject that needs most

    @property
    def accepted_share(self) -> float:
        return self.accepted_count / max(1, self.accepted_count + self.denied_count)

    @property
    def waits(self) -> bool:
        return self.longest_wait_us > 0


@dataclass(frozen=True, slots=True)
class _Ruled:
    allowed: Flags
    wait_us: Ints


def compare_algorithms(limits: Sequence[Limit], arrivals: Sequence[Arrival], line: Timeline) -> list[AlgorithmResult]:
    """One result per limit, as the reference models decide."""
    times_us, subjects = whole_numbers([arrival.t_us for arrival in arrivals]), _numbers(arrivals)
    return [_one(limit, times_us, subjects, _rule(limit, arrivals), arrivals, line) for limit in limits]


def _one(
    limit: Limit, times_us: Ints, subjects: Ints, ruled: _Ruled, arrivals: Sequence[Arrival], line: Timeline
) -> AlgorithmResult:
    ins_us, denied_us = times_us[ruled.allowed], times_us[~ruled.allowed]
    outs_us = ins_us + ruled.wait_us[ruled.allowed]
    accepted, out = line.counts(ins_us), line.counts(outs_us)
    return AlgorithmResult(
        limit,
        accepted,
        line.counts(denied_us),
        out,
        (np.cumsum(accepted) - np.cumsum(out)).tolist(),
        len(ins_us),
        len(denied_us),
        int(denied_us[0]) - line.begin_us if len(denied_us) else None,
        most_within(np.sort(outs_us), SECOND_US),
        int(ruled.wait_us.max(initial=0)),
        _bytes(
            limit, ins_us, subjects[ruled.allowed], [a for a, ok in zip(arrivals, ruled.allowed, strict=True) if ok]
        ),
    )


def most_within(times_us: Ints, span_us: int) -> int:
    """The most of the sorted times within any half-open span of this length."""
    ends = np.searchsorted(times_us, times_us + span_us, side="left")
    return int((ends - np.arange(len(times_us))).max(initial=0))


def _rule(limit: Limit, arrivals: Sequence[Arrival]) -> _Ruled:
    if not can_replay(limit):
        return _ruled(replay.replay([limit], arrivals))
    times_us, costs = (whole_numbers(list(column)) for column in _columns(arrivals))
    found = FastReplay([limit]).decide(ArrivalBatch(times_us, _numbers(arrivals), costs))
    return _Ruled(found.denied_by == ALLOWED, found.wait_us)


def _columns(arrivals: Sequence[Arrival]) -> Iterator[list[int]]:
    yield [arrival.t_us for arrival in arrivals]
    yield [arrival.cost for arrival in arrivals]


def _ruled(decisions: Iterator[replay.ReplayedArrival]) -> _Ruled:
    pairs = [(decided.allowed, decided.wait_us) for decided in decisions]
    return _Ruled(np.array([ok for ok, _ in pairs], bool), whole_numbers([wait for _, wait in pairs]))


def _numbers(arrivals: Sequence[Arrival]) -> Ints:
    names: dict[str, int] = {}
    return whole_numbers([names.setdefault(arrival.subject, len(names)) for arrival in arrivals])


def _bytes(limit: Limit, times_us: Ints, subjects: Ints, arrivals: Sequence[Arrival]) -> int:
    algorithm = limit.algorithm
    record = RECORD_BYTES.get(algorithm.name, OTHER_RECORD_BYTES)
    if isinstance(algorithm, SlidingLog):
        return record + ENTRY_BYTES * _most_of_one(times_us, subjects, repeat(algorithm.window_us))
    if isinstance(algorithm, Concurrency):
        holds = (min(algorithm.hold_us, a.duration_us or algorithm.hold_us) for a in arrivals)
        holders = _most_of_one(times_us, subjects, holds)
        return record + holders * (ENTRY_BYTES if holders <= PACKED_HOLDERS else HOLDER_BYTES)
    return record


def _most_of_one(times_us: Ints, subjects: Ints, spans_us: Iterator[int]) -> int:
    """The most entries that one subject has at once, if each stays for its span."""
    begun: dict[int, list[tuple[int, int]]] = {}
    for subject, now_us, span_us in zip(subjects.tolist(), times_us.tolist(), spans_us, strict=False):
        begun.setdefault(subject, []).extend(((now_us, 1), (now_us + span_us, -1)))
    return max((_peak(sorted(events)) for events in begun.values()), default=0)


def _peak(events: list[tuple[int, int]]) -> int:
    held = most = 0
    for _, change in events:  # at the same time, ends sort before beginnings
        held += change
        most = max(most, held)
    return most


def with_durations(arrivals: Sequence[Arrival], takes_us: int) -> list[Arrival]:
    """Sets the duration of arrivals that have none."""
    return [a if a.duration_us is not None else replace(a, duration_us=takes_us) for a in arrivals]
