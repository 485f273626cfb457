"""Latency and errors of an endpoint against its load."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from headroom_edge.observations import ENDS
from quotas.calibration.capacity import Sample
from quotas.models.usage_rates import LatencyHour
from quotas.observations.histogram import Histogram
from quotas.observations.latency import unpack_histogram

MICROSECONDS_PER_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class LatencyAtLoad:
    """The seconds of a span in which an endpoint had about this load, taken together."""

    load: int  # responses per second; the upper end of its bucket, at most 5 % too high
    seconds: int
    answers: int
    errors: int
    total_us: int
    latency: Histogram  # of microseconds

    @property
    def mean_ms(self) -> float:
        return self.total_us / self.answers / MICROSECONDS_PER_MS

    def quantile_ms(self, q: float) -> float:
        return self.latency.interpolated(q) / MICROSECONDS_PER_MS


def latency_read(endpoint: int, begin: datetime, end: datetime) -> list[LatencyAtLoad]:
    """Ordered by load."""
    found: dict[int, LatencyAtLoad] = {}
    for one in _hours(endpoint, begin, end):
        before = found.get(one.load)
        found[one.load] = one if before is None else _together(before, one)
    return [found[load] for load in sorted(found)]


def latency_samples(endpoint: int, begin: datetime, end: datetime) -> list[Sample]:
    """One sample per hour and load, from which calibration finds the knee of the latency curve."""
    return [Sample(one.load, one.quantile_ms(0.99), one.mean_ms) for one in _hours(endpoint, begin, end)]


def _hours(endpoint: int, begin: datetime, end: datetime) -> list[LatencyAtLoad]:
    hour = begin.replace(minute=0, second=0, microsecond=0)
    rows = LatencyHour.objects.filter(endpoint_number=endpoint, start__gte=hour, start__lt=end)
    return [
        LatencyAtLoad(ENDS[row.load], row.seconds, row.answers, row.errors, row.total_us, unpack_histogram(row.latency))
        for row in rows.order_by("start", "load")
    ]


def _together(one: LatencyAtLoad, other: LatencyAtLoad) -> LatencyAtLoad:
    return LatencyAtLoad(
        one.load,
        one.seconds + other.seconds,
        one.answers + other.answers,
        one.errors + other.errors,
        one.total_us + other.total_us,
        one.latency + other.latency,
    )
