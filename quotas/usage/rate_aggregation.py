"""Computes rows of rates (sums, peaks, histograms): hours from their seconds, days from their hours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Self

import numpy as np

from quotas.models.usage import LET_THROUGH, Outcome
from quotas.models.usage_rates import EVERY_ENDPOINT, Rates
from quotas.observations.arrays import Flags, Ints
from quotas.observations.cells import Cells
from quotas.observations.histogram import MeasuredRates, measure_rates, merge_packed
from quotas.observations.packing import groups
from quotas.observations.seconds import Seconds

HOUR_S: Final = 3_600
# Refused by a limit. Requests of suspended or unknown tenants are not demand that a limit could serve.
DENIED: Final = (Outcome.DENIED, Outcome.TOO_BIG, Outcome.OVERFLOW, Outcome.DEGRADED_CLOSED)


@dataclass(frozen=True, slots=True)
class LoadColumns:
    """Load per second of many tenants and endpoints, as columns of equal length."""

    tenants: Ints
    endpoints: Ints
    rows: Ints  # start of the PackedSeconds row that the second belongs to, in epoch seconds
    seconds: Seconds

    @classmethod
    def of_cells(cls, cells: Cells) -> Self:
        cells = cells.where(cells.tenant > 0).with_outcome((*LET_THROUGH, *DENIED))
        is_let = np.isin(cells.outcome, [ord(letter) for letter in LET_THROUGH])
        let, refused = is_let.astype(np.int64), (~is_let).astype(np.int64)
        sums = (cells.count * let, cells.count * refused, cells.cost * let, cells.cost * refused)
        seconds = Seconds(cells.start, cells.length, *sums)
        return cls(cells.tenant, cells.endpoint, cells.start // HOUR_S * HOUR_S, seconds)

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[int, int, int, bytes]]) -> Self:
        """From table rows: tenant, endpoint, start and packed seconds."""
        found = list(rows)
        parts = [Seconds.unpack(packed) for *_, packed in found]
        lengths = [len(part) for part in parts]
        keys = np.array([row[:3] for row in found], np.int64).reshape(-1, 3)
        columns = [np.concatenate(each) for each in zip(*(part.columns for part in parts), strict=True)]
        tenants, endpoints, starts = np.repeat(keys, lengths, axis=0).T
        return cls(tenants, endpoints, starts, Seconds(*columns) if parts else Seconds.joined([]))

    @classmethod
    def joined(cls, parts: Sequence[LoadColumns]) -> Self:
        tenants, endpoints, rows = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("tenants", "endpoints", "rows")
        )
        seconds = zip(*(part.seconds.columns for part in parts), strict=True)
        return cls(tenants, endpoints, rows, Seconds(*(np.concatenate(each) for each in seconds)))

    def __len__(self) -> int:
        return len(self.tenants)

    def where(self, kept: Flags | Ints | slice) -> Self:
        return type(self)(self.tenants[kept], self.endpoints[kept], self.rows[kept], self.seconds.where(kept))

    @property
    def hours(self) -> Ints:
        return self.seconds.starts_s // HOUR_S * HOUR_S

    def summed(self) -> Self:
        """One line per table row and second, sorted by tenant, endpoint, row and second."""
        starts, lengths, *sums = self.seconds.columns
        order = np.lexsort((lengths, starts, self.rows, self.endpoints, self.tenants))
        keys = [key[order] for key in (self.tenants, self.endpoints, self.rows, starts, lengths)]
        first = groups(*keys)
        if not len(first):
            return self
        tenants, endpoints, rows, starts, lengths = (key[first] for key in keys)
        added = (np.add.reduceat(column[order], first) for column in sums)
        return type(self)(tenants, endpoints, rows, Seconds(starts, lengths, *added))

    def by_row(self) -> Iterator[tuple[int, int, int, Seconds]]:
        """Tenant, endpoint, start and seconds of each table row; the lines must be sorted."""
        first = groups(self.tenants, self.endpoints, self.rows)
        for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(self)], strict=True):
            key = (int(self.tenants[begin]), int(self.endpoints[begin]), int(self.rows[begin]))
            yield *key, self.seconds.where(slice(begin, end))


@dataclass(frozen=True, slots=True)
class RateRow:
    tenant: int
    endpoint: int  # or EVERY_ENDPOINT
    start_s: int
    allowed: int
    denied: int
    requests: MeasuredRates
    cost: MeasuredRates | None  # None: every request cost 1, so it equals `requests`

    @staticmethod
    def columns() -> tuple[str, ...]:
        peaks = [f"{name}_{window}" for name in ("peak", "cost") for window in ("1s", "10s", "60s")]
        return ("allowed", "denied", *peaks, "requests", "cost")

    def values(self) -> tuple[object, ...]:
        cost_peaks = self.cost.peaks if self.cost else (None, None, None)
        packed = self.cost.packed if self.cost else None
        return (self.allowed, self.denied, *self.requests.peaks, *cost_peaks, self.requests.packed, packed)


def hour_rows(load: LoadColumns, wanted: set[tuple[int, int]]) -> Iterator[RateRow]:
    """For each wanted (tenant, hour): a row per endpoint and one over all endpoints."""
    hours = load.hours
    pairs = np.array(sorted(wanted), np.int64).reshape(-1, 2)
    keys = pairs[:, 0] << 34 | pairs[:, 1]  # a tenant has 26 bits, seconds have 33
    load = load.where(np.isin(load.tenants << 34 | hours, keys))
    if len(load):
        yield from _measured(load.tenants, load.endpoints, load.seconds)
        together = _over_endpoints(load)
        yield from _measured(together.tenants, together.endpoints, together.seconds)


def _over_endpoints(load: LoadColumns) -> LoadColumns:
    everywhere = np.full(len(load), EVERY_ENDPOINT, np.int64)
    return LoadColumns(load.tenants, everywhere, load.hours, load.seconds).summed()


def _measured(tenants: Ints, endpoints: Ints, seconds: Seconds) -> Iterator[RateRow]:
    """Rows of hours from lines in any order."""
    order = np.lexsort((seconds.lengths, seconds.starts_s, endpoints, tenants))
    yield from rate_rows(tenants[order], endpoints[order], seconds.where(order), HOUR_S)


def rate_rows(tenants: Ints, endpoints: Ints, seconds: Seconds, step_s: int) -> Iterator[RateRow]:
    """A row per tenant, endpoint and step. The lines must be sorted by tenant, endpoint and time."""
    starts = seconds.starts_s // step_s * step_s
    first = groups(tenants, endpoints, starts)
    series = np.repeat(np.arange(len(first)), np.diff(first, append=len(tenants)))
    requests = measure_rates(series, seconds, seconds.offered, len(first))
    costs = _costs(series, first, seconds)
    sums = (np.add.reduceat(column, first).tolist() for column in (seconds.allowed, seconds.denied))
    keys = (column[first].tolist() for column in (tenants, endpoints, starts))
    for tenant, endpoint, start, allowed, denied, counted, cost in zip(*keys, *sums, requests, costs, strict=True):
        yield RateRow(tenant, endpoint, start, allowed, denied, counted, cost)


def _costs(series: Ints, first: Ints, seconds: Seconds) -> list[MeasuredRates | None]:
    differs = np.logical_or.reduceat(seconds.offered != seconds.offered_cost, first)
    if not differs.any():
        return [None] * len(first)
    found = measure_rates(series, seconds, seconds.offered_cost, len(first))
    return [measured if differs[place] else None for place, measured in enumerate(found)]


def day_rows(hours: Iterable[Rates], day_s: int) -> Iterator[RateRow]:
    """Rows of one day from its hours, which must be sorted by tenant and endpoint."""
    for (tenant, endpoint), found in groupby(hours, lambda row: (row.tenant_number, row.endpoint_number)):
        rows = list(found)
        peaks = _most((row.peak_1s, row.peak_10s, row.peak_60s) for row in rows)
        requests = MeasuredRates(merge_packed(row.requests for row in rows), peaks)
        allowed, denied = sum(row.allowed for row in rows), sum(row.denied for row in rows)
        yield RateRow(tenant, endpoint, day_s, allowed, denied, requests, _cost_of(rows))


def _cost_of(rows: list[Rates]) -> MeasuredRates | None:
    if all(row.cost is None for row in rows):
        return None
    peaks = _most(
        (row.peak_1s, row.peak_10s, row.peak_60s)
        if row.cost is None
        else (row.cost_1s or 0, row.cost_10s or 0, row.cost_60s or 0)
        for row in rows
    )
    return MeasuredRates(merge_packed(row.requests if row.cost is None else row.cost for row in rows), peaks)


def _most(peaks: Iterable[tuple[int, int, int]]) -> tuple[int, int, int]:
    first, second, third = (max(column) for column in zip(*peaks, strict=True))
    return first, second, third
