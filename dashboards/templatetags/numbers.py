"""Filters that format numbers, shares and durations. `{% load numbers %}`"""

from __future__ import annotations

from datetime import timedelta

from django import template

from quotas.usage.queries.denial_log import wait_words as words_of_wait

register = template.Library()

NO_BREAK = "\N{NO-BREAK SPACE}"
LEAST = 0.01  # smaller values are written as "< 0.01", so that 0 always means zero


@register.filter
def number(value: float) -> str:
    """1234.5 is 1,234; 12.34 is 12.3; 1.234 is 1.23."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    if 0 < value < LEAST:
        return f"<{NO_BREAK}{LEAST}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


@register.filter
def share(value: float) -> str:
    """0.1234 is 12 %. Only zero is written as 0 %."""
    percent = 100 * value
    if percent in {0, 100}:
        return f"{percent:.0f}{NO_BREAK}%"
    if percent < 0.01:
        return f"<{NO_BREAK}0.01{NO_BREAK}%"
    digits = 0 if 10 <= percent < 99 or percent > 101 else 1 if 1 <= percent < 99.9 or percent > 100 else 2
    return f"{percent:.{digits}f}{NO_BREAK}%"


@register.filter
def ago(age: timedelta) -> str:
    seconds = max(int(age.total_seconds()), 0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{NO_BREAK}{unit} ago"
    return f"{seconds}{NO_BREAK}s ago"


@register.filter
def wait(span: timedelta) -> str:
    return words_of_wait(span // timedelta(microseconds=1)).replace(" ", NO_BREAK)


@register.filter
def unlocalized(value: float | None) -> str:
    """A number for scripts and attributes: no separators, 12 significant digits."""
    return "" if value is None else f"{value:.12g}"


@register.filter
def share_change(value: float) -> str:
    """A relative change without its sign; an arrow beside it shows the direction."""
    percent = abs(100 * value)
    return f"{percent:,.0f}{NO_BREAK}%" if percent >= 10 else f"{percent:.1f}{NO_BREAK}%"


@register.filter
def points(value: float) -> str:
    """A change in percentage points, without its sign."""
    size = abs(value)
    return f"{size:.{0 if size >= 10 else 1 if size >= 1 else 2}f} points"


@register.filter
def value(stored: object) -> str:
    """A stored value as a policy document writes it, with separators in whole numbers."""
    if isinstance(stored, bool) or not isinstance(stored, int):
        return str(stored)
    return f"{stored:,}"


@register.filter
def percent(share: float | None) -> str:
    """0.824 is 82; the template adds the sign."""
    if share is None:
        return ""
    if 0 < share < 0.0005:
        return f"<{NO_BREAK}0.1"
    return f"{100 * share:,.0f}" if share >= 0.095 or not share else f"{100 * share:.1f}"
