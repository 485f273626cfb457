"""Sizes the members of a pool from measured demand: what each is guaranteed, how far it may go, and the pool's reserve.

The guaranteed share is the median of a member's demand and its ceiling the 98th percentile, both by load: between the
two it borrows what the others do not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np

from headroom_edge.algorithms.base import EXACT_MAX, SECOND_US, per_text
from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.calibration.counts import Counts
from quotas.calibration.estimate import Estimate, Observed, estimate
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.calibration.percentiles import weighted_quantile
from quotas.calibration.recommend import Insufficient, with_margin
from quotas.calibration.sizing import SPANS_US

MEDIAN = 0.5
MOST_RESERVED = 0.8  # of the pool's burst: what is kept back cannot be lent
CLOSE = 0.95  # how much of a share rounding down must leave; otherwise it is written in a longer span


@dataclass(frozen=True, slots=True)
class Need:
    """What one member asks for, in units a second."""

    estimate: Estimate
    assured: float  # half of its load comes no faster
    burst: int  # what one second brings
    ceiling: float
    ceiling_burst: int


@dataclass(frozen=True, slots=True)
class FittedShares:
    """Shares that fit the pool together."""

    shares: Mapping[str, Borrowing]  # of those whose need is known
    reserve: int  # of the pool
    cut_to: float  # 1: the guaranteed shares fit as measured; 0: there is no room for them

    def warnings(self, pool: Pool) -> list[str]:
        found = []
        if self.cut_to == 0:
            found.append(
                "Members without enough data are guaranteed all of the pool's rate already, so no share was proposed; "
                "raise the pool's rate, or lower their shares."
            )
        elif self.cut_to < 1:
            found.append(
                f"The medians of demand add up to more than the pool's rate of {pool.bucket.rate_words}, "
                f"so guaranteed shares are cut to {self.cut_to:.0%} of them; raise the rate for more.".replace(
                    "%", " %"
                )
            )
        return found


def need_of(
    observed: Observed, now_s: float, parameters: Parameters = DEFAULTS, least_days: float | None = None
) -> Need | Insufficient:
    """`observed` includes what was denied: a member's demand is what it asks for.

    `least_days`: of history; default: as the parameters say.
    """
    found, least = estimate(observed, now_s, parameters), parameters.least_days if least_days is None else least_days
    days = found.confidence.days
    if days < least:
        return Insufficient(f"insufficient data: {days:.1f} of {least:g} days; its share stays")
    most = with_margin(found.point, parameters)
    fine = observed.fine.between(found.used.start_s, found.used.end_s)
    burst = min(most.burst, at_once(fine, parameters))
    return Need(found, found.percentiles[MEDIAN], burst, most.rate, most.burst)


def at_once(fine: Counts, parameters: Parameters = DEFAULTS) -> int:
    """Units that come within one second, for all but a few of them.

    Of longer steps the geometric middle between evenly spread and all at once, as for bursts of other limits.
    """
    units = weighted_quantile(fine.units, fine.units, 1 - parameters.burst_epsilon)
    of_second = sqrt(max(1.0, units / fine.step_s) * max(1.0, units))
    return max(1, ceil((units if fine.step_s == 1 else of_second) * parameters.burst_margin))


@dataclass(frozen=True, slots=True)
class OtherMembers:
    """Members that are not looked at one by one, and keep their shares."""

    count: int = 0
    assured: float = 0.0  # units a second, all together
    bursts: int = 0


NOBODY = OtherMembers()


def fit_shares(
    pool: Pool, needs: Mapping[str, Need], now: Mapping[str, Borrowing], others: OtherMembers = NOBODY
) -> FittedShares:
    """`now`: the shares of all members but the others. Those without a known need keep theirs, which come first."""
    rate = per_second(pool.rate, pool.per_us)
    kept = [share for name, share in now.items() if name not in needs]
    room = rate - others.assured - sum(per_second(share.assured, share.per_us) for share in kept)
    wanted = sum(need.assured for need in needs.values())
    cut_to = 1.0 if wanted <= room else max(0.0, room / wanted)
    shares = {}
    if cut_to > 0:
        shares = {name: _share(pool, need, now[name], cut_to) for name, need in needs.items()}
    held = [*kept, *shares.values()] if cut_to > 0 else list(now.values())
    bursts = others.bursts + sum(share.burst for share in held)
    return FittedShares(shares, min(bursts, floor(pool.burst * MOST_RESERVED)), cut_to)


def per_second(units: int, per_us: int) -> float:
    return units * SECOND_US / per_us


def _share(pool: Pool, need: Need, now: Borrowing, cut_to: float) -> Borrowing:
    """In the span of the pool's rate, or in a longer one if its share would not be a whole number there."""
    most = per_second(pool.rate, pool.per_us)
    assured, per_us = _whole(need.assured * cut_to, pool.bucket.typed_per_us)
    burst = min(need.burst, pool.burst) if assured else 0
    ceiling = max(assured, 1, ceil(min(most, need.ceiling) * per_us / SECOND_US - 1e-9))
    ceiling_burst = max(burst, 1, min(pool.burst, need.ceiling_burst))
    return Borrowing(
        assured,
        per_us,
        burst,
        ceiling,
        min(ceiling_burst, EXACT_MAX // per_us),
        min(now.reserve, burst),
        now.parent,
        now.weight,
    )


def _whole(rate: float, per_us: int) -> tuple[int, int]:
    """Rounded down, so that shares that fit the pool still fit it."""
    for span_us in (per_us, *(span for span in SPANS_US if span > per_us)):
        exact = rate * span_us / SECOND_US
        whole = floor(exact + 1e-9)
        if whole >= exact * CLOSE:
            return whole, span_us
    return 0, per_us


def reasons_for(need: Need, share: Borrowing, cut_to: float, parameters: Parameters = DEFAULTS) -> list[str]:
    """Why this share was proposed, in sentences for people."""
    found = need.estimate
    per = per_text(share.per_us)
    said = [
        f"half of its load came at {_number(need.assured, share.per_us)}/{per} or less, "
        f"and {parameters.rate_quantile:.0%} at {_number(found.rate, share.per_us)}/{per} or less".replace("%", " %"),
        f"{found.confidence.days:.0f} days measured, {need.burst:,} at once in its busiest seconds",
    ]
    if found.growth > 1.005:
        said.append(f"its daily peaks call for {found.growth - 1:.0%} more on its ceiling".replace("%", " %"))
    if found.is_lower_bound:
        said.append("it was denied so often that its demand may be higher still")
    if cut_to < 1:
        said.append(f"cut to {cut_to:.0%} so that all shares fit the pool".replace("%", " %"))
    return said


def _number(rate: float, per_us: int) -> str:
    units = rate * per_us / SECOND_US
    return f"{units:,.0f}" if units >= 100 else f"{np.round(units, 2):g}"
