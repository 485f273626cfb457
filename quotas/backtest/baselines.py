"""Baselines: rules of thumb that the recommender is compared with. Each derives units per minute from past minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.counts import MINUTE_S, Counts
from quotas.calibration.percentiles import age_weights, quantile, weighted_quantile
from quotas.observations.arrays import Floats, Ints
from quotas.simulation.fast_replay import ArrivalBatch

MARGIN = 1.15
MOST_SUBJECTS = 1_000_000  # per series; above this, a uniform sample by hash


@dataclass(frozen=True, slots=True)
class BaselineRule:
    name: str
    units: Callable[[Counts, float], float]  # minutes with requests, and the time of the fit


RULES = (
    BaselineRule("max_x1.15", lambda minutes, _: minutes.peak * MARGIN),
    BaselineRule("p99_x1.15", lambda minutes, _: quantile(minutes.units, 0.99) * MARGIN),
    BaselineRule(
        "vpa_p90_24h_x1.15",
        lambda minutes, now_s: weighted_quantile(minutes.units, age_weights(minutes, now_s, 1.0), 0.9) * MARGIN,
    ),
)
PER_SUBJECT = "cloudflare_p99_of_subject_maxima"
PER_SUBJECT_QUANTILE = 0.99


class SubjectMaxima:
    """The busiest minute of each subject, in units; arrivals are added in order of time."""

    def __init__(self) -> None:
        self._subjects: Ints = np.empty(0, np.int64)
        self._maxima: Floats = np.empty(0)
        self._mask = 0  # bits of the hash that must be 0; each bit halves the sample
        self._open: ArrivalBatch | None = None  # arrivals of the last minute, which the next batch may continue

    def add(self, batch: ArrivalBatch) -> None:
        if self._open is not None:
            batch = _joined(self._open, batch)
        if len(batch):
            minute_us = MINUTE_S * SECOND_US
            last = int(np.searchsorted(batch.times_us, batch.times_us[-1] // minute_us * minute_us))
            self._open = batch.cut(last, len(batch))
            self._close(batch.cut(0, last))

    def values(self) -> Floats:
        if self._open is not None:
            self._close(self._open)
            self._open = None
        return self._maxima

    def _close(self, batch: ArrivalBatch) -> None:
        subjects, units = per_subject_minute(batch)
        kept = subjects & self._mask == 0
        subjects, units = subjects[kept], units[kept]
        self._subjects, places = np.unique(np.concatenate((self._subjects, subjects)), return_inverse=True)
        values = np.concatenate((self._maxima, units))
        self._maxima = np.zeros(len(self._subjects))
        np.maximum.at(self._maxima, places, values)
        while len(self._subjects) > MOST_SUBJECTS:
            self._mask = 2 * self._mask + 1
            kept = self._subjects & self._mask == 0
            self._subjects, self._maxima = self._subjects[kept], self._maxima[kept]


def per_subject_minute(batch: ArrivalBatch) -> tuple[Ints, Floats]:
    """Subject and units of each minute in which a subject had requests."""
    if not len(batch):
        return np.empty(0, np.int64), np.empty(0)
    minutes = batch.times_us // (MINUTE_S * SECOND_US)
    order = np.lexsort((minutes, batch.subjects))
    subjects, minutes, costs = batch.subjects[order], minutes[order], batch.costs[order]
    first = np.flatnonzero(np.concatenate(([True], (subjects[1:] != subjects[:-1]) | (minutes[1:] != minutes[:-1]))))
    return subjects[first], np.add.reduceat(costs, first).astype(np.float64)


def _joined(first: ArrivalBatch, second: ArrivalBatch) -> ArrivalBatch:
    return ArrivalBatch(
        *(np.concatenate((getattr(first, name), getattr(second, name))) for name in ("times_us", "subjects", "costs"))
    )


def subject_limit(maxima: Iterable[Floats]) -> float:
    """Units per minute and subject."""
    values = [one for one in maxima if len(one)]
    return quantile(np.concatenate(values), PER_SUBJECT_QUANTILE) if values else 0.0
