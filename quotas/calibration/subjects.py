"""Sizes limits by key, user or address, from the sampled subjects of a tenant.

Each subject counts once, as tenants do: one that is far above the others moves the limit by one place at most, and
the largest subject never decides alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.burst import Point
from quotas.calibration.counts import Counts
from quotas.calibration.demand import demand_of, first_attempts
from quotas.calibration.estimate import Confidence, Estimate, Observed, Span, estimate
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.observations.arrays import Attempts
from quotas.simulation.fast_replay import ArrivalBatch

MOST_SUBJECTS = 500  # of one tenant: more do not improve a 99 % quantile


@dataclass(frozen=True, slots=True)
class Place:
    tenant: str
    endpoint: str
    gaps: Sequence[Span] = ()


def observed_subjects(attempts: Attempts, place: Place, parameters: Parameters = DEFAULTS) -> Iterator[Observed]:
    """`attempts` are in order of subject and time. Of too many, takes the first: subjects are hashes."""
    starts = np.flatnonzero(np.diff(attempts.subjects, prepend=attempts.subjects[:1] - 1))
    ends = np.append(starts[1:], len(attempts))
    for first, last in zip(starts[:MOST_SUBJECTS].tolist(), ends[:MOST_SUBJECTS].tolist(), strict=True):
        yield _observed(attempts.cut(first, last), place, parameters)


def subject_estimate(parts: Sequence[Observed], now_s: float, parameters: Parameters = DEFAULTS) -> Estimate:
    """What a subject of this tenant needs: the quantile over its subjects, rate and burst each for itself."""
    found = [estimate(one, now_s, parameters) for one in parts]
    marker = found[decisive_subject(found, parameters)]
    bursts = sorted(one.point.burst for one in found)
    minutes = np.unique(np.concatenate([one.demand.minutes.starts_s for one in parts]))
    return replace(
        marker,
        settled=Point(marker.point.rate, bursts[_place(len(bursts), parameters)]),
        growth=1.0,  # it is in each subject's point
        day_peaks=None,
        confidence=Confidence(max(one.confidence.days for one in found), len(minutes)),
    )


def decisive_subject(found: Sequence[Estimate], parameters: Parameters = DEFAULTS) -> int:
    """Place of the one whose rate is the tenant's."""
    order = sorted(range(len(found)), key=lambda place: found[place].point.rate)
    return order[_place(len(order), parameters)]


def _place(number: int, parameters: Parameters) -> int:
    return int(parameters.subject_quantile * (number - 1))


def _observed(attempts: Attempts, place: Place, parameters: Parameters) -> Observed:
    """Without retries, which are not demand."""
    new = first_attempts(attempts, parameters)
    times, costs = attempts.times_us[new], attempts.costs[new]
    fine = Counts.of(times // SECOND_US, 1, costs)
    arrivals = ArrivalBatch(times, np.zeros(len(times), np.int64), costs)
    demand = demand_of(attempts, parameters)
    return Observed(place.tenant, place.endpoint, demand, fine, float(fine.starts_s[0]), place.gaps, arrivals)
