"""Pagination by key, not by page number: the last page of 100,000 rows is as fast as the first.

Every order is by one unique column, so a cursor only has to hold the last row's value. It is signed, so that callers
cannot make up their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from django.core import signing
from django.db.models import Model, Q, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from api.inputs import Fields, Query, query
from api.openapi import patterns
from quotas.errors import refuse
from quotas.keyset import Orders, keyset_page

ModelRow = TypeVar("ModelRow", bound=Model)
Item = TypeVar("Item")

MOST_ROWS = 200
FEW_ROWS = 50
SALT = "api.pagination"
SEQUENCE = "worst"


class PageQuery(Query):
    limit = serializers.IntegerField(min_value=1, max_value=MOST_ROWS, default=FEW_ROWS, help_text="Page size.")
    cursor = serializers.RegexField(
        patterns.CURSOR,
        required=False,
        max_length=500,
        error_messages={"invalid": "cursor is not valid; use `next` of the previous page"},
        help_text="`next` of the previous page.",
    )

    orders: ClassVar[dict[str, str]] = {}  # value of `order` → a unique column
    lookups: ClassVar[dict[str, str]] = {}  # parameter → the lookup that it filters by
    presence: ClassVar[dict[str, str]] = {}  # true/false parameter → the column that must be set or null
    searched: ClassVar[tuple[str, ...]] = ()


def order_field(*names: str, default: str = "") -> serializers.ChoiceField:
    choices = [sign + name for name in names for sign in ("", "-")]
    help_text = "A leading `-` reverses the order."
    return serializers.ChoiceField(choices=choices, default=default or names[0], help_text=help_text)


def search_field(what: str) -> serializers.CharField:
    return serializers.CharField(required=False, max_length=100, help_text=f"Part of {what}.")


@dataclass(frozen=True, slots=True)
class Page(Generic[ModelRow]):
    rows: list[ModelRow]
    next: str | None


def listed(
    request: Request, kind: type[PageQuery], rows: QuerySet[ModelRow], shape: type[serializers.Serializer[Any]]
) -> Response:
    asked = query(kind, request)
    page = page_of(narrowed(rows, kind, asked), kind, asked)
    return Response({"items": shape(page.rows, many=True).data, "next": page.next})


def narrowed(rows: QuerySet[ModelRow], kind: type[PageQuery], asked: Fields) -> QuerySet[ModelRow]:
    wanted = {lookup: _sought(lookup, asked[name]) for name, lookup in kind.lookups.items() if name in asked}
    wanted |= {f"{column}__isnull": not asked[name] for name, column in kind.presence.items() if name in asked}
    rows = rows.filter(**wanted)
    if text := asked.get("search"):
        found = Q()
        for column in kind.searched:
            found |= Q(**{f"{column}__icontains": text})
        rows = rows.filter(found)
    return rows


def _sought(lookup: str, value: Any) -> Any:
    return [value] if lookup.endswith("__contains") else value


def page_of(rows: QuerySet[ModelRow], kind: type[PageQuery], asked: Fields) -> Page[ModelRow]:
    order = asked["order"]
    column = kind.orders[order.removeprefix("-")]
    if cursor := asked.get("cursor"):
        beyond = "lt" if order.startswith("-") else "gt"
        rows = rows.filter(**{f"{column}__{beyond}": _read(cursor, order)})
    # One row more than asked for tells whether there is a next page.
    limit: int = asked["limit"]
    found = list(rows.order_by(f"-{column}" if order.startswith("-") else column)[: limit + 1])
    more = len(found) > limit
    return Page(found[:limit], _write(order, getattr(found[limit - 1], column)) if more else None)


def sorted_list(
    request: Request,
    kind: type[PageQuery],
    rows: QuerySet[ModelRow],
    orders: Orders,
    shape: type[serializers.Serializer[Any]],
) -> Response:
    """A page of rows in an order that may have equals (quotas.keyset). The caller has filtered them."""
    asked = query(kind, request)
    page = keyset_page(rows, orders, order=asked["order"], after=cursor_read(asked), size=asked["limit"])
    return Response({"items": shape(page.rows, many=True).data, "next": cursor_written(asked, page.next)})


def sequence_page(
    rows: Sequence[Item], asked: Fields, shape: type[serializers.Serializer[Any]], *, key: Callable[[Item], Any]
) -> dict[str, Any]:
    """A page of rows that are not in the database, sorted by `key`, a tuple of numbers and texts."""
    if cursor := asked.get("cursor"):
        beyond = tuple(_read(cursor, SEQUENCE))
        rows = [row for row in rows if key(row) > beyond]
    limit: int = asked["limit"]
    more = len(rows) > limit
    items = shape(rows[:limit], many=True).data
    return {"items": items, "next": _write(SEQUENCE, key(rows[limit - 1])) if more else None}


def cursor_read(asked: Fields) -> str:
    """The cursor of quotas.keyset in the query; empty: the first page."""
    return str(_read(asked["cursor"], asked["order"])) if "cursor" in asked else ""


def cursor_written(asked: Fields, cursor: str) -> str | None:
    return _write(asked["order"], cursor) if cursor else None


def _write(order: str, value: object) -> str:
    return signing.dumps([order, value], salt=SALT)


def _read(cursor: str, order: str) -> Any:
    try:
        made_for, value = signing.loads(cursor, salt=SALT)
    except signing.BadSignature:
        raise refuse("cursor", "cursor", "cursor is not valid; use `next` of the previous page") from None
    if made_for != order:
        message = f"cursor belongs to a page ordered by {made_for}; keep that order, or start without a cursor"
        raise refuse("cursor", "cursor", message)
    return value
