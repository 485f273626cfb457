"""What a limit would have denied of recorded load: counts become arrivals, and go through the reference models.

How units were spread within a step is not known, so they are spread evenly. Units of a busy step come in a few
grains of several units, each of which is allowed or denied as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headroom_edge.algorithms import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.plan.subject import TENANT
from quotas.calibration.burst import bracket
from quotas.calibration.counts import Counts
from quotas.observations.arrays import Floats, whole_numbers
from quotas.policies.spec import Limit
from quotas.simulation.fast_replay import ALLOWED, ArrivalBatch, FastReplay

GRAINS = 10  # of one step


@dataclass(frozen=True, slots=True)
class Replayed:
    """Units that were asked for and denied, by span."""

    units: Floats
    denied: Floats

    @property
    def denied_share(self) -> float:
        return float(self.denied.sum() / max(1.0, self.units.sum()))


def arrivals_of(counts: Counts, largest: int | None = None) -> ArrivalBatch:
    """`largest`: the largest grain, so that none is denied for its size alone."""
    units = np.maximum(1, np.rint(counts.units)).astype(np.int64)
    grains = np.minimum(units, GRAINS)
    if largest is not None:
        grains = np.maximum(grains, -(-units // max(1, largest)))
    places = np.arange(int(grains.sum())) - np.repeat(np.cumsum(grains) - grains, grains)
    step_us = counts.step_s * SECOND_US
    times = np.repeat(counts.starts_s * SECOND_US, grains) + places * step_us // np.repeat(grains, grains)
    quotient, rest = np.divmod(units, grains)
    costs = np.repeat(quotient, grains) + (places < np.repeat(rest, grains))
    return ArrivalBatch(whole_numbers(times), np.zeros(len(times), np.int64), whole_numbers(costs))


def replayed(
    counts: Counts, algorithm: Algorithm, edges_s: Sequence[float], arrivals: ArrivalBatch | None = None
) -> Replayed:
    """Between each two edges, as one run: a limit remembers what came before. `arrivals`: the same load, if known."""
    spans = np.searchsorted(np.asarray(edges_s), counts.starts_s, side="right") - 1
    inside = (spans >= 0) & (spans < len(edges_s) - 1)
    counts, spans = counts.where(inside), spans[inside]
    units = np.bincount(spans, weights=counts.units, minlength=len(edges_s) - 1).astype(np.float64)
    nothing = np.zeros(len(edges_s) - 1)
    if not len(counts) or _never_denies(counts, algorithm):
        return Replayed(units, nothing)
    batch = arrivals_of(counts, max(1, algorithm.capacity // 4)) if arrivals is None else _between(arrivals, edges_s)
    decided = FastReplay([Limit("limit", algorithm, TENANT, unit="cost")]).decide(batch)
    refused = decided.denied_by != ALLOWED
    places = np.searchsorted(np.asarray(edges_s) * SECOND_US, batch.times_us[refused], side="right") - 1
    # The last step may reach past the last edge; its units were counted where it began.
    places = np.minimum(places, len(nothing) - 1)
    denied = np.bincount(places, weights=batch.costs[refused], minlength=len(nothing)).astype(np.float64)
    return Replayed(units, denied)


def _between(arrivals: ArrivalBatch, edges_s: Sequence[float]) -> ArrivalBatch:
    first, last = np.searchsorted(arrivals.times_us, np.array((edges_s[0], edges_s[-1])) * SECOND_US)
    return arrivals.cut(int(first), int(last))


def _never_denies(counts: Counts, algorithm: Algorithm) -> bool:
    """Whether the limit denies nothing even if each step's units come at once. Most tenants need no replay."""
    if not isinstance(algorithm, TokenBucket | Gcra | LeakyBucket):
        return False
    return bracket(counts, algorithm.rate * SECOND_US / algorithm.per_us).high <= algorithm.size
