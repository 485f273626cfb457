"""Latency by load of an endpoint, and the knee where it starts to rise."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from dashboards.figure import Column, Figure, FigureRow, Mark, Panel
from dashboards.templatetags.numbers import number
from quotas.calibration.capacity import Capacity, capacity_of
from quotas.calibration.parameters import DEFAULTS
from quotas.models import Endpoint
from quotas.usage.queries.latency import latency_read, latency_samples

SPAN: Final = timedelta(days=7)
P99: Final = 0.99


def latency_figure(endpoint: Endpoint, now: datetime) -> Figure | None:
    """None if there is no latency data."""
    found = latency_read(endpoint.number, now - SPAN, now)
    if not found:
        return None
    rows = [FigureRow(one.load, [one.quantile_ms(P99), one.mean_ms, one.seconds]) for one in found]
    capacity = capacity_of(latency_samples(endpoint.number, now - SPAN, now))
    return Figure(
        "latency",
        "Latency by load",
        "seconds of the last 7 days, by responses per second",
        [Column("p99", "ms", "points", "1"), Column("Mean", "ms", "line", "ref"), Column("Seconds", "", "")],
        rows,
        axis="number",
        x_name="Load, responses per second",
        panels=[Panel("ms", 200)],
        marks=_knee(capacity) if isinstance(capacity, Capacity) else (),
        caption=_words(capacity) if isinstance(capacity, Capacity) else f"Capacity unknown: {capacity.reason}.",
    )


def _knee(capacity: Capacity) -> list[Mark]:
    return [Mark("mark", f"rises from {number(capacity.load)}", at=capacity.load)]


def _words(capacity: Capacity) -> str:
    share, load = DEFAULTS.capacity_share, capacity.load
    return (
        f"Latency rises from {number(load)} responses per second on. Limits may add up to {100 * share:.0f} % of that, "
        f"{number(share * load)}. The highest load seen was {number(capacity.most_seen)}."
    )
