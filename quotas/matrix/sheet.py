"""Limits of tiers and of everyone as CSV for a spreadsheet, one limit in each row."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headroom_edge.algorithms import PARAMETERS
from headroom_edge.algorithms.bucket import rate_text
from quotas.policies.adapt import Adapt
from quotas.policies.limit_codec import COMMON_FIELDS
from quotas.policies.problems import Problem
from quotas.policies.spec import Limit
from quotas.policies.validate import parse_limit

PLACE = ("tier", "endpoint", "name")
COLUMNS = (*PLACE, "algorithm", *PARAMETERS, *COMMON_FIELDS)
NEEDED = (*PLACE, "algorithm")
MOST_ROWS = 20_000
MOST_SAID = 20  # problems; with more it is probably the wrong file


@dataclass(frozen=True, slots=True)
class SheetRow:
    line: int
    tier: str | None  # None: everyone
    endpoint: str
    name: str
    fields: Mapping[str, Any]  # of the limit, but for its name


def write_sheet(rows: Iterable[tuple[str | None, str, str, Mapping[str, Any]]]) -> str:
    """A row is tier, endpoint, the limit's name and its fields."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for tier, endpoint, name, fields in rows:
        plain = {name: _plain(value) for name, value in fields.items()}
        writer.writerow({**plain, "tier": tier or "", "endpoint": endpoint, "name": name})
    return out.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return rate_text(value).replace(",", "")
    return Adapt.parse(value).text if isinstance(value, Mapping) else value


def read_sheet(text: str) -> list[SheetRow] | list[Problem]:
    """All rows, or all problems with their lines."""
    reader = csv.DictReader(io.StringIO(text.lstrip("\N{ZERO WIDTH NO-BREAK SPACE}"), newline=""), strict=True)
    try:
        problems = _header(reader.fieldnames or ())
        if problems:
            return problems
        rows = list(_rows(reader))
    except csv.Error as error:
        message = f"this is not CSV: {error}; save it from the spreadsheet again"
        return [Problem("", "csv", message, reader.reader.line_num)]
    if not rows:
        return [Problem("", "empty", "there is no row below the header; add one row for each limit", 1)]
    problems = [problem for row in rows for problem in _check(row)] + list(_doubles(rows))
    return sorted(problems, key=lambda problem: problem.line or 0)[:MOST_SAID] or rows


def _header(columns: Iterable[str]) -> list[Problem]:
    found = list(columns)
    unknown = [column for column in found if column not in COLUMNS]
    missing = [column for column in NEEDED if column not in found]
    problems = [
        Problem("", "column", f"there is no column {name!r:.40}; use {', '.join(COLUMNS)}", 1) for name in unknown
    ]
    return problems + [
        Problem("", "column", f"the column {name} is missing; add it to the header", 1) for name in missing
    ]


def _rows(reader: "csv.DictReader[str]") -> Iterator[SheetRow]:
    for record in reader:
        if reader.line_num > MOST_ROWS:
            raise csv.Error(f"more than {MOST_ROWS:,} lines")
        if None in record or None in record.values():
            raise csv.Error("a row has more or fewer cells than the header")
        fields = {column: text.strip() for column, text in record.items() if text.strip()}
        if fields:
            tier, endpoint, name = (fields.pop(column, "") for column in PLACE)
            yield SheetRow(reader.line_num, tier or None, endpoint, name, {c: _value(t) for c, t in fields.items()})


def _value(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def _check(row: SheetRow) -> Iterator[Problem]:
    if not row.endpoint:
        yield Problem("endpoint", "missing", "the endpoint is missing; write * for all endpoints", row.line)
    limit = parse_limit({"name": row.name or None, **row.fields})
    if not isinstance(limit, Limit):
        yield from (Problem(one.path, one.code, one.message, row.line) for one in limit)


def _doubles(rows: Iterable[SheetRow]) -> Iterator[Problem]:
    seen: dict[tuple[str | None, str, str], int] = {}
    for row in rows:
        first = seen.setdefault((row.tier, row.endpoint, row.name), row.line)
        if first != row.line:
            yield Problem("name", "duplicate", f"line {first} has the same limit; keep one of them", row.line)
