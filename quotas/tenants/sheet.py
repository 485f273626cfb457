"""Many new tenants as a table in CSV: read whole and checked whole, so that all of them are created or none."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from quotas.csv_text import FORMULA_STARTS
from quotas.errors import Refused
from quotas.policies.problems import Problem, is_fit
from quotas.tenants.edit import checked
from quotas.tenants.fields import NewTenant
from tenants.models import Tenant, Tier

COLUMNS: Final = ("name", "tier", "label", "timezone", "tags", "contacts", "priority")
MOST_ROWS: Final = 20_000
MOST_BYTES: Final = 2_000_000
MOST_SAID: Final = 50  # problems; with more it is probably the wrong file
LARGE: Final = 1_000  # rows: writing more takes a worker
_BETWEEN: Final = re.compile(r"[\s;|]+")  # in a cell with several tags or contacts


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    tenant: NewTenant


def sheet_tenants(text: str, *, tier: str = "") -> list[NewTenant]:
    """The tenants as they would be stored. Refused with the problems and their lines.

    `tier`: of the rows that name none.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > MOST_BYTES:
        raise _refused("size", f"the table has {size:,} bytes; the maximum is {MOST_BYTES:,}. Split it")
    if not is_fit(text):
        raise _refused("text", "the table contains a NUL or an incomplete character; save it as CSV UTF-8")
    rows = _read(text, tier)
    found, problems = _checked(rows)
    if problems:
        raise Refused(sorted(problems, key=lambda problem: problem.line or 0)[:MOST_SAID])
    return found


def _refused(code: str, message: str, line: int | None = None) -> Refused:
    return Refused([Problem("csv", code, message, line)])


def _read(text: str, tier: str) -> list[_Row]:
    reader = csv.DictReader(io.StringIO(text.lstrip("\N{ZERO WIDTH NO-BREAK SPACE}"), newline=""), strict=True)
    try:
        _check_header([name.strip().lower() for name in reader.fieldnames or ()])
        reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
        rows = list(_rows(reader, tier))
    except csv.Error as error:
        line = reader.reader.line_num
        raise _refused("csv", f"this is not CSV: {error}; save it from the spreadsheet again", line) from None
    if not rows:
        raise _refused("empty", "there is no row below the header; add one row for each tenant", 1)
    return rows


def _check_header(columns: list[str]) -> None:
    if not columns:
        raise _refused("empty", f"the table is empty; begin with a line that names the columns: {', '.join(COLUMNS)}")
    for name in columns:
        if name not in COLUMNS:
            raise _refused("column", f"there is no column {name!r:.40}; use {', '.join(COLUMNS)}", 1)
        if columns.count(name) > 1:
            raise _refused("column", f"the column {name} is there twice; remove one", 1)
    if "name" not in columns:
        raise _refused("column", "the column name is missing; add it to the header", 1)


def _rows(reader: csv.DictReader[str], tier: str) -> Iterator[_Row]:
    count = 0
    for record in reader:
        if None in record or None in record.values():
            raise csv.Error("a row has more or fewer cells than the header")
        cells = {column: _plain(text) for column, text in record.items()}
        if not any(cells.values()):
            continue
        count += 1
        if count > MOST_ROWS:
            raise csv.Error(f"more than {MOST_ROWS:,} rows")
        yield _Row(reader.line_num, _tenant(cells, tier))


def _plain(text: str) -> str:
    """Without the apostrophe that an export puts before what a spreadsheet would take for a formula."""
    text = text.strip()
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA_STARTS) else text


def _tenant(cells: dict[str, str], tier: str) -> NewTenant:
    return NewTenant(
        cells["name"],
        cells.get("tier") or tier,
        cells.get("label", ""),
        cells.get("timezone") or "UTC",
        tuple(_several(cells.get("tags", ""))),
        tuple(_several(cells.get("contacts", ""))),
        cells.get("priority", "").lower(),
    )


def _several(text: str) -> Iterator[str]:
    return (part for part in _BETWEEN.split(text) if part)


def _checked(rows: Iterable[_Row]) -> tuple[list[NewTenant], list[Problem]]:
    rows = list(rows)
    tiers = set(Tier.objects.filter(retired=False).values_list("name", flat=True))
    live = set(Tenant.objects.filter(name__in=[row.tenant.name for row in rows]).values_list("name", flat=True))
    taken, first = set(live), dict[str, int]()
    found: list[NewTenant] = []
    problems: list[Problem] = []
    for row in rows:
        name = row.tenant.name
        earlier = first.setdefault(name, row.line)
        if earlier != row.line:
            problems.append(Problem("name", "duplicate", f"line {earlier} has the same name; keep one", row.line))
            continue
        try:
            found.append(checked(row.tenant, tiers, taken))
        except Refused as refused:
            problems += [Problem(each.path, each.code, each.message, row.line) for each in refused.problems]
        if len(problems) >= MOST_SAID:
            break
    return found, problems
