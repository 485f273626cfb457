"""The last 24 hours of a pool: who used it, and what was borrowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dashboards.pages.pools.figures import scaled
from dashboards.svg import BOX, Tick, nice_top
from dashboards.templatetags.numbers import number
from quotas.pools.queries import PoolRow
from quotas.pools.use import Amount, PoolHistory, ShareKey

OTHERS: Final = "Others"
TICK_HOURS: Final = 3
PARTS: Final = {0: "at night", 6: "in the morning", 12: "in the afternoon", 18: "in the evening"}
NOTABLE: Final = 100  # a loan of less than this part of the pool is not worth a word


@dataclass(frozen=True, slots=True)
class Band:
    """What one member used over time: `path` in a box of 1000 × 1000."""

    color: int
    is_lent: bool
    path: str


@dataclass(frozen=True, slots=True)
class ChartSeries:
    label: str
    color: int
    latest: float | None


@dataclass(frozen=True, slots=True)
class ChartRow:
    start: datetime
    values: Sequence[float | None]  # of each series
    borrowed: float | None


@dataclass(frozen=True, slots=True)
class PoolChart:
    bands: Sequence[Band]
    series: Sequence[ChartSeries]
    rows: Sequence[ChartRow]  # the newest first
    ticks: Sequence[Tick]  # of the rates
    hours: Sequence[Tick]
    line: str  # the height of the pool's rate, in percent from above
    gaps: Sequence[tuple[str, str]] = field(default=())  # x and width of what is not known
    words: str = ""  # who borrows when; empty: nobody does


def pool_chart(pool: PoolRow, history: PoolHistory) -> PoolChart | None:
    """None: nothing is known about the last 24 hours."""
    moments = history.traffic.moments
    known = [moment.is_known for moment in moments]
    if not any(known):
        return None
    parts = [(each.label, index + 1, each.points) for index, each in enumerate(history.members)]
    others = [history.others(index) for index in range(len(moments))]
    if any(each.used for each in others):
        parts.append((OTHERS, 0, others))
    seconds = [moment.seconds or 1.0 for moment in moments]
    tops = [
        scaled(pool, whole.used, s) if k else 0.0 for whole, s, k in zip(history.points, seconds, known, strict=True)
    ]
    top = nice_top(max([pool.rate, *tops]) * 1.08, 4)
    step = history.traffic.period.step.total_seconds()
    return PoolChart(
        bands=list(_bands(pool, parts, seconds, known, top)),
        series=[ChartSeries(label, color, _latest(pool, points, seconds, known)) for label, color, points in parts],
        rows=[
            ChartRow(
                moment.start,
                [scaled(pool, points[i].used, seconds[i]) if known[i] else None for _, _, points in parts],
                scaled(pool, history.points[i].lent, seconds[i]) if known[i] else None,
            )
            for i, moment in reversed(list(enumerate(moments)))
        ],
        ticks=[Tick(f"{100 * (1 - part / 4):.2f}%", number(top * part / 4)) for part in range(5)],
        hours=list(_hours([moment.start for moment in moments], step)),
        line=f"{100 * (1 - pool.rate / top):.2f}%",
        gaps=list(_unknown(known)),
        words=_borrowing_words(pool, history, known, seconds),
    )


def _borrowing_words(pool: PoolRow, history: PoolHistory, known: Sequence[bool], seconds: Sequence[float]) -> str:
    """Such as: In the morning kite borrows most; in the afternoon lagoon does."""
    found: dict[str, str] = {}  # part of the day → who
    for first, part in PARTS.items():
        hours = range(first, first + 6)
        moments = history.traffic.moments
        at = [i for i, one in enumerate(moments) if known[i] and one.start.astimezone(UTC).hour in hours]
        lent = {each.label: sum(each.points[i].lent for i in at) for each in history.members}
        who = max(lent, key=lambda label: lent[label], default="")
        if who and at and scaled(pool, lent[who], sum(seconds[i] for i in at)) >= pool.rate / NOTABLE:
            found[part] = who
    said: list[str] = []
    for who in dict.fromkeys(found.values()):
        when = " and ".join(part for part, each in found.items() if each == who)
        said.append(f"{when} {who} {'does' if said else 'borrows most'}")
    return f"{'; '.join(said).capitalize()} (UTC)." if said else ""


def _latest(pool: PoolRow, points: Sequence[Amount], seconds: Sequence[float], known: Sequence[bool]) -> float | None:
    last = max((index for index, is_known in enumerate(known) if is_known), default=None)
    return None if last is None else scaled(pool, points[last].used, seconds[last])


def _bands(
    pool: PoolRow,
    parts: Sequence[tuple[str, int, Sequence[Amount]]],
    seconds: Sequence[float],
    known: Sequence[bool],
    top: float,
) -> Iterator[Band]:
    floor = [0.0] * len(known)
    for _, color, points in parts:
        for is_lent in (False, True):
            amounts = [point.lent if is_lent else point.used - point.lent for point in points]
            ceiling = [low + scaled(pool, n, s) for low, n, s in zip(floor, amounts, seconds, strict=True)]
            if any(amounts):
                yield Band(color, is_lent, _area(floor, ceiling, known, top))
            floor = ceiling


def _area(low: Sequence[float], high: Sequence[float], known: Sequence[bool], top: float) -> str:
    """A stretch for each run of known points; every point is a step of its own width."""
    width, path, index = BOX / len(known), "", 0
    while index < len(known):
        if not known[index]:
            index += 1
            continue
        end = index
        while end < len(known) and known[end]:
            end += 1
        across = [(width * (i + side), i) for i in range(index, end) for side in (0, 1)]
        upper = "L".join(f"{x:.1f} {BOX * (1 - high[i] / top):.1f}" for x, i in across)
        lower = "L".join(f"{x:.1f} {BOX * (1 - low[i] / top):.1f}" for x, i in reversed(across))
        path += f"M{upper}L{lower}Z"
        index = end
    return path


def _unknown(known: Sequence[bool]) -> Iterator[tuple[str, str]]:
    index = 0
    while index < len(known):
        end = index
        while end < len(known) and not known[end]:
            end += 1
        if end > index:
            yield f"{100 * index / len(known):.2f}%", f"{100 * (end - index) / len(known):.2f}%"
        index = end + 1


def _hours(starts: Sequence[datetime], step: float) -> Iterator[Tick]:
    for index, start in enumerate(starts):
        at = start.astimezone(UTC)
        if at.hour % TICK_HOURS == 0 and at.minute == 0 and 2 <= index <= len(starts) - 3:
            is_minor = bool((at.hour // TICK_HOURS) % 2)
            yield Tick(f"{100 * index / len(starts):.2f}%", f"{at:%H:%M}", minor=is_minor)


def busiest_colors(history: PoolHistory) -> dict[ShareKey, int]:
    return {each.key: index + 1 for index, each in enumerate(history.members)}
