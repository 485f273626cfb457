"""Durations as people write them (`250ms`, `1s`, `5m`, `1h`, `1d`), kept as whole microseconds."""

import re

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US

_UNITS_US = {
    "ms": 1_000,
    "s": SECOND_US,
    "m": 60 * SECOND_US,
    "h": 3_600 * SECOND_US,
    "d": DAY_US,
}
_DURATION = re.compile(r"([1-9][0-9]{0,11})(ms|s|m|h|d)")


def parse_duration_us(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:20]!r} is not a duration; write one like 250ms, 1s, 5m, 1h or 1d")
    return int(match[1]) * _UNITS_US[match[2]]


def format_duration(us: int) -> str:
    for unit in ("d", "h", "m", "s", "ms"):
        if us % _UNITS_US[unit] == 0:
            return f"{us // _UNITS_US[unit]}{unit}"
    return f"{us}us"


def per_text(us: int) -> str:
    """What stands behind the stroke: `s` in 100/s, `5m` in 100/5m."""
    text = format_duration(us)
    return text[1:] if text[0] == "1" and text[1:].isalpha() else text


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)
