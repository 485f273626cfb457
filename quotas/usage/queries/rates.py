"""How fast tenants ask: peaks and percentiles of rates over any span, from rows of whole days and the hours around.

Of an hour that lies only partly in the span, all of it counts: rows hold no finer time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Max, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from quotas.models.usage_rates import FoldName, RatesDay, RatesHour
from quotas.observations.histogram import WINDOWS, Histogram, RateSet, merge_packed, unpack_histograms
from quotas.usage.queries.coverage import coverage_read, days_until, folded_until
from quotas.usage.queries.seconds import Unit, seconds_read

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
_PEAKS: Final = ("peak_1s", "peak_10s", "peak_60s")
_COSTS: Final = ("cost_1s", "cost_10s", "cost_60s")


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that came in one window, and how much in all."""

    tenant: int
    endpoint: int  # or EVERY_ENDPOINT
    allowed: int  # requests
    denied: int
    requests: Mapping[int, int]  # window in seconds → requests
    cost: Mapping[int, int]

    def of(self, unit: Unit) -> Mapping[int, int]:
        return self.requests if unit == "requests" else self.cost

    @property
    def denied_share(self) -> float:
        return self.denied / (self.allowed + self.denied) if self.allowed + self.denied else 0.0


def peaks_read(
    begin: datetime,
    end: datetime,
    *,
    tenants: Collection[int] | None = None,
    endpoints: Collection[int] | None = None,
    most: int | None = None,
) -> list[Peak]:
    """One per tenant and endpoint that asked for anything, the highest 60 s peak first."""
    found: dict[tuple[int, int], Peak] = {}
    for rows in _tables(begin, end, tenants, endpoints):
        for row in _summed(rows):
            key = (row["tenant_number"], row["endpoint_number"])
            found[key] = _higher(found.get(key), row)
    ordered = sorted(found.values(), key=lambda peak: (-peak.requests[60], peak.tenant, peak.endpoint))
    return ordered[:most]


def _summed(rows: QuerySet[Any]) -> Any:
    peaks = {name: Max(name) for name in _PEAKS}
    costs = {f"most_{name}": Max(Coalesce(name, peak)) for name, peak in zip(_COSTS, _PEAKS, strict=True)}
    # The aggregates must not take the names of the columns they are made of.
    sums = {"let": Sum("allowed"), "refused": Sum("denied"), **{f"most_{k}": v for k, v in peaks.items()}, **costs}
    return rows.order_by().values("tenant_number", "endpoint_number").annotate(**sums)


def _higher(before: Peak | None, row: Mapping[str, Any]) -> Peak:
    requests = {window: row[f"most_{name}"] for window, name in zip(WINDOWS, _PEAKS, strict=True)}
    cost = {window: row[f"most_{name}"] for window, name in zip(WINDOWS, _COSTS, strict=True)}
    allowed, denied = int(row["let"]), int(row["refused"])
    if before is not None:
        requests, cost = (
            {window: max(now[window], then[window]) for window in WINDOWS}
            for now, then in ((requests, before.requests), (cost, before.cost))
        )
        allowed, denied = allowed + before.allowed, denied + before.denied
    return Peak(row["tenant_number"], row["endpoint_number"], allowed, denied, requests, cost)


def rates_read(
    begin: datetime,
    end: datetime,
    *,
    tenants: Collection[int] | None = None,
    endpoints: Collection[int] | None = None,
    unit: Unit = "requests",
) -> dict[tuple[int, int], RateSet]:
    """Histograms by tenant and endpoint; give tenants or endpoints, or it reads all there are."""
    packs: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    peaks: dict[tuple[int, int], list[Sequence[int]]] = defaultdict(list)
    is_cost = unit == "cost"
    for rows in _tables(begin, end, tenants, endpoints):
        columns = ("tenant_number", "endpoint_number", "requests", "cost", *_PEAKS, *_COSTS)
        for tenant, endpoint, requests, cost, *tops in rows.values_list(*columns).iterator(chunk_size=2_000):
            has_own = is_cost and cost is not None
            packs[tenant, endpoint].append(cost if has_own else requests)
            peaks[tenant, endpoint].append(tops[len(_PEAKS) :] if has_own else tops[: len(_PEAKS)])
    return {key: _rate_set(found, peaks[key]) for key, found in packs.items()}


def _rate_set(packs: Sequence[bytes], peaks: Sequence[Sequence[int]]) -> RateSet:
    found: dict[int, Histogram] = dict(unpack_histograms(merge_packed(packs) if len(packs) > 1 else packs[0]))
    tops = {window: max(column) for window, column in zip(WINDOWS, zip(*peaks, strict=True), strict=True)}
    return RateSet(found, tops)


def _tables(
    begin: datetime, end: datetime, tenants: Collection[int] | None, endpoints: Collection[int] | None
) -> list[QuerySet[Any]]:
    """Whole days of UTC that are over from the rows of days, the rest from those of hours."""
    first, last = _whole_days(begin, end)
    hour = begin.replace(minute=0, second=0, microsecond=0)
    around = Q(start__gte=hour, start__lt=min(first, end)) | Q(start__gte=last, start__lt=end)
    parts: list[QuerySet[Any]] = [RatesHour.objects.filter(around)]
    if first < last:
        parts.append(RatesDay.objects.filter(start__gte=first, start__lt=last))
    if tenants is not None:
        parts = [rows.filter(tenant_number__in=tenants) for rows in parts]
    if endpoints is not None:
        parts = [rows.filter(endpoint_number__in=endpoints) for rows in parts]
    return parts


def _whole_days(begin: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Rows of a day are there once it is over, as far as folds have come."""
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight if midnight == begin else midnight + DAY
    over = min(end, days_until()).replace(hour=0, minute=0, second=0, microsecond=0)
    return first, max(first, over)


@dataclass(frozen=True, slots=True)
class RatePoint:
    """One step of one tenant on one endpoint; `seconds` is how much of it was measured. 0: nothing is known."""

    start: datetime
    allowed: int
    denied: int
    peak_1s: int  # the most requests in one second
    seconds: float


MOST_STEPS: Final = 2_000


def rate_series(tenant: int, endpoint: int, begin: datetime, end: datetime, step: timedelta) -> list[RatePoint]:
    """Against time, with the peak of each step; of steps below an hour from seconds, else from rows of hours."""
    if (end - begin) / step > MOST_STEPS:
        raise ValueError(f"that is more than {MOST_STEPS:,} steps: take longer ones")
    measured = coverage_read(begin, end, folded_until(FoldName.RATES))
    found = (_from_seconds if step < HOUR else _from_hours)(tenant, endpoint, begin, end, step)
    points = []
    start = begin
    while start < end:
        allowed, denied, peak = found.get((start - begin) // step, (0, 0, 0))
        seconds = measured.seconds(start, step, is_empty=not allowed + denied)
        points.append(RatePoint(start, allowed, denied, peak, seconds))
        start += step
    return points


Steps = dict[int, tuple[int, int, int]]  # number of the step → allowed, denied, most in a second


def _from_seconds(tenant: int, endpoint: int, begin: datetime, end: datetime, step: timedelta) -> Steps:
    seconds = seconds_read(tenant, endpoint, begin, end)
    places = ((seconds.starts_s - int(begin.timestamp())) // int(step.total_seconds())).tolist()
    found: Steps = {}
    rows = zip(places, seconds.allowed.tolist(), seconds.denied.tolist(), seconds.lengths.tolist(), strict=True)
    for place, allowed, denied, length in rows:
        before = found.get(place, (0, 0, 0))
        peak = max(before[2], allowed + denied if length == 1 else 0)
        found[place] = (before[0] + allowed, before[1] + denied, peak)
    return found


def _from_hours(tenant: int, endpoint: int, begin: datetime, end: datetime, step: timedelta) -> Steps:
    found: Steps = {}
    rows = RatesHour.objects.filter(
        tenant_number=tenant, endpoint_number=endpoint, start__gte=begin, start__lt=end
    ).values_list("start", "allowed", "denied", "peak_1s")
    for start, allowed, denied, peak in rows:
        place = (start - begin) // step
        before = found.get(place, (0, 0, 0))
        found[place] = (before[0] + allowed, before[1] + denied, max(before[2], peak))
    return found
