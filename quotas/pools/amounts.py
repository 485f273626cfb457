"""What a member is guaranteed and may reach, as people say it and as it is kept.

People say both in the time of the pool's rate, with decimals if they like. A limit keeps whole numbers, in a longer
time if need be. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm
from typing import Any, Final

from headroom_edge.algorithms.base import EXACT_MAX, format_duration
from headroom_edge.algorithms.bucket import MOST_DECIMALS, rate_text
from headroom_edge.algorithms.sharing import MOST_WEIGHT, Borrowing, Pool
from quotas.errors import refuse

Units = int | Fraction

KEEP: Final = -1  # leaves an amount or a weight as it is


@dataclass(frozen=True, slots=True)
class Amounts:
    """In the time of the pool's rate."""

    assured: Fraction
    ceiling: Fraction | None = None


def amounts_of(pool: Pool, share: Borrowing) -> Amounts:
    time = Fraction(pool.bucket.typed_per_us, share.per_us)
    return Amounts(share.assured * time, None if share.ceiling is None else share.ceiling * time)


def amounts_after(present: Amounts, assured: Units, ceiling: Units | None) -> Amounts:
    """The present ones with what is given: KEEP, an amount or, of the ceiling, None."""
    most = None if ceiling is None else _given("ceiling", ceiling, present.ceiling)
    if most == 0:
        raise refuse("ceiling", "parameter", "ceiling must be above 0; leave it out for none")
    return Amounts(_given("assured", assured, present.assured) or Fraction(0), most)


def _given(name: str, amount: Units, present: Fraction | None) -> Fraction | None:
    """A share that is sent back as it was read, such as a third, stays exactly what it is."""
    if amount == KEEP or (present is not None and float(amount) == float(present)):
        return present
    if amount * 10**MOST_DECIMALS % 1:
        raise refuse(name, "decimals", f"{name} has more than {MOST_DECIMALS} decimals; round it")
    return Fraction(amount)


def amount_words(amount: Units) -> str:
    return rate_text(int(amount) if amount == int(amount) else float(amount))


def share_fields(pool: Pool, old: Borrowing, wanted: Amounts, weight: int | None = KEEP) -> dict[str, Any]:
    """The fields of the old share with these amounts. Bursts and weights that were the usual ones stay usual."""
    pool_us = pool.bucket.typed_per_us
    per_us = _per_us(wanted, pool_us, old.per_us)
    fields: dict[str, Any] = {"per": format_duration(per_us), "assured": int(wanted.assured * per_us / pool_us)}
    burst = _burst(old, wanted.assured, pool_us) if wanted.assured else 0
    if burst:
        fields["burst"] = burst
    if wanted.ceiling is not None:
        fields["ceiling"] = int(wanted.ceiling * per_us / pool_us)
        fields["ceiling_burst"] = _ceiling_burst(old, wanted.ceiling, burst, pool_us)
    fields |= _weight_field(pool, old, wanted.assured, per_us, weight)
    return {**fields, "reserve": min(old.reserve, burst), "parent": old.parent}


def proposed_fields(pool: Pool, old: Borrowing, proposal: Borrowing) -> dict[str, Any]:
    """The fields of a proposed share. It says nothing of weights, so that of the old share stays."""
    fields = {name: value for name, value in proposal.describe().items() if name != "weight"}
    weight = _weight_field(pool, old, amounts_of(pool, proposal).assured, proposal.per_us, KEEP)
    return {**fields, **weight, "parent": old.parent}


def _per_us(amounts: Amounts, pool_us: int, present_us: int) -> int:
    """The time in which both are whole: that of the share, that of the pool, or the shortest multiple of that."""
    rates = [Fraction(amount, pool_us) for amount in (amounts.assured, amounts.ceiling or Fraction(0))]
    least_us = lcm(*(rate.denominator for rate in rates))
    whole = [per_us for per_us in (present_us, pool_us) if per_us % least_us == 0]
    per_us = whole[0] if whole else lcm(least_us, pool_us)
    if per_us > EXACT_MAX:
        raise refuse("assured", "decimals", "assured and ceiling have too many decimals for so long a time; round them")
    return per_us


def _burst(old: Borrowing, assured: Fraction, pool_us: int) -> int:
    """Usual are the units of one time: the pool's, or the share's if it was not made longer for decimals.

    The pool's comes first: a share below 1 has a burst of 1, which is usual for both.
    """
    if not old.assured:
        return max(1, ceil(assured))
    for time_us in (pool_us, old.per_us):
        if old.burst == max(1, ceil(Fraction(old.assured * time_us, old.per_us))):
            return max(1, ceil(assured * time_us / pool_us))
    return old.burst


def _ceiling_burst(old: Borrowing, ceiling: Fraction, burst: int, pool_us: int) -> int:
    if old.ceiling is None or old.ceiling_burst is None:
        return max(burst, ceil(ceiling))
    for time_us in (pool_us, old.per_us):
        if old.ceiling_burst == max(old.burst, ceil(Fraction(old.ceiling * time_us, old.per_us))):
            return max(burst, ceil(ceiling * time_us / pool_us))
    return max(burst, old.ceiling_burst)


def _weight_field(pool: Pool, old: Borrowing, assured: Fraction, per_us: int, wanted: int | None) -> dict[str, int]:
    pool_us = pool.bucket.typed_per_us
    if wanted is None:
        weight = None if per_us == pool_us else _as_weight(assured)
    elif wanted != KEEP:
        weight = wanted
    else:
        weight = _weight(old, amounts_of(pool, old).assured, assured, pool_us, per_us)
    return {} if weight is None else {"weight": weight}


def _weight(old: Borrowing, present: Fraction, assured: Fraction, pool_us: int, per_us: int) -> int | None:
    """A limit without one counts by the units of its own time. In another time, its part stays that of its share."""
    if old.weight is None and per_us == old.per_us:
        return None
    if old.weight is None:
        return _as_weight(old.counts_as * assured / present if present else assured)
    is_usual = old.per_us != pool_us and old.weight == _as_weight(present)
    return _as_weight(assured) if is_usual else old.weight


def _as_weight(units: Fraction) -> int:
    return min(MOST_WEIGHT, max(1, round(units)))
