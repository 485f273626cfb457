"""CSV for spreadsheets: one writer for every export."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

# A spreadsheet reads a cell that begins with one of these as a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """One line at a time, so that a large export is never in memory as a whole."""
    yield _line(header)
    for row in rows:
        yield _line([_neutral(cell) for cell in row])


def _line(cells: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()


def _neutral(cell: object) -> object:
    """Text that looks like a formula gets an apostrophe in front; numbers stay numbers."""
    if isinstance(cell, str) and cell.startswith(FORMULA_STARTS):
        return "'" + cell
    return cell
