"""Synthetic tenants with known demand, for tests of the estimators and for the demo.

Requests arrive as a Poisson process with a given rate per second, plus bursts of cron jobs at fixed times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from headroom_edge.algorithms import TokenBucket
from headroom_edge.algorithms.base import SECOND_US, State
from quotas.observations.arrays import Attempts, Floats, Ints, whole_numbers

MINUTE_S = 60
HOUR_S = 3_600
DAY_S = 86_400
WEEK_S = 7 * DAY_S
SUBJECTS = 200

Intensity = Callable[[Floats], Floats]  # seconds since the epoch → requests a second


@dataclass(frozen=True, slots=True)
class Cron:
    size: int
    every_s: int = HOUR_S
    within_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Throttle:
    """A limit that the tenant already has, and what its clients do when it denies them."""

    bucket: TokenBucket
    retry_every_s: float | None = None  # None: they give up
    most_retries: int = 0


@dataclass(frozen=True, slots=True)
class SyntheticTenant:
    name: str
    kind: str
    intensity: Intensity
    cron: Cron | None = None
    throttle: Throttle | None = None
    subjects: int = field(default=SUBJECTS)

    def demand(self, start_s: float, end_s: float, draw: np.random.Generator) -> Ints:
        """Times of new requests in microseconds. Retries are not demand."""
        minutes: Floats = np.arange(start_s // MINUTE_S, np.ceil(end_s / MINUTE_S), dtype=np.float64) * MINUTE_S
        counts = draw.poisson(self.intensity(minutes + MINUTE_S / 2) * MINUTE_S)
        times = np.repeat(minutes, counts) + draw.random(int(counts.sum())) * MINUTE_S
        if self.cron is not None:
            first = np.ceil(start_s / self.cron.every_s) * self.cron.every_s
            starts = np.repeat(np.arange(first, end_s, self.cron.every_s), self.cron.size)
            times = np.concatenate((times, starts + draw.random(len(starts)) * self.cron.within_s))
        times = times[(times >= start_s) & (times < end_s)]
        return whole_numbers(np.sort(times) * SECOND_US)

    def counts(self, start_s: int, end_s: int, step_s: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
        """Starts of steps with demand, and the demand: the same distribution as counting `demand`, but much faster."""
        starts = np.arange(start_s // step_s, end_s // step_s) * step_s
        middles: Floats = (starts + step_s / 2).astype(np.float64)
        counts = draw.poisson(self.intensity(middles) * step_s)
        if self.cron is not None:
            counts = counts + np.where(starts % self.cron.every_s < step_s, self.cron.size, 0)
        return starts[counts > 0], counts[counts > 0]

    def attempts(self, start_s: float, end_s: float, draw: np.random.Generator) -> Attempts:
        """The requests that reach the limiter, including retries and denied ones."""
        times = self.demand(start_s, end_s, draw)
        subjects = whole_numbers(draw.integers(0, self.subjects, len(times)))
        if self.throttle is None:
            nothing = np.zeros(len(times), np.int64)
            return Attempts(times, np.ones(len(times), np.int64), subjects, nothing.astype(bool), nothing)
        return _throttled(times, subjects, self.throttle)


def _throttled(times_us: Ints, subjects: Ints, throttle: Throttle) -> Attempts:
    bucket, state = throttle.bucket, None
    queue = [(time, number, 0) for number, time in enumerate(times_us.tolist())]
    who = subjects.tolist()
    rows: list[tuple[int, int, bool, int]] = []
    while queue:
        now_us, number, tries = heappop(queue)
        outcome = bucket.decide(state, now_us, 1)
        denied = not outcome.verdict.admitted
        after: State | None = outcome.kept if denied else outcome.charged
        state = after
        rows.append((now_us, who[number], denied, max(0, outcome.verdict.retry_us)))
        if denied and throttle.retry_every_s is not None and tries < throttle.most_retries:
            heappush(queue, (now_us + int(throttle.retry_every_s * SECOND_US), number, tries + 1))
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    times, subject, refused, retry = (whole_numbers(column) for column in columns)
    return Attempts(times, np.ones(len(times), np.int64), subject, refused.astype(bool), retry)


def steady(name: str, rate: float) -> SyntheticTenant:
    return SyntheticTenant(name, "steady", lambda seconds: np.full(len(seconds), rate))


def diurnal_weekly(name: str, low: float, high: float, weekend: float = 0.4) -> SyntheticTenant:
    """High by day, low at night, and less on two days of the week."""

    def intensity(seconds: Floats) -> Floats:
        wave = (1 - np.cos(2 * np.pi * (seconds % DAY_S) / DAY_S)) / 2
        calm = np.where(seconds % WEEK_S // DAY_S >= 5, weekend, 1.0)
        found: Floats = (low + (high - low) * wave) * calm
        return found

    return SyntheticTenant(name, "diurnal", intensity)


def cron_burst(name: str, rate: float, size: int, every_s: int = HOUR_S) -> SyntheticTenant:
    return SyntheticTenant(name, "cron", lambda seconds: np.full(len(seconds), rate), Cron(size, every_s))


def growing(name: str, rate: float, daily: float, since_s: float) -> SyntheticTenant:
    return SyntheticTenant(name, "growth", lambda seconds: rate * daily ** ((seconds - since_s) / DAY_S))


def new(name: str, rate: float, since_s: float) -> SyntheticTenant:
    return SyntheticTenant(name, "new", lambda seconds: np.where(seconds >= since_s, rate, 0.0))


def abuser(name: str, rate: float, factor: float, from_s: float) -> SyntheticTenant:
    """Normal at first, then suddenly far above the others."""
    return SyntheticTenant(name, "abuser", lambda seconds: np.where(seconds >= from_s, rate * factor, rate))
