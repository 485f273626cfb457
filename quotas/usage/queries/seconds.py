"""The load of single seconds, for what needs the finest detail there is: calibration, replay, heat maps."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from quotas.calibration.counts import Counts
from quotas.models.usage_rates import EVERY_ENDPOINT, FoldName, PackedSeconds, RatesHour
from quotas.observations.arrays import Flags
from quotas.observations.seconds import Seconds
from quotas.usage.queries.coverage import coverage_read, folded_until

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
CHUNK: Final = 2_000  # rows
Unit = Literal["requests", "cost"]


def seconds_read(tenant: int, endpoint: int, begin: datetime, end: datetime) -> Seconds:
    """Of one tenant on one endpoint, or on all of them together (EVERY_ENDPOINT)."""
    rows = _rows(begin, end, [tenant])
    if endpoint != EVERY_ENDPOINT:
        rows = rows.filter(endpoint_number=endpoint)
    parts = [Seconds.unpack(packed) for packed in rows.values_list("packed", flat=True).iterator(chunk_size=CHUNK)]
    return Seconds.joined(parts).between(begin.timestamp(), end.timestamp())


def seconds_iter(
    begin: datetime, end: datetime, *, endpoint: int, tenants: Collection[int] | None = None
) -> Iterator[tuple[int, Seconds]]:
    """Of many tenants, one after the other in order of their numbers; holds the rows of one at a time."""
    rows = _rows(begin, end, tenants)
    if endpoint != EVERY_ENDPOINT:
        rows = rows.filter(endpoint_number=endpoint)
    found = rows.order_by("tenant_number").values_list("tenant_number", "packed").iterator(chunk_size=CHUNK)
    for tenant, packs in groupby(found, lambda row: row[0]):
        seconds = Seconds.joined([Seconds.unpack(packed) for _, packed in packs])
        seconds = seconds.between(begin.timestamp(), end.timestamp())
        if len(seconds):
            yield tenant, seconds


def _rows(begin: datetime, end: datetime, tenants: Collection[int] | None) -> Any:
    # A past day lies in the row of its first hour.
    first = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    rows = PackedSeconds.objects.filter(start__gte=first, start__lt=end)
    return rows if tenants is None else rows.filter(tenant_number__in=tenants)


def counts_of(seconds: Seconds, unit: Unit = "requests") -> tuple[Counts, Counts]:
    """Allowed and denied, in steps of a second; a minute that was counted whole lies in its first one."""
    allowed, denied = (
        (seconds.allowed, seconds.denied) if unit == "requests" else (seconds.allowed_cost, seconds.denied_cost)
    )
    return _counts(seconds, allowed > 0, allowed), _counts(seconds, denied > 0, denied)


def _counts(seconds: Seconds, kept: Flags, units: Any) -> Counts:
    return Counts(1, seconds.starts_s[kept], units[kept].astype(float))


@dataclass(frozen=True, slots=True)
class HeatMap:
    """By weekday (Monday first) and hour of the day: requests an hour on average; None: never measured."""

    zone: str
    asked: tuple[tuple[float | None, ...], ...]
    denied: tuple[tuple[float | None, ...], ...]


def heat_map(
    tenant: int, begin: datetime, end: datetime, *, zone: str = "UTC", endpoint: int = EVERY_ENDPOINT
) -> HeatMap:
    """From the rows of hours: at most one a measured hour, however busy it was."""
    begin = begin.replace(minute=0, second=0, microsecond=0)
    rows = RatesHour.objects.filter(
        tenant_number=tenant, endpoint_number=endpoint, start__gte=begin, start__lt=end
    ).values_list("start", "allowed", "denied")
    found = {start: (allowed + denied, denied) for start, allowed, denied in rows}
    measured = coverage_read(begin, end, folded_until(FoldName.RATES))
    hours: list[list[list[tuple[float, float]]]] = [[[] for _ in range(24)] for _ in range(7)]
    start = begin
    while start < end:
        share = measured.seconds(start, HOUR, is_empty=start not in found) / HOUR.total_seconds()
        if share > 0:
            local = start.astimezone(ZoneInfo(zone))
            asked, denied = found.get(start, (0, 0))
            hours[local.weekday()][local.hour].append((asked / share, denied / share))
        start += HOUR
    return HeatMap(zone, _means(hours, 0), _means(hours, 1))


def _means(hours: list[list[list[tuple[float, float]]]], place: int) -> tuple[tuple[float | None, ...], ...]:
    return tuple(tuple(sum(one[place] for one in cell) / len(cell) if cell else None for cell in day) for day in hours)
