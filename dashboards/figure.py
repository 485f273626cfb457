"""A figure: one table of rows. The browser draws the chart from it (static/dashboards/js/charts.js)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from django.urls import reverse

from quotas.usage.queries.annotations import Annotation

Draw = Literal["area", "line", "dash", "dots", "step", "bars", "points", ""]
Axis = Literal["time", "number", "log", "category"]


@dataclass(frozen=True, slots=True)
class Column:
    """One series and one table column. With an empty `draw` it is in the table only."""

    name: str
    unit: str = ""
    draw: Draw = "line"
    color: str = "allowed"  # a meaning (allowed, denied, shadow, degraded, brand, info, ref), or 1 to 6
    panel: int = 0


@dataclass(frozen=True, slots=True)
class FigureRow:
    x: datetime | float | int
    values: Sequence[float | None]  # one per column; None is unknown
    label: str = ""  # shown instead of x

    @property
    def position(self) -> float:
        return self.x.timestamp() if isinstance(self.x, datetime) else float(self.x)

    @property
    def moment(self) -> datetime | None:
        return self.x if isinstance(self.x, datetime) else None


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart. The panels of a figure share the x axis only."""

    unit: str
    height: Literal[72, 96, 140, 200, 260] = 200
    log: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """`gap`: hatched from start to end on x; `band`: the same on y; `limit`: a 2 px line at y; `mark`: a flag at x."""

    kind: Literal["gap", "band", "limit", "mark"]
    label: str
    at: float | None = None
    start: float | None = None
    end: float | None = None
    panel: int = 0
    href: str = ""
    color: str = "brand"
    since: float | None = None  # of a limit or a band: from where on x it holds; None: from the edge
    until: float | None = None
    words: str = ""  # more about a flag, in the list beside the table

    @property
    def moment(self) -> datetime | None:
        """When it begins, on a time axis."""
        at = {"mark": self.at, "gap": self.start}.get(self.kind, self.since)
        return None if at is None else datetime.fromtimestamp(at, UTC)


@dataclass(frozen=True, slots=True)
class Figure:
    id: str
    title: str
    note: str  # the line under the title: what a point stands for; on a time axis the viewer's zone follows
    columns: Sequence[Column]
    rows: Sequence[FigureRow]
    axis: Axis = "time"
    x_name: str = "From"
    x_unit: str = ""  # after the numbers on the x axis
    panels: Sequence[Panel] = (Panel(""),)
    marks: Sequence[Mark] = ()
    caption: str = ""
    classes: str = ""  # columns in the grid: c-8
    zooms: bool = False  # dragging sets ?from=&to= and reloads the data
    start: float | None = None  # ends of the x axis, if not those of the rows
    end: float | None = None
    legend: Sequence[Mark] = field(default=())  # entries beside the columns
    notes: str = ""  # the address at which people put notes on it; empty: they do not

    @property
    def latest(self) -> Sequence[float | None]:
        """The value of each column in the newest row whose first value is known."""
        known = [row for row in self.rows if row.values and row.values[0] is not None]
        return max(known, key=lambda row: row.position).values if known else [None] * len(self.columns)

    @property
    def drawn(self) -> list[tuple[Column, float | None]]:
        pairs = zip(self.columns, self.latest, strict=True)
        return [(column, value) for column, value in pairs if column.draw]

    @property
    def listed(self) -> list[Mark]:
        """What the list beside the table says: the newest first, without what a number in the table says already."""
        return sorted((mark for mark in self.marks if mark.moment), key=lambda mark: str(mark.moment), reverse=True)

    @property
    def has_gaps(self) -> bool:
        return any(mark.kind == "gap" for mark in self.marks)


def gap(start: datetime, end: datetime, why: str) -> Mark:
    return Mark("gap", why, start=start.timestamp(), end=end.timestamp())


def flag(at: datetime, label: str, href: str = "", words: str = "") -> Mark:
    return Mark("mark", label, at=at.timestamp(), href=href, words=words)


def annotation_flag(each: Annotation) -> Mark:
    href = f"{reverse('dashboards:changes')}?revision={each.revision}" if each.revision else ""
    if each.note:
        href = f"{reverse('dashboards:chart-notes')}#note-{each.note}"
    return flag(each.at, each.label, href, each.words)


def limit_line(value: float, label: str, panel: int = 0, held: tuple[datetime, datetime] | None = None) -> Mark:
    """`held`: when it held; nothing is drawn over the time before and after."""
    since, until = (each.timestamp() for each in held) if held else (None, None)
    return Mark("limit", label, at=value, panel=panel, since=since, until=until)


def band(
    low: float,
    high: float,
    label: str,
    panel: int = 0,
    color: str = "brand",
    held: tuple[datetime, datetime] | None = None,
) -> Mark:
    since, until = (each.timestamp() for each in held) if held else (None, None)
    return Mark("band", label, start=low, end=high, panel=panel, color=color, since=since, until=until)
