"""The limits matrix for display: each cell shows the limit closest to its maximum, with its use and denials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headroom_edge.keys import OWN_ENDPOINTS, OWN_TENANT
from quotas.matrix.queries import EVERYONE, Cell, Column, Line, Matrix, MatrixLimit
from quotas.policies.limit_words import algorithm_words, limit_short, limit_words
from quotas.policies.spec import EVERYWHERE
from quotas.usage.queries.near_limits import NearestTenant, RequestCounts, TierUsage

NEAR = 0.8
EVERYONE_WORDS = "everyone"


@dataclass(frozen=True, slots=True)
class MatrixCell:
    cell: Cell
    first: MatrixLimit | None  # the one shown; None: no limit applies
    more: int  # further limits in the cell
    use: NearestTenant | None
    denials: RequestCounts | None  # None: no requests

    @property
    def key(self) -> str:
        return f"{self.cell.tier}/{self.cell.scope}"

    @property
    def main(self) -> str:
        return limit_short(self.first.limit.algorithm).main if self.first else "no limit"

    @property
    def rest(self) -> str:
        return limit_short(self.first.limit.algorithm).rest if self.first else ""

    @property
    def words(self) -> str:
        return "; ".join(
            f"{one.limit.name}: {limit_words(one.limit)}" for one in self.cell.limits or self.cell.inherited
        )

    @property
    def is_inherited(self) -> bool:
        return not self.cell.limits and bool(self.cell.inherited)

    @property
    def inherited_words(self) -> str:
        """From where: the limits of `*` for the same tier, by name."""
        names = ", ".join(one.limit.name for one in self.cell.inherited)
        return f"{names}: inherited from {title_of(self.cell.tier)} × {EVERYWHERE}"

    @property
    def is_shadow(self) -> bool:
        return any(one.limit.mode == "shadow" or one.limit.candidate for one in self.cell.limits)

    @property
    def is_near(self) -> bool:
        return self.use is not None and self.use.share >= NEAR and not self.is_inherited

    @property
    def is_denied(self) -> bool:
        return self.denials is not None and self.denials.denied > 0

    @property
    def level(self) -> str:
        """The colour class of the bar."""
        if self.use is None or self.use.share < NEAR - 0.005:
            return ""
        return "over" if self.use.share >= 0.995 else "warn"

    @property
    def width(self) -> str:
        return f"{min(100 * self.use.share, 100):.1f}" if self.use else "0"

    @property
    def classes(self) -> str:
        kinds = {"is-off": self.first is None, "is-inherited": self.is_inherited}
        return " ".join(name for name, holds in kinds.items() if holds)

    @property
    def tags(self) -> str:
        """Tags for the filter chips."""
        kinds = {"near": self.is_near, "denied": self.is_denied, "shadow": self.is_shadow, "own": self.cell.own > 0}
        return " ".join(name for name, holds in kinds.items() if holds)


@dataclass(frozen=True, slots=True)
class MatrixRow:
    line: Line
    algorithm: str
    cells: Sequence[MatrixCell]

    @property
    def is_endpoint(self) -> bool:
        return not self.line.scope.endswith("*")


@dataclass(frozen=True, slots=True)
class MatrixTable:
    columns: Sequence[Column]
    lines: Sequence[MatrixRow]

    def count(self, tag: str) -> int:
        return sum(tag in cell.tags.split() for line in self.lines for cell in line.cells)

    @property
    def near(self) -> int:
        return self.count("near")

    @property
    def denied(self) -> int:
        return self.count("denied")

    @property
    def shadow(self) -> int:
        return self.count("shadow")

    @property
    def own(self) -> int:
        return self.count("own")


def without_own(matrix: Matrix) -> Matrix:
    """Without the tier and endpoints of Headroom's own API and sign-in."""
    columns = tuple(column for column in matrix.columns if column.tier != OWN_TENANT)
    lines = (line for line in matrix.lines if not line.scope.startswith(OWN_ENDPOINTS))
    cells = {line.scope: tuple(cell for cell in line.cells if cell.tier != OWN_TENANT) for line in lines}
    return Matrix(
        columns, tuple(replace(line, cells=cells[line.scope]) for line in matrix.lines if line.scope in cells)
    )


def matrix_table(matrix: Matrix, measured: TierUsage) -> MatrixTable:
    numbers = {column.tier: column.number for column in matrix.columns}
    apart = _apart(matrix)
    lines = [
        MatrixRow(
            line,
            _algorithm(line.cells),
            [_matrix_cell(cell, numbers[cell.tier], measured, apart) for cell in line.cells],
        )
        for line in matrix.lines
    ]
    return MatrixTable(matrix.columns, lines)


def _apart(matrix: Matrix) -> dict[tuple[str, str], list[str]]:
    """By tier and limit name: the endpoints that have their own limit of that name."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in matrix.lines:
        for cell in line.cells if line.scope != EVERYWHERE else ():
            for one in cell.limits:
                found[cell.tier, one.limit.name].append(line.scope)
    return found


def _matrix_cell(
    cell: Cell, tier: int, measured: TierUsage, apart: Mapping[tuple[str, str], Sequence[str]]
) -> MatrixCell:
    """An inherited limit is counted on `*`, so its use is shown there and not in this cell."""
    held = cell.limits or cell.inherited
    names = {one.limit.name: apart.get((cell.tier, one.limit.name), ()) for one in held}
    if cell.scope != EVERYWHERE:
        names = dict.fromkeys(names, ())
    denials = measured.refused(tier, cell.scope, names)
    if not cell.limits:
        return MatrixCell(cell, next(iter(held), None), max(len(held) - 1, 0), None, denials)
    uses = [measured.nearest(tier, cell.scope, one.limit) for one in cell.limits]
    place = max(range(len(uses)), key=lambda i: use.share if (use := uses[i]) else -1.0)
    return MatrixCell(cell, cell.limits[place], len(uses) - 1, uses[place], denials)


def _algorithm(cells: Iterable[Cell]) -> str:
    names = {one.limit.algorithm.name for cell in cells for one in cell.limits}
    if len(names) > 1:
        return "several algorithms"
    return algorithm_words(names.pop()) if names else "inherited"


def title_of(tier: str) -> str:
    return tier if tier != EVERYONE else EVERYONE_WORDS
