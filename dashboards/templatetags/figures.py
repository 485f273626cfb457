"""Numbers and times as the pages write them."""

from __future__ import annotations

from datetime import timedelta

from django import template

from dashboards import charts
from quotas.usage.queries.denials import seconds as words_of_wait

register = template.Library()

NARROW_SPACE = "\N{NO-BREAK SPACE}"


@register.filter
def number(value: float) -> str:
    return charts.number(value)


@register.filter
def share(value: float) -> str:
    """0.1234 is 12 %; a share that is not nothing is never written as 0 %."""
    percent = 100 * value
    if percent in {0, 100}:
        return f"{percent:.0f}{NARROW_SPACE}%"
    if percent < 0.01:
        return f"<{NARROW_SPACE}0.01{NARROW_SPACE}%"
    digits = 0 if 10 <= percent < 99 else 1 if 1 <= percent < 99.9 else 2
    return f"{percent:.{digits}f}{NARROW_SPACE}%"


@register.filter
def ago(age: timedelta) -> str:
    seconds = max(int(age.total_seconds()), 0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{NARROW_SPACE}{unit} ago"
    return f"{seconds}{NARROW_SPACE}s ago"


@register.filter
def wait(span: timedelta) -> str:
    return words_of_wait(span // timedelta(microseconds=1)).replace(" ", NARROW_SPACE)


@register.filter
def unlocalized(value: float | None) -> str:
    """A number for a machine: no separators, no more digits than a float has."""
    return "" if value is None else f"{value:.12g}"


@register.filter
def share_change(value: float) -> str:
    """A relative change, without its sign: an arrow has that."""
    percent = abs(100 * value)
    return f"{percent:,.0f}{NARROW_SPACE}%" if percent >= 10 else f"{percent:.1f}{NARROW_SPACE}%"


@register.filter
def points(value: float) -> str:
    """A change of a share, in percentage points, without its sign."""
    size = abs(value)
    return f"{size:.{0 if size >= 10 else 1 if size >= 1 else 2}f} points"


@register.filter
def value(found: object) -> str:
    """A value of a difference, as a policy document would have it."""
    if isinstance(found, bool) or not isinstance(found, int):
        return str(found)
    return f"{found:,}"


@register.filter
def percent(share: float | None) -> str:
    """0.824 is 82; of the sign, the template takes care."""
    return "" if share is None else f"{100 * share:,.0f}" if share >= 0.095 or not share else f"{100 * share:.1f}"
