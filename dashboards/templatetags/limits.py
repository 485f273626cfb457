"""Filters that format limits and diffs."""

from __future__ import annotations

from typing import Any

from django import template

from dashboards.pages.endpoint.limit_line import RateUnit
from dashboards.templatetags.numbers import NO_BREAK, number
from quotas.policies.limit_words import milliseconds
from quotas.usage.queries.near_limits import TierUsage

register = template.Library()
register.filter("milliseconds", milliseconds)


@register.filter
def percent(share: float) -> str:
    """Share of a limit: 1.234 is 123 %."""
    return f"<{NO_BREAK}1{NO_BREAK}%" if 0 < share < 0.005 else f"{100 * share:,.0f}{NO_BREAK}%"


@register.filter
def in_unit(per_second: float, unit: RateUnit) -> str:
    """A rate in the window of the limit: 0.6 per second is 6 in 10 s."""
    return number(unit.of(per_second))


@register.filter
def raw_in_unit(per_second: float, unit: RateUnit) -> float:
    return unit.of(per_second)


@register.filter
def tenants_of(tier: int, measured: TierUsage) -> int:
    return measured.active(tier)


@register.filter
def plain(value: Any, path: str = "") -> str:
    """A value of a diff. `path`: of its field."""
    if value is None:
        return "\N{EN DASH}"
    if value == "":
        # The state of a tenant holds the reason of its suspension.
        return "no" if path == "suspended" else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


@register.filter
def gain(share: float | None) -> str:
    """0.5 is +50 %."""
    if share is None:
        return "new"
    if abs(share) < 0.005:
        return "unchanged"
    return f"{100 * share:+,.0f}{NO_BREAK}%".replace("-", "\N{MINUS SIGN}")
