"""The demo's endpoint whose backend slows down every hour, and how the limit that adapts went along in the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quotas.demo.enforcement import LimitSpan
from quotas.observations.arrays import Flags, Ints
from quotas.simulation.synthetic_tenants import HOUR_S, MINUTE_S

ETA: Final = "rider:eta"
LIMIT: Final = "eta-backend"  # of the policy protect-eta in world.yaml
RATE: Final = 8.0
BURST: Final = 16.0
NOTICED_S: Final = 6  # until the first cut has reached the shards
CRUISE: Final = 0.95  # of what the backend takes, where the limit settles
BACK_S: Final = 75  # until it is back at its configured rate: a calm minute, then 4 % a second


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Some minutes of every hour in which a backend takes less."""

    minutes: range
    knee: float  # requests a second

    def has(self, seconds: Ints) -> Flags:
        within = seconds % HOUR_S
        found: Flags = (within >= self.minutes.start * MINUTE_S) & (within < self.minutes.stop * MINUTE_S)
        return found


SLOWDOWN: Final = Slowdown(range(20, 25), 2.5)


def adapted_spans(span: range) -> tuple[LimitSpan, ...]:
    """The limit over time: as configured, and in every hour as much as the slow backend takes."""
    found = [LimitSpan(0, RATE, BURST)]
    for hour_s in range(span.start - span.start % HOUR_S, span.stop, HOUR_S):
        slow_s, good_s = (hour_s + minute * MINUTE_S for minute in (SLOWDOWN.minutes.start, SLOWDOWN.minutes.stop))
        found.append(LimitSpan(slow_s + NOTICED_S, SLOWDOWN.knee * CRUISE, 1.0))
        found.append(LimitSpan(good_s + BACK_S, RATE, BURST))
    return tuple(found)
