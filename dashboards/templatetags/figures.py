"""Numbers and times as the pages write them."""

from __future__ import annotations

from datetime import timedelta

from django import template

from dashboards import charts

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
def unlocalized(value: float | None) -> str:
    """A number for a machine: no separators, no more digits than a float has."""
    return "" if value is None else f"{value:.12g}"
