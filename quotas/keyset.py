"""Lists in pages by key, not by page number: the last page of 100,000 rows is as fast as the first.

A list names the columns that it can be sorted by, and reads one page:

    ORDERS = {"name": SortColumn("name"), "asked": SortColumn("summary__asked", "int", tie="summary__tenant_id")}
    page = keyset_page(rows, ORDERS, order="-asked", after=request.GET.get("after", ""))

`page.next` and `page.previous` are cursors for `after` and `before`. A column that is not unique needs `tie`, a
unique one, and an index over both. A cursor that cannot be read is ignored: the list starts at its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any, Final, Generic, Literal, TypeVar

from django.db.models import BooleanField, F, Func, Model, QuerySet, Value
from django.db.models.sql.compiler import SQLCompiler

from quotas.models.usage import BEGINNING
from quotas.policies.problems import is_fit

M = TypeVar("M", bound=Model)

PAGE: Final = 50
LONGEST_CURSOR: Final = 300
BIGGEST: Final = 2**63
CHUNK: Final = 1_000  # rows of an export in memory
MOST_COUNTED: Final = 1_000

Kind = Literal["text", "int", "float", "time"]


@dataclass(frozen=True, slots=True)
class SortColumn:
    path: str  # lookup path, not null
    kind: Kind = "text"
    tie: str = ""  # lookup path of a unique column; empty: `path` is unique
    tie_kind: Kind = "int"

    @property
    def parts(self) -> list[tuple[str, Kind]]:
        return [(self.path, self.kind), *([(self.tie, self.tie_kind)] if self.tie else [])]


Orders = Mapping[str, SortColumn]


@dataclass(frozen=True, slots=True)
class KeysetPage(Generic[M]):
    rows: Sequence[M]
    next: str  # cursor for `after`; empty: this is the last page
    previous: str  # cursor for `before`; empty: this is the first page


class _Beyond(Func):
    """(column, tie) > (value, tie): a comparison of rows, which an index answers even among many ties."""

    output_field = BooleanField()

    def __init__(self, sign: str, *expressions: Any) -> None:
        super().__init__(*expressions)
        self.sign = sign

    def as_sql(self, compiler: SQLCompiler, *_: Any, **__: Any) -> tuple[str, tuple[Any, ...]]:
        compiled = [compiler.compile(each) for each in self.source_expressions]
        half = len(compiled) // 2
        left, right = (", ".join(sql for sql, _ in side) for side in (compiled[:half], compiled[half:]))
        return f"({left}) {self.sign} ({right})", tuple(value for _, values in compiled for value in values)


def order_read(orders: Mapping[str, object], order: str, default: str) -> str:
    """The order that was asked for, or the default if there is no such order."""
    return order if order.removeprefix("-") in orders else default


def sorted_by(rows: QuerySet[M], orders: Orders, order: str) -> QuerySet[M]:
    sign = "-" if order.startswith("-") else ""
    return rows.order_by(*(sign + path for path, _ in orders[order.removeprefix("-")].parts))


def keyset_page(
    rows: QuerySet[M], orders: Orders, *, order: str, after: str = "", before: str = "", size: int = PAGE
) -> KeysetPage[M]:
    column = orders[order.removeprefix("-")]
    start = _cursor_read(column, after)
    end = None if start else _cursor_read(column, before)
    is_backward = end is not None
    way = _turned(order) if is_backward else order
    found = sorted_by(rows, orders, way)
    if key := start or end:
        found = found.filter(_beyond(column, key, is_down=way.startswith("-")))
    # One row more than asked for tells whether there is another page.
    listed = list(found[: size + 1])
    more, listed = len(listed) > size, listed[:size]
    if is_backward:
        listed.reverse()
    has_next, has_previous = (True, more) if is_backward else (more, start is not None)
    return KeysetPage(
        listed,
        _cursor(column, listed[-1]) if listed and has_next else "",
        _cursor(column, listed[0]) if listed and has_previous else "",
    )


def every_row(rows: QuerySet[M], orders: Orders, order: str) -> Iterator[M]:
    """All rows in this order, for an export. It reads page by page, so memory is bounded and no cursor stays open."""
    column, key = orders[order.removeprefix("-")], None
    while True:
        found = sorted_by(rows, orders, order)
        if key is not None:
            found = found.filter(_beyond(column, key, is_down=order.startswith("-")))
        chunk = list(found[:CHUNK])
        yield from chunk
        if len(chunk) < CHUNK:
            return
        key = [_value(chunk[-1], path) for path, _ in column.parts]


def count_up_to(rows: QuerySet[Any], most: int = MOST_COUNTED) -> int:
    """How many there are; `most` + 1 stands for more than `most`."""
    return rows.order_by().values("pk")[: most + 1].count()


def _turned(order: str) -> str:
    return order.removeprefix("-") if order.startswith("-") else f"-{order}"


def _beyond(column: SortColumn, key: Sequence[Any], *, is_down: bool) -> _Beyond:
    fields = [F(path) for path, _ in column.parts]
    return _Beyond("<" if is_down else ">", *fields, *(Value(value) for value in key))


def _cursor(column: SortColumn, row: Model) -> str:
    return "~".join(_written(_value(row, path)) for path, _ in reversed(column.parts))


def _value(row: Any, path: str) -> Any:
    for step in path.split("__"):
        row = getattr(row, step)
    return row.pk if isinstance(row, Model) else row


def _written(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _cursor_read(column: SortColumn, text: str) -> list[Any] | None:
    """None: it is empty, or not a cursor of this order."""
    if not text or len(text) > LONGEST_CURSOR or not is_fit(text):
        return None
    parts = text.split("~", len(column.parts) - 1)
    if len(parts) != len(column.parts):
        return None
    try:
        return [_read(part, kind) for part, (_, kind) in zip(reversed(parts), column.parts, strict=True)]
    except ValueError:
        return None


def _read(text: str, kind: Kind) -> Any:
    if kind == "int":
        number = int(text)
        if abs(number) >= BIGGEST:
            raise ValueError(text)
        return number
    if kind == "float":
        share = float(text)
        if not isfinite(share):
            raise ValueError(text)
        return share
    if kind == "time":
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None or moment.year < BEGINNING.year:
            raise ValueError(text)
        return moment
    return text
