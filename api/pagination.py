"""Pages by key, not by number: a page costs the same at the end of 100,000 rows as at the beginning.

Every order is by one unique column, so the last row's value is all that a cursor has to remember. It is signed, so
that whatever comes back is what was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from django.core import signing
from django.db.models import Model, Q, QuerySet
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from api.inputs import Fields, Query, query

Row = TypeVar("Row", bound=Model)

MOST_ROWS = 200
FEW_ROWS = 50
SALT = "api.pagination"


class PageQuery(Query):
    limit = serializers.IntegerField(min_value=1, max_value=MOST_ROWS, default=FEW_ROWS, help_text="How many at most.")
    cursor = serializers.CharField(required=False, max_length=500, help_text="`next` of the page before.")

    orders: ClassVar[dict[str, str]] = {}  # what a caller says → a unique column
    lookups: ClassVar[dict[str, str]] = {}  # what a caller says → what it narrows
    presence: ClassVar[dict[str, str]] = {}  # what a caller asks by true or false → the column that is set or not
    searched: ClassVar[tuple[str, ...]] = ()


def order_field(*names: str, default: str = "") -> serializers.ChoiceField:
    choices = [sign + name for name in names for sign in ("", "-")]
    help_text = "`-` in front: the other way round."
    return serializers.ChoiceField(choices=choices, default=default or names[0], help_text=help_text)


def search_field(what: str) -> serializers.CharField:
    return serializers.CharField(required=False, max_length=100, help_text=f"Part of {what}.")


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    rows: list[Row]
    next: str | None


def listed(
    request: Request, kind: type[PageQuery], rows: QuerySet[Row], shape: type[serializers.Serializer[Any]]
) -> Response:
    asked = query(kind, request)
    page = page_of(narrowed(rows, kind, asked), kind, asked)
    return Response({"items": shape(page.rows, many=True).data, "next": page.next})


def narrowed(rows: QuerySet[Row], kind: type[PageQuery], asked: Fields) -> QuerySet[Row]:
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


def page_of(rows: QuerySet[Row], kind: type[PageQuery], asked: Fields) -> Page[Row]:
    order = asked["order"]
    column = kind.orders[order.removeprefix("-")]
    if cursor := asked.get("cursor"):
        beyond = "lt" if order.startswith("-") else "gt"
        rows = rows.filter(**{f"{column}__{beyond}": _read(cursor, order)})
    limit: int = asked["limit"]
    found = list(rows.order_by(f"-{column}" if order.startswith("-") else column)[: limit + 1])
    more = len(found) > limit
    return Page(found[:limit], _write(order, getattr(found[limit - 1], column)) if more else None)


def _write(order: str, value: object) -> str:
    return signing.dumps([order, value], salt=SALT)


def _read(cursor: str, order: str) -> Any:
    try:
        made_for, value = signing.loads(cursor, salt=SALT)
    except signing.BadSignature:
        raise ValidationError(
            {"cursor": ["cursor is not one of ours; use `next` of the page before"]}, "cursor"
        ) from None
    if made_for != order:
        message = f"cursor belongs to a page ordered by {made_for}; keep the order, or begin without a cursor"
        raise ValidationError({"cursor": [message]}, "cursor")
    return value
