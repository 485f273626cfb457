"""A backend's capacity, estimated from its latency; and whether its tenants' limits add up to more.

A knee is only reported if points past it were seen. Otherwise only the highest load so far is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.observations.arrays import Floats

BINS = 24
FEWEST_BINS = 6
FEWEST_IN_BIN = 3
PAST = 2  # bins beyond the knee
SLOWED = 1.5  # times the latency at low load, that the last bins must show
BEND = 0.15  # how far the curve must lie below its chord to have a knee; a straight line has 0

Method = Literal["usl", "kneedle"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One second, or any short span, of an endpoint."""

    load: float  # requests finished a second
    p99_ms: float
    mean_ms: float = 0.0  # 0: not known


@dataclass(frozen=True, slots=True)
class Capacity:
    load: float  # requests a second at the knee
    method: Method
    most_seen: float


@dataclass(frozen=True, slots=True)
class NoKnee:
    """No knee was seen. Capacity is at least the highest load so far."""

    most_seen: float
    reason: str


@dataclass(frozen=True, slots=True)
class OverCommit:
    """What the tenants may ask for together, compared with what the backend can take."""

    may_ask: float  # a second
    usable: float | None  # None: capacity is not known
    binds: Literal["demand", "capacity"]

    @property
    def factor(self) -> float:
        """The factor on every limit at which all of them fit together."""
        return 1.0 if self.usable is None or self.may_ask <= self.usable else self.usable / self.may_ask


def capacity_of(samples: Sequence[Sample]) -> Capacity | NoKnee:
    most = max((sample.load for sample in samples), default=0.0)
    law = _scalability([sample for sample in samples if sample.mean_ms > 0 and sample.load > 0])
    if law is not None:
        return Capacity(law.peak, "usl", most) if law.was_passed else NoKnee(most, "throughput still rises with load")
    loads, latencies = _binned(samples)
    if len(loads) < FEWEST_BINS:
        return NoKnee(most, "the load varied too little")
    knee = _kneedle(loads, latencies)
    if knee is None:
        return NoKnee(most, "latency has not bent upwards yet")
    return Capacity(knee, "kneedle", most)


def over_commit(rates: Iterable[float], capacity: Capacity | NoKnee, parameters: Parameters = DEFAULTS) -> OverCommit:
    may_ask = float(sum(rates))
    if isinstance(capacity, NoKnee):
        return OverCommit(may_ask, None, "demand")
    usable = parameters.capacity_share * capacity.load
    return OverCommit(may_ask, usable, "capacity" if may_ask > usable else "demand")


@dataclass(frozen=True, slots=True)
class _Law:
    peak: float  # requests a second
    was_passed: bool


def _scalability(samples: Sequence[Sample]) -> _Law | None:
    """Gunther's law: latency is a quadratic of the number in flight, N = load × mean latency (Little).

    R = a + b(N − 1) + cN(N − 1); throughput N/R peaks at N = √((a − b)/c), which counts if more were ever in flight.
    """
    if len(samples) < FEWEST_BINS * FEWEST_IN_BIN:
        return None
    load, mean_s = (np.array(column) for column in zip(*((s.load, s.mean_ms / 1_000) for s in samples), strict=True))
    # At one load, a slow second also has more in flight: a curve through such points says nothing about capacity.
    if len(np.unique(load)) < FEWEST_BINS:
        return None
    flight = load * mean_s
    terms = np.stack((np.ones(len(flight)), flight - 1, flight * (flight - 1)), axis=1)
    (base, contention, crosstalk), *_ = np.linalg.lstsq(terms, mean_s, rcond=None)
    if base <= 0 or crosstalk <= 0 or contention >= base:
        return None
    best = float(np.sqrt((base - contention) / crosstalk))
    peak = best / float(base + contention * (best - 1) + crosstalk * best * (best - 1))
    return _Law(peak, 1 < best < np.sort(flight)[-PAST * FEWEST_IN_BIN])


def _binned(samples: Sequence[Sample]) -> tuple[Floats, Floats]:
    """Mean load and median p99 of even steps of load that hold enough samples."""
    if not samples:
        return np.empty(0), np.empty(0)
    load, p99 = (np.array(column) for column in zip(*((s.load, s.p99_ms) for s in samples), strict=True))
    places = np.minimum((load / max(load.max(), 1e-12) * BINS).astype(int), BINS - 1)
    bins = [place for place in range(BINS) if (places == place).sum() >= FEWEST_IN_BIN]
    return (
        np.array([load[places == place].mean() for place in bins]),
        np.array([np.median(p99[places == place]) for place in bins]),
    )


def _kneedle(loads: Floats, latencies: Floats) -> float | None:
    """Where the curve lies furthest below its chord, if latency really rises after it."""
    rising = np.maximum.accumulate(latencies)
    span = rising[-1] - rising[0]
    if span <= 0 or rising[-1] < SLOWED * rising[0]:
        return None
    below = (loads - loads[0]) / (loads[-1] - loads[0]) - (rising - rising[0]) / span
    knee = int(below.argmax())
    if below[knee] < BEND or knee + PAST >= len(loads):
        return None
    return float(loads[knee])
