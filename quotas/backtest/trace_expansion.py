"""Expands a trace of rates into individual arrivals: published traces give a mean rate and a gap distribution.

In each window the gaps are drawn from its distribution and rescaled to fill the window, so the rate determines the
number of arrivals and the shape determines how bursty they are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

import numpy as np

from quotas.backtest.trace import TraceError
from quotas.observations.arrays import Floats

NEEDED = ("t", "rate")
NAMES = ("model", "client")
FEWEST_COLUMNS = ", ".join((*NAMES, *NEEDED))


@dataclass(frozen=True, slots=True)
class RateWindow:
    tenant: str
    start_s: float
    rate: float  # mean requests a second
    family: str  # Gamma or Weibull; empty: Gamma with a shape derived from the cv
    shape: float


@dataclass(frozen=True, slots=True)
class Thinning:
    scale: float = 1.0  # factor for every rate
    most_rows: int | None = None  # per client over the whole trace; a client with more is scaled down
    every: int = 1  # keep every n-th window
    days: float | None = None  # keep the first days only


WHOLE = Thinning()


@dataclass(frozen=True, slots=True)
class WindowArrivals:
    """All arrivals of one window, in order of time."""

    times_s: Floats
    tenants: list[str]


def read_windows(lines: Iterable[str]) -> list[RateWindow]:
    rows = csv.DictReader(lines)
    missing = [name for name in (*NAMES, *NEEDED) if name not in (rows.fieldnames or [])]
    if missing:
        raise TraceError(f"line 1: column {missing[0]} is missing; the first line names at least {FEWEST_COLUMNS}")
    return [_window(row, rows.line_num) for row in rows]


def _window(row: dict[str, str], line: int) -> RateWindow:
    try:
        start, rate = (float(row[name]) for name in NEEDED)
        cv = float(row.get("cv") or 1)
        shape = float(row.get("shape") or 0)
    except (TypeError, ValueError):
        raise TraceError(f"line {line}: t, rate, cv and shape must be numbers") from None
    if not (isfinite(start) and start >= 0 and isfinite(rate) and 0 <= rate < 1e9 and isfinite(cv) and cv >= 0):
        raise TraceError(f"line {line}: t, rate and cv must not be below 0")
    family = row.get("family") or ""
    if family not in ("", "Gamma", "Weibull"):
        raise TraceError(f"line {line}: family must be Gamma, Weibull or empty, not {family!r}")
    known = family if shape > 0 else ""
    return RateWindow(f"{row['model']}-{row['client']}", start, rate, known, shape if known else 1 / max(cv, 0.01) ** 2)


def expand(windows: Sequence[RateWindow], thinning: Thinning = WHOLE, seed: int = 0) -> Iterator[WindowArrivals]:
    """One result per window, possibly empty."""
    draw = np.random.default_rng(seed)
    starts = sorted({window.start_s for window in windows})
    span_s = min((after - before for before, after in pairwise(starts)), default=600.0)
    kept = set(starts[:: thinning.every])
    last_s = float("inf") if thinning.days is None else starts[0] + thinning.days * 86_400
    factors = _factors(windows, thinning, span_s)
    by_start: dict[float, list[RateWindow]] = {start: [] for start in starts if start < last_s}
    for window in windows:
        if window.start_s in kept and window.start_s < last_s:
            by_start[window.start_s].append(window)
    for start, some in by_start.items():
        yield _slice(some, start, span_s, factors, draw)


def _factors(windows: Sequence[RateWindow], thinning: Thinning, span_s: float) -> dict[str, float]:
    totals: dict[str, float] = {}
    for window in windows:
        totals[window.tenant] = totals.get(window.tenant, 0.0) + window.rate * span_s * thinning.scale
    most = float("inf") if thinning.most_rows is None else thinning.most_rows
    return {tenant: thinning.scale * min(1.0, most / max(total, 1e-9)) for tenant, total in totals.items()}


def _slice(
    windows: list[RateWindow], start_s: float, span_s: float, factors: dict[str, float], draw: np.random.Generator
) -> WindowArrivals:
    times: list[Floats] = []
    tenants: list[str] = []
    for window in windows:
        found = _arrivals(window, window.rate * factors[window.tenant] * span_s, span_s, draw)
        times.append(found)
        tenants.extend([window.tenant] * len(found))
    together = start_s + np.concatenate(times) if times else np.empty(0)
    order = np.argsort(together, kind="stable")
    return WindowArrivals(together[order], [tenants[place] for place in order.tolist()])


def _arrivals(window: RateWindow, expected: float, span_s: float, draw: np.random.Generator) -> Floats:
    count = int(expected + draw.random())
    if not count:
        return np.empty(0)
    gaps = (
        draw.weibull(window.shape, count + 1) if window.family == "Weibull" else draw.gamma(window.shape, 1, count + 1)
    )
    sums = np.cumsum(gaps)
    times: Floats = sums[:-1] / sums[-1] * span_s if sums[-1] > 0 else draw.random(count) * span_s
    return times
