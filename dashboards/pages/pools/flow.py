"""The picture of a pool's loans: who lends to whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dashboards.pages.pools.figures import FREE, PoolFigures, TreeRow, name_of
from dashboards.templatetags.numbers import number
from quotas.pools.lending import Loan
from quotas.pools.queries import PoolRow

MOST_LOANS: Final = 6  # that are drawn
TOP, HEIGHT, GAP = 28, 190, 26  # of a box 420 wide
LEAST_BAND: Final = 6  # so that a small loan is seen
LEAST_NAMED: Final = 13  # the height of a number beside another one


@dataclass(frozen=True, slots=True)
class FlowNode:
    label: str
    words: str
    color: int
    y: float
    height: float

    @property
    def text_y(self) -> float:
        return self.y + min(self.height, 24) / 2 + 1


@dataclass(frozen=True, slots=True)
class FlowBand:
    color: int
    path: str
    amount: float
    y: float
    is_named: bool = True  # False: its number would lie on another one; the table has it


@dataclass(frozen=True, slots=True)
class Flow:
    lenders: Sequence[FlowNode]
    borrowers: Sequence[FlowNode]
    bands: Sequence[FlowBand]
    height: float
    words: str  # the picture in one sentence, for who does not see it


def pool_flow(pool: PoolRow, figures: PoolFigures, words: str) -> Flow | None:
    """None: nobody borrows. Of many loans the largest are drawn; the table has them all."""
    drawn = [loan for loan in figures.loans if loan.amount > 0][:MOST_LOANS]
    if not drawn:
        return None
    by_name = {name_of(row.share): row for row in figures.rows}
    total = sum(loan.amount for loan in drawn)
    scale = (HEIGHT - GAP * max(0, len({loan.lender for loan in drawn}) - 1)) / total
    thick = {(loan.lender, loan.borrower): max(LEAST_BAND, loan.amount * scale) for loan in drawn}
    lenders, left = _column([loan.lender for loan in drawn], thick, 0, by_name, pool)
    borrowers, right = _column([loan.borrower for loan in drawn], thick, 1, by_name, pool)
    lends = Counter(loan.lender for loan in drawn)
    bands = [
        _band(
            loan, thick[loan.lender, loan.borrower], left, right, by_name[loan.borrower].color, lends[loan.lender] == 1
        )
        for loan in drawn
    ]
    ends = [node.y + max(node.height, 30) for node in (*lenders, *borrowers)]
    return Flow(lenders, borrowers, bands, max(ends) + 8, words)


def _column(
    names: Sequence[str], thick: dict[tuple[str, str], float], side: int, rows: dict[str, TreeRow], pool: PoolRow
) -> tuple[list[FlowNode], dict[str, float]]:
    nodes, at = [], float(TOP)
    places: dict[str, float] = {}
    for name in dict.fromkeys(names):
        height = sum(value for ends, value in thick.items() if ends[side] == name)
        row = rows.get(name)
        label = row.label if row else FREE
        nodes.append(FlowNode(label, _node_words(row, side, pool), row.color if row else 0, at, height))
        places[name] = at
        at += max(height, 34) + GAP
    return nodes, places


def _node_words(row: TreeRow | None, side: int, pool: PoolRow) -> str:
    if row is None:
        return "guaranteed to nobody"
    if side:
        most = "" if row.ceiling is None else f", ceiling {number(row.ceiling)}"
        return f"{number(row.used or 0)} of {number(row.assured)}{most}"
    return f"uses {number(row.used or 0)} of {number(row.assured)}"


def _band(
    loan: Loan, width: float, left: dict[str, float], right: dict[str, float], color: int, is_alone: bool
) -> FlowBand:
    a, b = left[loan.lender], right[loan.borrower]
    left[loan.lender], right[loan.borrower] = a + width, b + width
    path = f"M134 {a:.1f}C210 {a:.1f} 210 {b:.1f} 286 {b:.1f}V{b + width:.1f}"
    path += f"C210 {b + width:.1f} 210 {a + width:.1f} 134 {a + width:.1f}Z"
    return FlowBand(color, path, loan.amount, a + width / 2 + 4, is_alone or width >= LEAST_NAMED)
