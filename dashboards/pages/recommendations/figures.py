"""The figures of a recommendation, in the order of the argument: rate, what each limit denies, days, burst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import log
from typing import Any, Final

from dashboards.figure import Column, Figure, FigureRow, Mark, Panel
from dashboards.pages.recommendations.card import Card
from dashboards.templatetags.numbers import number
from quotas.policies.limit_codec import algorithm_load
from quotas.policies.limit_words import limit_short

MOST_BURST = 5  # times the larger of both limits' bursts, on the curve
# As quotas.recommendations.unseen names them.
TRIED: Final = {"now": "now", "step": "step", "need": "need", "max_x1.15": "max×1.15", "p99_x1.15": "p99×1.15"}
IN_WORDS: Final = {
    "now": "Now {}",
    "step": "this step {}",
    "need": "the whole need {}",
    "max_x1.15": "the busiest minute of any tenant × 1.15 is {}",
    "p99_x1.15": "the 99th percentile × 1.15 is {}",
}


def figures_of(card: Card) -> list[Figure]:
    """Those that have data."""
    evidence, unseen = card.row.evidence, card.unseen
    found = (_demand(card, evidence), _limits(unseen), _days(unseen), _curve(card, evidence))
    return [figure for figure in found if figure.rows]


def _limits(unseen: Mapping[str, Any]) -> Figure:
    tried = [one for one in unseen.get("limits", ()) if one["name"] in TRIED]
    rows = [
        FigureRow(i, [100 * one["denied"] / unseen["units"], one["denied"]], TRIED[one["name"]])
        for i, one in enumerate(tried)
    ]
    return Figure(
        "limits",
        "What each limit would deny",
        f"replay of {number(unseen.get('days', 0))} days that none of them was fitted on",
        [Column("Denied", "%", "bars", "denied"), Column("Units denied", "", "")],
        rows,
        axis="category",
        x_name="Limit",
        panels=[Panel("% denied", 200)],
        classes="c-6",
        caption=f"{', '.join(map(_tried_words, tried))}; each as the days before gave it.",
    )


def _tried_words(one: Mapping[str, Any]) -> str:
    return IN_WORDS[one["name"]].format(limit_short(algorithm_load(one["limit"])).main)


def _days(unseen: Mapping[str, Any]) -> Figure:
    rows = []
    for i, day in enumerate(unseen.get("by_day", ())):
        units = max(day["units"], 1)
        shares = [100 * day["denied_now"] / units, 100 * day["denied_then"] / units, day["units"]]
        rows.append(FigureRow(i, shares, f"{datetime.fromisoformat(day['start']):%-d %b}"))
    return Figure(
        "days",
        "Replay, day by day",
        "recorded demand of days that the step was not fitted on, through both limits",
        [
            Column("Current limit", "%", "area", "denied"),
            Column("With this step", "%", "line", "brand"),
            Column("Requested", "units", ""),
        ],
        rows,
        axis="category",
        x_name="24 h from",
        panels=[Panel("% denied", 200)],
        classes="c-6",
    )


def _demand(card: Card, evidence: Mapping[str, Any]) -> Figure:
    bins: list[dict[str, Any]] = evidence.get("histogram", [])
    total = sum(one["units"] for one in bins) or 1
    rows = [
        FigureRow(i, [100 * one["units"] / total, one["minutes"], one["high"]], number(one["low"]))
        for i, one in enumerate(bins)
    ]
    percentiles = evidence.get("percentiles", {})
    named = ((f"p{100 * float(q):g}", rate) for q, rate in percentiles.items() if 0.5 <= float(q) < 1)
    said = ", ".join(f"{name} {number(rate)}/s" for name, rate in named)
    return Figure(
        "demand",
        "Demand",
        "share of load by 60 s rate, including denied requests",
        [Column("Load", "%", "bars", "1"), Column("Minutes", "", ""), Column("Up to", "per second", "")],
        rows,
        axis="category",
        x_name="60 s rate from, per second",
        panels=[Panel("% of load", 200)],
        marks=list(_marks(card, bins)),
        caption=f"{evidence['marker']}, whose demand sets the limit: {said}." if evidence.get("marker") else said,
    )


def _marks(card: Card, bins: Sequence[Mapping[str, Any]]) -> Iterator[Mark]:
    for name, size in (("now", card.size_now), ("new", card.size_then)):
        place = _along(size.rate, bins) if size else None
        if size is not None and place is not None:
            yield Mark("mark", f"{name} {number(size.rate)}/s", at=place)


def _along(rate: float, bins: Sequence[Mapping[str, Any]]) -> float | None:
    """The position of a rate on the category axis; bar i is centred on i."""
    if not bins or rate > bins[-1]["high"] or rate < bins[0]["low"]:
        return None
    for i, one in enumerate(bins):
        if rate <= one["high"]:
            low, high = max(one["low"], 1e-9), max(one["high"], 1e-9)
            inside = log(rate / low) / log(high / low) if high > low and rate > low else 0.5
            return i - 0.5 + min(max(inside, 0.0), 1.0)
    return None


def _curve(card: Card, evidence: Mapping[str, Any]) -> Figure:
    # Far below the limits the curve is so steep that it would flatten all the rest.
    most = MOST_BURST * max((size.burst for size in (card.size_now, card.size_then) if size), default=0)
    drawn = [one for one in evidence.get("curve", []) if not most or one["burst"] <= most]
    points = {round(one["rate"], 6): [one["burst"], None, None] for one in drawn}
    for place, size in ((1, card.size_then), (2, card.size_now)):
        if points and size is not None:
            points.setdefault(round(size.rate, 6), [None, None, None])[place] = size.burst
    rows = [FigureRow(rate, values) for rate, values in sorted(points.items())]
    columns = [Column("b(r)", "", "line", "brand"), Column("Proposed", "", "points", "allowed")]
    return Figure(
        "curve",
        "Burst by rate, b(r)",
        "smallest burst that admits all but 0.1 % of arrivals",
        [*columns, Column("Now", "", "points", "ref")],
        rows,
        axis="number",
        x_name="Rate, per second",
        panels=[Panel("burst", 200)],
        caption="A limit above the curve admits the bursts; one below it denies some.",
    )
