"""Figures of the simulator: the painted traffic, one panel per algorithm, and the traffic that the backend sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.figure import Column, Draw, Figure, FigureRow, Panel
from dashboards.svg import Tick, nice_top
from dashboards.templatetags.numbers import number
from headroom_edge.algorithms.base import SECOND_US, format_duration
from quotas.policies.limit_words import algorithm_words, limit_short
from quotas.simulation.algorithm_comparison import AlgorithmResult, Timeline

LONG_US = 300 * SECOND_US  # longer axes are in minutes
DIVISIONS = 4
ROOM = 1.2  # space above the highest bar for painting
DRAWN: dict[str, Draw] = {"concurrency": "dash", "calendar_quota": "dots"}
COLORS = {"concurrency": "ref", "calendar_quota": "ref"}
WHEN = {
    "token_bucket": "clients are idle and then send bursts",
    "leaky_bucket": "the backend needs a smooth rate",
    "gcra": "even spacing matters more than bursts",
    "fixed_window": "a rough cap is enough; up to 2× across a boundary",
    "sliding_log": "the limit is a small contractual number",
    "sliding_counter": "there are many subjects and a small error is acceptable; an attacker can get close to 2×",
    "concurrency": "request durations vary",
    "calendar_quota": "plans are sold per day or month",
}


def span_words(span_us: int) -> str:
    """A duration for reading: 250 ms, 1 min."""
    text = format_duration(span_us)
    number, unit = text.rstrip("abcdefghijklmnopqrstuvwxyzµ"), text.lstrip("0123456789")
    return f"{int(number):,} {'min' if unit == 'm' else unit}"


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Time from the start, in seconds or minutes."""

    line: Timeline

    @property
    def unit(self) -> str:
        return "min" if self.line.span_us > LONG_US else "s"

    @property
    def unit_us(self) -> int:
        return 60 * SECOND_US if self.unit == "min" else SECOND_US

    @property
    def end(self) -> float:
        return self.line.span_us / self.unit_us

    @property
    def each(self) -> str:
        return span_words(self.line.step_us)

    def middle(self, place: int) -> float:
        return (place + 0.5) * self.line.step_us / self.unit_us

    def label(self, place: int) -> str:
        return f"{place * self.line.step_us / self.unit_us:,.4g} {self.unit}"

    def ticks(self) -> list[Tick]:
        part = nice_top(self.end, 6) / 6
        values = [index * part for index in range(7) if index * part <= self.end * 1.0001]
        return [
            Tick(f"{100 * value / self.end:.2f}%", f"{value:,.4g} {self.unit}", minor=bool(index % 2))
            for index, value in enumerate(values)
        ]


@dataclass(frozen=True, slots=True)
class PaintBar:
    place: int
    count: int
    x: str
    width: str
    y: str
    height: str
    label: str


@dataclass(frozen=True, slots=True)
class Painter:
    axis: TimeAxis
    counts: Sequence[int]
    rate: float  # allowed per step
    promise: str

    @property
    def top(self) -> float:
        return nice_top(max(ROOM * max(self.counts, default=0), 1.5 * min(self.rate, 1e6), 4), DIVISIONS)

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def bars(self) -> list[PaintBar]:
        return [self._bar(place, count) for place, count in enumerate(self.counts)]

    @property
    def ticks(self) -> list[Tick]:
        return [
            Tick(f"{100 - 100 * index / DIVISIONS:g}%", number(self.top * index / DIVISIONS))
            for index in range(0, DIVISIONS + 1, 2)
        ]

    @property
    def line_at(self) -> str:
        return f"{100 - 100 * min(self.rate / self.top, 1):.2f}%"

    def _bar(self, place: int, count: int) -> PaintBar:
        each = 100 / len(self.counts)
        high = max(100 * count / self.top, 0.8)
        return PaintBar(
            place,
            count,
            f"{each * (place + 0.08):.2f}%",
            f"{each * 0.84:.2f}%",
            f"{100 - high:.2f}%",
            f"{high:.2f}%",
            f"from {self.axis.label(place)}",
        )


@dataclass(frozen=True, slots=True)
class AlgorithmPanel:
    """One algorithm: allowed above the axis, denied below."""

    seen: AlgorithmResult
    axis: TimeAxis
    top: float  # the same for all panels

    @property
    def name(self) -> str:
        return self.seen.limit.algorithm.name

    @property
    def title(self) -> str:
        words = algorithm_words(self.name)
        return words[:1].upper() + words[1:]

    @property
    def promise(self) -> str:
        short = limit_short(self.seen.limit.algorithm)
        return f"{short.main}, {short.rest}" if short.rest else short.main

    @property
    def words(self) -> str:
        return self.seen.limit.algorithm.words()

    @property
    def when(self) -> str:
        return WHEN[self.name]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Formatted here, because a template would localise every number of some three hundred rows."""
        seen = self.seen
        columns = zip(seen.accepted, seen.denied, seen.out, seen.queued, strict=True)
        return [(self.axis.label(i), f"{self.axis.middle(i):.12g}", *map(str, four)) for i, four in enumerate(columns)]

    @property
    def first_denied(self) -> str:
        if self.seen.first_denied_us is None:
            return "never"
        return f"at {self.seen.first_denied_us / self.axis.unit_us:,.3g} {self.axis.unit}"

    @property
    def longest_wait(self) -> str:
        wait_us = self.seen.longest_wait_us
        return (
            "none"
            if not wait_us
            else f"{wait_us / SECOND_US:,.3g} s"
            if wait_us >= 10**5
            else f"{wait_us / 1000:,.3g} ms"
        )

    @property
    def memory(self) -> str:
        size = self.seen.memory_bytes
        return f"{size:,} B" if size < 1_000 else f"{size / 1_000:,.3g} KB"


def multiples_of(found: Sequence[AlgorithmResult], axis: TimeAxis) -> list[AlgorithmPanel]:
    largest = max((max(*one.accepted, *one.denied, *one.out) for one in found), default=0)
    top = nice_top(max(largest, 1), 2)
    return [AlgorithmPanel(one, axis, top) for one in found]


def output_of(multiples: Sequence[AlgorithmPanel], axis: TimeAxis) -> Figure:
    """When allowed requests reach the backend, and how many wait."""
    queues = [one for one in multiples if one.seen.waits]
    columns = [Column(one.title, "req", _draw(one), _color(one, i)) for i, one in enumerate(multiples)]
    columns += [
        Column(f"{one.title}: waiting", "req", "area", _color(one, multiples.index(one)), panel=1) for one in queues
    ]
    rows = [
        FigureRow(
            axis.middle(place),
            [*(one.seen.out[place] for one in multiples), *(one.seen.queued[place] for one in queues)],
            axis.label(place),
        )
        for place in range(axis.line.steps)
    ]
    panels = (
        Panel(f"req per {axis.each}", 140),
        *([Panel("req waiting at the end of each step", 96)] if queues else []),
    )
    return Figure(
        "output",
        "Traffic to the backend",
        f"released requests per {axis.each}",
        columns,
        rows,
        axis="number",
        x_name="From",
        x_unit=axis.unit,
        panels=panels,
        start=0,
        end=axis.end,
        caption=_after(multiples),
    )


def _draw(one: AlgorithmPanel) -> Draw:
    return DRAWN.get(one.name, "line")


def _color(one: AlgorithmPanel, place: int) -> str:
    return COLORS.get(one.name, str(place % 6 + 1))


def _after(multiples: Sequence[AlgorithmPanel]) -> str:
    late = [(one.title, one.seen.queued[-1]) for one in multiples if one.seen.queued and one.seen.queued[-1]]
    told = "; ".join(f"{title}: {count:,} are released after the end of the chart" for title, count in late)
    return f"{told}." if told else ""
