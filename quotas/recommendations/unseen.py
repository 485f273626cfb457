"""The last days, which no replayed limit was fitted on: what each limit would have denied in them, day by day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from headroom_edge.algorithms.base import Algorithm
from quotas.backtest.baselines import RULES
from quotas.calibration.burst import Point
from quotas.calibration.counts import DAY_S, MINUTE_S, Counts
from quotas.calibration.forecast import Replayed
from quotas.calibration.sizing import point_of, resized, seen_by
from quotas.observations.arrays import Floats
from quotas.policies.limit_codec import algorithm_dump
from quotas.recommendations.measure import iso

MOST_TENANTS: Final = 200
THUMBS: Final = RULES[:2]  # what people do by hand: the busiest minute, or the 99th percentile, with a margin


@dataclass(slots=True)
class Thumbs:
    """Rules of thumb for a limit that suits every tenant, in units per minute."""

    units: dict[str, float] = field(default_factory=dict)

    def add(self, minutes: Sequence[Counts], cut_s: float) -> None:
        """Of one tenant, from before that moment."""
        for rule in THUMBS:
            found = [rule.units(one, cut_s) for one in minutes if len(one)]
            self.units[rule.name] = max([self.units.get(rule.name, 0.0), *found])

    def limits(self, live: Algorithm) -> dict[str, Algorithm]:
        """In the unit of the current limit, and with its burst."""
        burst = point_of(live).burst
        points = {name: Point(units / MINUTE_S, burst) for name, units in self.units.items() if units > 0}
        return {name: resized(live, seen_by(live, point)) for name, point in points.items()}


@dataclass(frozen=True, slots=True)
class TenantEffect:
    """What became of one tenant's requests in the unseen days."""

    tenant: str
    units: float
    now: float  # denied by the current limit
    then: float


@dataclass(slots=True)
class Unseen:
    start_s: float
    end_s: float
    limits: Mapping[str, Algorithm]  # `now`, `step`, and others that are worth a look
    tenants: list[TenantEffect] = field(default_factory=list)
    units: Floats = field(init=False)  # by day
    denied: dict[str, Floats] = field(init=False)

    def __post_init__(self) -> None:
        days = len(self.edges) - 1
        self.units, self.denied = np.zeros(days), {name: np.zeros(days) for name in self.limits}

    @property
    def edges(self) -> list[float]:
        days = max(1, round((self.end_s - self.start_s) / DAY_S))
        return [self.start_s + DAY_S * day for day in range(days)] + [self.end_s]

    def add(self, tenant: str, found: Mapping[str, Replayed]) -> None:
        units = found["now"].units
        if not units.sum():
            return
        self.units = self.units + units
        for name, one in found.items():
            self.denied[name] = self.denied[name] + one.denied
        now, then = (float(found[name].denied.sum()) for name in ("now", "step"))
        self.tenants.append(TenantEffect(tenant, float(units.sum()), now, then))

    def total(self, name: str) -> float:
        return float(sum(getattr(one, name) for one in self.tenants))

    @property
    def then_share(self) -> float | None:
        units = self.total("units")
        return self.total("then") / units if units else None

    def names(self, *, now: bool, then: bool) -> list[str]:
        """Tenants that are denied anything now, then, both or not."""
        return [one.tenant for one in self.tenants if (one.now > 0) == now and (one.then > 0) == then]

    def json(self) -> dict[str, Any]:
        counts = {name: round(self.total(name)) for name in ("units", "now", "then")}
        days = (self.end_s - self.start_s) / DAY_S
        return {
            "start": iso(self.start_s),
            "end": iso(self.end_s),
            "days": round(days, 2),
            "units": counts["units"],
            "denied_now": counts["now"],
            "denied_then": counts["then"],
            "by_day": list(self._by_day()),
            "limits": [
                {"name": name, "limit": algorithm_dump(limit), "denied": round(float(self.denied[name].sum()))}
                for name, limit in self.limits.items()
            ],
            "tenants": [
                {
                    "tenant": one.tenant,
                    "units": round(one.units),
                    "denied_now": round(one.now),
                    "denied_then": round(one.then),
                }
                for one in sorted(self.tenants, key=lambda one: (-one.now, -one.then, -one.units))[:MOST_TENANTS]
            ],
        }

    def _by_day(self) -> Iterator[dict[str, Any]]:
        for place, start_s in enumerate(self.edges[:-1]):
            yield {
                "start": iso(start_s),
                "units": round(float(self.units[place])),
                "denied_now": round(float(self.denied["now"][place])),
                "denied_then": round(float(self.denied["step"][place])),
            }
