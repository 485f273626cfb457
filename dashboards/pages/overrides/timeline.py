"""The bars over the list: from a week ago to a week ahead, one for each override on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quotas.models import Override

HALF = timedelta(days=7)
ROW = 20  # pixels
MOST_BARS = 12
SOON = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    kind: str  # of its colour
    left: str  # per cent
    width: str
    y: int
    words: str

    @property
    def middle(self) -> int:
        return self.y + 6


@dataclass(frozen=True, slots=True)
class Tick:
    at: datetime
    left: str


@dataclass(frozen=True, slots=True)
class Timeline:
    begin: datetime
    end: datetime
    bars: Sequence[Bar]
    ticks: Sequence[Tick]
    more: int  # overrides without a bar

    @property
    def height(self) -> int:
        return len(self.bars) * ROW

    @property
    def axis(self) -> int:
        return self.height + 16


def timeline_of(rows: Sequence[Override], now: datetime) -> Timeline | None:
    """None: there is nothing to draw."""
    begin, end = now - HALF, now + HALF
    drawn = [row for row in rows if row.start < end][:MOST_BARS]
    if not drawn:
        return None
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    ticks = [midnight + timedelta(days=day) for day in range(1, 15, 2)]
    return Timeline(
        begin,
        end,
        [_bar(row, place, begin, now) for place, row in enumerate(drawn)],
        [Tick(tick, _share(tick, begin)) for tick in ticks],
        len(rows) - len(drawn),
    )


def _bar(row: Override, place: int, begin: datetime, now: datetime) -> Bar:
    end = begin + 2 * HALF
    left, right = max(row.start, begin), min(row.end or end, end)
    kind = "f-info soft" if row.start > now else "f-degraded" if row.end and row.end <= now + SOON else "f-info"
    until = f"to {row.end:%-d %b %H:%M} UTC" if row.end else "until cancelled"
    share = max(100 * ((right - left) / (2 * HALF)), 0.4)
    words = f"{row.tenant.name}: {row.start:%-d %b %H:%M} {until}"
    return Bar(row.tenant.name, kind, _share(left, begin), f"{share:.2f}", place * ROW + 4, words)


def _share(at: datetime, begin: datetime) -> str:
    return f"{100 * ((at - begin) / (2 * HALF)):.2f}"
