"""Demand: the offered load without retries, and the hours in which true demand may be higher."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.counts import HOUR_S, MINUTE_S, Counts, joined
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.observations.arrays import Attempts, Flags


@dataclass(frozen=True, slots=True)
class Demand:
    """Offered load per minute, and which minutes are censored."""

    minutes: Counts
    censored: Flags  # of each minute: its hour had so many denials that demand may have been higher still

    @property
    def censored_share(self) -> float:
        """Of the load."""
        return float(self.minutes.units[self.censored].sum() / self.minutes.total) if len(self.minutes) else 0.0


def first_attempts(attempts: Attempts, parameters: Parameters = DEFAULTS) -> Flags:
    """True for each new request, False for a retry of a denied one.

    An attempt repeats the oldest open denial of its subject that it can have learned of, as long as that denial's
    Retry-After (and a little grace) has not passed. Denied again, it stands open in that one's place.
    """
    first = np.ones(len(attempts.times_us), dtype=bool)
    if not attempts.denied.any():
        return first
    think_us, grace_us = (int(s * SECOND_US) for s in (parameters.think_s, parameters.retry_grace_s))
    times, retries = attempts.times_us.tolist(), attempts.retry_us.tolist()
    subjects, denied = attempts.subjects.tolist(), attempts.denied.tolist()
    waiting: dict[int, deque[tuple[int, int]]] = {}  # subject → when it learned of each denial, until when it repeats
    for index, (now, subject) in enumerate(zip(times, subjects, strict=True)):
        queue = waiting.get(subject)
        if queue is not None:
            while queue and queue[0][1] < now:
                queue.popleft()
            if queue and queue[0][0] <= now:
                queue.popleft()
                first[index] = False
        if denied[index]:
            waiting.setdefault(subject, deque()).append((now + think_us, now + max(0, retries[index]) + grace_us))
    return first


def demand_of(attempts: Attempts, parameters: Parameters = DEFAULTS) -> Demand:
    first = first_attempts(attempts, parameters)
    times_s = attempts.times_us // SECOND_US
    offered = Counts.of(times_s[first], MINUTE_S, attempts.costs[first])
    refused = Counts.of(times_s[attempts.denied], MINUTE_S, attempts.costs[attempts.denied])
    allowed = Counts.of(times_s[~attempts.denied], MINUTE_S, attempts.costs[~attempts.denied])
    return Demand(offered, censored(offered, allowed, refused, parameters))


def demand_from_counts(
    allowed: Counts, denied: Counts, retry_share: float = 0.0, parameters: Parameters = DEFAULTS
) -> Demand:
    """From rollups, where single attempts are not known; `retry_share` of the denials only repeat others."""
    new = Counts(denied.step_s, denied.starts_s, denied.units * (1 - retry_share))
    offered = joined([allowed, new], allowed.step_s).coarser(MINUTE_S)
    offered = offered.where(offered.units > 0)
    return Demand(offered, censored(offered, allowed, denied, parameters))


def censored(minutes: Counts, allowed: Counts, denied: Counts, parameters: Parameters = DEFAULTS) -> Flags:
    """Whether the hour of each minute had more denials than `censored_above` of all requests."""
    if not len(denied):
        return np.zeros(len(minutes), dtype=bool)
    refused = denied.coarser(HOUR_S)
    asked = joined([allowed.coarser(HOUR_S), refused], HOUR_S)
    share = refused.units / np.maximum(asked.units[np.searchsorted(asked.starts_s, refused.starts_s)], 1e-12)
    hours = refused.starts_s[share > parameters.censored_above]
    return np.isin(minutes.starts_s // HOUR_S * HOUR_S, hours)
