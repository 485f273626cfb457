"""Charts of a backtest as SVG. They follow the viewer's light or dark theme and need no library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from math import log10

from quotas.backtest.fitting import RECOMMENDER
from quotas.backtest.run import BacktestReport
from quotas.backtest.scoring import RuleScore

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 150, 28, 40
LEAST = 1e-4  # the lowest share on the logarithmic axis
OURS, OTHERS, FAINT = "#2563eb", "#64748b", "#94a3b8"


def pictures(report: BacktestReport) -> dict[str, str]:
    """File name → SVG."""
    return {"frontier.svg": "\n".join(_frontier(report)), "tenants.svg": "\n".join(_bars(report))}


def _frontier(report: BacktestReport) -> Iterator[str]:
    """Rejected share against headroom: lower and further left is better."""
    shown = {name: one for name, one in report.rules.items() if one.headroom < 20}
    most = max([*(one.headroom for one in shown.values()), 1.0]) * 1.1
    yield from _opened("False 429s against headroom: lower and further left is better")
    for share in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        yield from _line(_y(share), f"{100 * share:g}%")
    for step in range(int(most) + 1):
        yield _text(LEFT + step / most * _plot(), HEIGHT - BOTTOM + 18, f"{step}×", "middle")
    for name, one in shown.items():
        yield from _dot(one, most, name, OURS if name == RECOMMENDER else OTHERS)
    for one in report.same_headroom.values():
        yield from _dot(one, most, "", FAINT)
    yield _text(LEFT, HEIGHT - 6, "limit over next week's peak, median; pale: the rules at the recommender's headroom")
    yield "</svg>"


def _bars(report: BacktestReport) -> Iterator[str]:
    """At equal headroom: the share rejected in all and of the p90 tenant, and the share of tenants hit."""
    rows: Mapping[str, RuleScore] = {RECOMMENDER: report.rules[RECOMMENDER], **report.same_headroom}
    most = max([*(max(one.tenants_hit, one.p90_tenant, one.rejected) for one in rows.values()), 1e-9])
    yield from _opened("At the same headroom: rejected of all, of the p90 tenant, tenants hit")
    height = (HEIGHT - TOP - BOTTOM) / max(1, len(rows))
    for place, (name, one) in enumerate(rows.items()):
        top = TOP + place * height
        yield _text(4, top + height / 2, name, "start", 11)
        for number, share in enumerate((one.rejected, one.p90_tenant, one.tenants_hit)):
            thick = (height - 12) / 3
            y, width = top + 6 + number * thick, share / most * (WIDTH - 260)
            colour = OURS if name == RECOMMENDER else OTHERS
            yield f'<rect x="150" y="{y:.1f}" width="{width:.1f}" height="{thick - 2:.1f}" fill="{colour}"/>'
            yield _text(156 + width, y + thick - 4, f"{share:.2%}", "start", 10)
    yield "</svg>"


def _opened(title: str) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">'
    )
    yield f"<title>{escape(title)}</title>"
    yield _text(LEFT, 16, title, "start", 13)


def _dot(one: RuleScore, most: float, name: str, colour: str) -> Iterable[str]:
    x, y = LEFT + one.headroom / most * _plot(), _y(one.rejected)
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'
    if name:
        yield _text(x + 9, y + 4, name, "start", 11)


def _line(y: float, label: str) -> Iterable[str]:
    yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{FAINT}" stroke-opacity="0.4"/>'
    yield _text(LEFT - 6, y + 4, label, "end", 11)


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'


def _plot() -> int:
    return WIDTH - LEFT - RIGHT


def _y(share: float) -> float:
    height = log10(max(share, LEAST) / LEAST) / log10(1 / LEAST)
    return TOP + (1 - height) * (HEIGHT - TOP - BOTTOM)
