"""What a recommendation is good for, in one sentence with its cost; and whether that is worth a person's time.

It is read from the days that the limit was not fitted on. A raise must end 429s that tenants with demand really get;
a cut must free an allowance that nobody comes near. Either must be more than chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

from headroom_edge.algorithms.base import Algorithm, per_text
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.calibration.sizing import BUCKETS, WINDOWS, per_minute, point_of

SURE = 2.0  # standard deviations
LEAST_A_DAY = 1.0  # 429s
MOST_TENANTS = 3  # named in a sentence


@dataclass(frozen=True, slots=True)
class Benefit:
    is_worth: bool
    sentence: str
    ended: float = 0.0  # 429s a day
    of: float = 0.0  # 429s a day now
    freed: float = 0.0  # units a second that nobody uses
    new: float = 0.0  # 429s a day that it would add
    helped: tuple[str, ...] = ()

    def json(self) -> dict[str, Any]:
        return {
            "is_worth": self.is_worth,
            "sentence": self.sentence,
            "ended_a_day": round(self.ended, 2),
            "denied_a_day": round(self.of, 2),
            "freed_a_second": round(self.freed, 4),
            "new_a_day": round(self.new, 2),
            "helped": list(self.helped[:100]),
            "helped_count": len(self.helped),
        }


def benefit_of(
    current: Algorithm,
    proposed: Algorithm,
    forecast: Mapping[str, Any],
    evidence: Mapping[str, Any],
    parameters: Parameters = DEFAULTS,
    *,
    is_of_one: bool = False,
) -> Benefit:
    """`is_of_one`: it is for one tenant, not for each of a tier."""
    unseen = forecast.get("unseen")
    if not unseen or not unseen["units"]:
        return Benefit(False, "there are no days yet to try it on that it was not fitted to")
    if per_minute(proposed) >= per_minute(current):
        cost = _cost(current, proposed, evidence, "it" if is_of_one else "each")
        return _of_raise(unseen, cost, parameters)
    return _of_cut(current, proposed, unseen, evidence, parameters)


def verb_of(current: Algorithm, proposed: Algorithm) -> str:
    """What it does, as the first words of a sentence about the limit."""
    before, after = point_of(current), point_of(proposed)
    if after.rate == before.rate:
        return "Raise the burst of" if after.burst > before.burst else "Lower the burst of"
    return "Raise" if after.rate > before.rate else "Lower"


def _of_raise(unseen: Mapping[str, Any], cost: str, parameters: Parameters) -> Benefit:
    days = max(unseen["days"], 1e-9)
    now, then = unseen["denied_now"], unseen["denied_then"]
    helped = tuple(
        one["tenant"]
        for one in unseen["tenants"]
        if one["denied_now"] - one["denied_then"] > parameters.burst_epsilon * one["units"]
    )
    ended, of = (now - then) / days, now / days
    is_worth = bool(helped) and now - then > SURE * sqrt(now + then) and ended >= LEAST_A_DAY
    if not is_worth:
        return Benefit(False, "it would end no 429s that a tenant really gets", ended, of, helped=helped)
    said = f"Ends {_count(ended)} of {_count(of)} 429s a day for {_who(helped)}; {cost}"
    return Benefit(True, said, ended, of, helped=helped)


def _of_cut(
    current: Algorithm,
    proposed: Algorithm,
    unseen: Mapping[str, Any],
    evidence: Mapping[str, Any],
    parameters: Parameters,
) -> Benefit:
    days = max(unseen["days"], 1e-9)
    added = max(0, unseen["denied_then"] - unseen["denied_now"])
    tenants = max(1, int(evidence.get("affected_count", 1)))
    freed = tenants * max(0.0, point_of(current).rate - point_of(proposed).rate)
    share = added / unseen["units"]
    if share > parameters.burst_epsilon:
        return Benefit(False, f"it would deny {share:.2%} of what was asked for", freed=freed, new=added / days)
    if freed <= 0:
        return Benefit(False, "it would end no 429s and free no capacity", new=added / days)
    each = "" if tenants == 1 else f" ({tenants:,} tenants × {_rate_words(current, proposed)})"
    costs = f"would deny {_count(added / days)} requests a day" if added else "denies nobody"
    return Benefit(True, f"Frees {_count(freed)}/s that nobody uses{each}; {costs}", freed=freed, new=added / days)


def _cost(current: Algorithm, proposed: Algorithm, evidence: Mapping[str, Any], whom: str) -> str:
    before, after = point_of(current), point_of(proposed)
    if after.rate <= before.rate:
        return f"lets {whom} send {after.burst - before.burst:,} more at once"
    capacity = (evidence.get("capacity") or {}).get("load")
    if capacity:
        return f"lets the busiest use {(after.rate - before.rate) / capacity:.0%} more of capacity".replace("%", " %")
    return f"lets {whom} send up to {_rate_words(proposed, current)} more"


def _rate_words(more: Algorithm, less: Algorithm) -> str:
    """The difference in the limit's own unit: 36 per 10s."""
    if isinstance(more, BUCKETS) and isinstance(less, BUCKETS) and more.typed_per_us == less.typed_per_us:
        return f"{_exact(more.typed_rate - less.typed_rate)}/{per_text(more.typed_per_us)}"
    if isinstance(more, WINDOWS) and isinstance(less, WINDOWS):
        return f"{more.limit - less.limit:,}/{per_text(more.window_us)}"
    return f"{_count(point_of(more).rate - point_of(less).rate)}/s"


def _who(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{len(names):,} tenants"


def _exact(value: float) -> str:
    return f"{round(value, 6):,}".removesuffix(".0")


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
