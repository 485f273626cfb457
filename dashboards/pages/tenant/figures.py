"""Figures of a tenant: usage and limit, quota burn-down, and load by hour and weekday."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from zoneinfo import ZoneInfo

from dashboards.figure import Column, Figure, FigureRow, Mark, Panel, annotation_flag, gap
from dashboards.limit_steps import guaranteed_at, held_at, step_marks
from dashboards.pages.tenant.limits import TenantLimit
from headroom_edge.algorithms.sharing import Borrowing
from quotas.policies.limit_history import LimitStep, limit_steps
from quotas.policies.limit_words import compact
from quotas.usage.queries.annotations import Annotation
from quotas.usage.queries.calendar_quotas import BurnDown
from quotas.usage.queries.traffic import Traffic, TrafficPoint

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SHADES = 8


@dataclass(frozen=True, slots=True)
class HeatCell:
    hour: int
    rate: float | None  # requests per second; None: no data for this hour
    shade: int
    is_now: bool

    @property
    def x(self) -> str:
        return f"{100 * self.hour / 24:.3f}%"


@dataclass(frozen=True, slots=True)
class HeatLine:
    day: str
    y: str
    middle: str
    cells: Sequence[HeatCell]


@dataclass(frozen=True, slots=True)
class Heat:
    lines: Sequence[HeatLine]
    most: float
    words: str  # the caption
    zone: str
    width: str = f"{100 / 24:.3f}%"
    height: str = f"{100 / 7:.3f}%"

    @property
    def hours(self) -> list[tuple[str, str]]:
        return [(f"{100 * (hour + 0.5) / 24:.2f}%", f"{hour:02}") for hour in range(0, 24, 2)]


def heat_of(hours: Mapping[datetime, int], zone: str, now: datetime) -> Heat | None:
    """A heat map of the requests per hour; None if there is no data."""
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


def _line(day: int, rates: Mapping[tuple[int, int], float], most: float, now: tuple[int, int]) -> HeatLine:
    cells = [
        HeatCell(hour, rates.get((day, hour)), _shade(rates.get((day, hour)), most), (day, hour) == now)
        for hour in range(24)
    ]
    return HeatLine(DAYS[day], f"{100 * day / 7:.3f}%", f"{100 * (day + 0.5) / 7:.3f}%", cells)


def _shade(rate: float | None, most: float) -> int:
    return 0 if not rate or not most else max(1, round(SHADES * rate / most))


def _words(rates: Mapping[tuple[int, int], float], most: float) -> str:
    if not most:
        return "No requests."
    (day, hour), _ = max(rates.items(), key=lambda pair: pair[1])
    mean = fmean(rates.values())
    return f"Busiest on {DAYS[day]} at {hour:02}:00, at {most / mean:.1f} times the mean. The outlined cell is now."


def usage_figure(
    line: TenantLimit, traffic: Traffic, annotations: Sequence[Annotation] = (), classes: str = "", notes: str = ""
) -> Figure:
    """Requested and allowed in the unit of the limit, so that its line is at the enforced value at each time."""
    allowance = line.allowance
    scale, per = (allowance.window_s, allowance.window_words) if allowance and line.use.why_not == "" else (1.0, "s")
    noun = "req" if line.limit.unit == "requests" else "units"
    unit = f"{noun}/{per}"
    steps = steps_of(line)
    held = _held(steps)
    rows = [
        FigureRow(moment.start, [*_values(moment, scale), *(at(steps, moment.start, scale) for at in held.values())])
        for moment in reversed(traffic.moments)
    ]
    return Figure(
        id="usage",
        title=f"{_where(line)}: usage and limit {line.limit.name}",
        note=f"{traffic.period.step_words} averages",
        columns=(
            Column("Requested", unit, "line", "denied"),
            Column("Allowed", unit, "area", "allowed"),
            *(Column(name, unit, "") for name in held),
        ),
        rows=rows,
        panels=(Panel(unit, 260),),
        marks=[
            *(gap(each.start, each.end, each.reason) for each in traffic.gaps),
            *step_marks(steps, scale, traffic.period),
            *map(annotation_flag, annotations),
        ],
        legend=_legend(line),
        caption="The difference between requested and allowed was denied.",
        classes=classes,
        zooms=True,
        notes=notes,
        start=traffic.period.begin.timestamp(),
        end=traffic.period.end.timestamp(),
    )


def _where(line: TenantLimit) -> str:
    return "All endpoints" if line.scope == "*" else line.scope


def _values(moment: TrafficPoint, scale: float) -> list[float | None]:
    asked, allowed = moment.rate(moment.asked), moment.rate(moment.allowed)
    return [None if rate is None else rate * scale for rate in (asked, allowed)]


def steps_of(line: TenantLimit) -> list[LimitStep]:
    """What the chart draws of the limit: nothing of one that does not count this tenant's requests alone."""
    return limit_steps(line.limit) if _is_drawn(line) else []


def _is_drawn(line: TenantLimit) -> bool:
    is_sized = line.allowance is not None or line.guaranteed is not None
    return is_sized and str(line.limit.subject) == "tenant" and not line.effective.is_global


def _held(steps: Sequence[LimitStep]) -> dict[str, Callable[[Sequence[LimitStep], datetime, float], float | None]]:
    """The columns of the table that tell what the limit was."""
    shares = [isinstance(step.algorithm, Borrowing) for step in steps]
    if not any(shares):
        return {"Limit": held_at} if steps else {}
    return {"Guaranteed": guaranteed_at, "Ceiling" if all(shares) else "Limit": held_at}


def _legend(line: TenantLimit) -> list[Mark]:
    if not _is_drawn(line):
        return []
    found = [Mark("limit", f"Guaranteed, now {line.short.main}")] if line.guaranteed else []
    if line.allowance:
        name = "Ceiling" if isinstance(line.limit.algorithm, Borrowing) else "Limit"
        found.append(Mark("limit", f"{name}, now {line.most.main}"))
        if line.allowance.burst:
            found.append(Mark("band", "Burst: available until used up"))
    return found


def burn_figure(line: TenantLimit, burn: BurnDown) -> Figure:
    unit = "req" if line.limit.unit == "requests" else "units"
    last, left = burn.left[-1]
    known = dict(burn.left)
    ahead = {last: left, burn.runs_out: 0.0} if burn.runs_out else {}
    moments = {burn.start, burn.end, *known, *ahead}
    rows = [FigureRow(at, [known.get(at), ahead.get(at), _pace(burn, at)]) for at in sorted(moments, reverse=True)]
    return Figure(
        id="burn",
        title="Quota burn-down",
        note=f"{_where(line)}: {compact(burn.limit)} {unit} per {line.short.main.rpartition('/')[2]}",
        columns=(
            Column("Left", unit, "area", "brand"),
            Column("Forecast", unit, "dots", "degraded"),
            Column("Even pace", unit, "dash", "ref"),
        ),
        rows=rows,
        panels=(Panel(f"{unit} left", 200),),
        caption=_outlook(burn),
        classes="c-5",
        start=burn.start.timestamp(),
        end=burn.end.timestamp(),
        x_name="At",
    )


def _pace(burn: BurnDown, at: datetime) -> float:
    return burn.limit * ((burn.end - at) / (burn.end - burn.start))


def _outlook(burn: BurnDown) -> str:
    used = f"{compact(burn.used)} of {compact(burn.limit)} used."
    if burn.left_now == 0:
        return f"{used} The quota is used up until {burn.end:%-d %B %H:%M} UTC."
    if burn.runs_out is None:
        return f"{used} At the recent pace it lasts until it renews on {burn.end:%-d %B %H:%M} UTC."
    early = f", {burn.days_early} days early" if burn.days_early else ""
    return f"{used} At the recent pace it runs out on {burn.runs_out:%-d %B}{early}."
