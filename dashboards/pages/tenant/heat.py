"""Load by hour and weekday, as cells of a picture and of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from zoneinfo import ZoneInfo

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SHADES = 8


@dataclass(frozen=True, slots=True)
class Cell:
    hour: int
    rate: float | None  # requests a second; None: no such hour is known
    shade: int
    is_now: bool

    @property
    def x(self) -> str:
        return f"{100 * self.hour / 24:.3f}%"


@dataclass(frozen=True, slots=True)
class Line:
    day: str
    y: str
    middle: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Heat:
    lines: Sequence[Line]
    most: float
    words: str  # the answer first
    zone: str
    width: str = f"{100 / 24:.3f}%"
    height: str = f"{100 / 7:.3f}%"

    @property
    def hours(self) -> list[tuple[str, str]]:
        return [(f"{100 * (hour + 0.5) / 24:.2f}%", f"{hour:02}") for hour in range(0, 24, 2)]


def heat_of(hours: Mapping[datetime, int], zone: str, now: datetime) -> Heat | None:
    """Of what was asked for in each hour; None: nothing is known."""
    if not hours:
        return None
    place = ZoneInfo(zone)
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for start, asked in hours.items():
        local = start.astimezone(place)
        found[local.weekday(), local.hour].append(asked)
    rates = {key: fmean(values) / 3600 for key, values in found.items()}
    most = max(rates.values())
    here = now.astimezone(place)
    lines = [_line(day, rates, most, (here.weekday(), here.hour)) for day in range(7)]
    return Heat(lines, most, _words(rates, most), zone)


def _line(day: int, rates: Mapping[tuple[int, int], float], most: float, now: tuple[int, int]) -> Line:
    cells = [
        Cell(hour, rates.get((day, hour)), _shade(rates.get((day, hour)), most), (day, hour) == now)
        for hour in range(24)
    ]
    return Line(DAYS[day], f"{100 * day / 7:.3f}%", f"{100 * (day + 0.5) / 7:.3f}%", cells)


def _shade(rate: float | None, most: float) -> int:
    return 0 if not rate or not most else max(1, round(SHADES * rate / most))


def _words(rates: Mapping[tuple[int, int], float], most: float) -> str:
    if not most:
        return "Nothing was asked for."
    (day, hour), _ = max(rates.items(), key=lambda pair: pair[1])
    mean = fmean(rates.values())
    return f"Busiest on {DAYS[day]} at {hour:02}:00, {most / mean:.1f} times its mean. The outlined cell is now."
