"""Which objects a change of many is about: those that are listed, or those that match a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.authentication import tenants_of
from api.edits import Edit, Permitted, Signed, changed
from api.inputs import Choice, Fields, Said, Strict, Whole, Word
from api.openapi.describe import DryRunOut
from headroom_edge.algorithms.base import counted
from headroom_edge.keys import OWN_TENANT
from quotas.changes.commit import LARGE_EDIT
from quotas.errors import refuse
from quotas.tenant_list import LONGEST_SEARCH, STATES, TenantFilter, tenants_found
from quotas.tenants.fields import TAG
from tenants.models import WORD

T = TypeVar("T")
MATCHED = "How many are listed, or match `where`."


def tiers_field() -> Word:
    return Word(f"{WORD}(,{WORD})*", required=False, max_length=1_000, help_text="One, or several separated by commas.")


class TenantsWhere(Strict):
    """The filter of `GET /v1/tenants`: at least one condition, and all that are given must hold.

    Archived tenants and Headroom's own never match.
    """

    search = Said(
        required=False, max_length=LONGEST_SEARCH, help_text="Part of the name, the label, a tag or a contact."
    )
    tier = tiers_field()
    tag = Word(TAG, required=False)
    state = Choice(choices=[state for state in STATES if state != "archived"], required=False)

    rules = {"minProperties": 1}


class ManyDryRunOut(DryRunOut):
    matched_count = serializers.IntegerField(help_text=MATCHED)


def count_field(most: int) -> Whole:
    return Whole(
        required=False,
        min_value=0,
        max_value=most,
        help_text="With `where`: how many a dry run matched (`matched_count`). Refused if more or fewer match now.",
    )


def listed_or_matched(field: str) -> dict[str, Any]:
    """JSON Schema: either this list, or `where`."""
    return {"oneOf": [{"required": [field]}, {"required": ["where"]}]}


Found = Callable[[Request, Fields], QuerySet[Any, Any]]


@dataclass(frozen=True, slots=True)
class Chooser:
    field: str  # that lists them
    kind: str  # in words: tenant
    most: int
    found: Found  # what matches a filter, as the list has it

    def resolve(self, request: Request, fields: Fields) -> Fields:
        """What matches `where`, in place of it."""
        where, count = fields.pop("where", None), fields.pop("count", None)
        if (where is None) == (self.field not in fields):
            message = f"say which {self.kind}s: either list them in {self.field}, or give where with a filter"
            raise refuse(self.field, "either", message)
        return fields if where is None else fields | {self.field: self._matched(request, where, count)}

    def _matched(self, request: Request, where: Fields, count: int | None) -> Sequence[object]:
        if not where:
            message = f"where is empty and would mean all {self.kind}s; give at least one condition"
            raise refuse("where", "missing", message)
        if "search" in where and not where["search"].strip():
            raise refuse("where.search", "blank", "where.search is blank; write a part of the name, or leave it out")
        found = list(self.found(request, where)[: self.most + 1])
        if not found:
            raise refuse("where", "unknown", f"no {self.kind} matches where; change its conditions")
        if len(found) > self.most:
            message = f"more than {self.most:,} {self.kind}s match where; narrow its conditions"
            raise refuse("where", "too-many", message)
        if count is not None and count != len(found):
            they = counted(len(found), f"{self.kind} matches", f"{self.kind}s match")
            raise refuse("count", "differs", f"{they} where, not {count:,}; look at a dry run again")
        return found


def change_many(
    request: Request,
    call: Callable[..., T],
    who: Signed | Permitted,
    show: Callable[[T], dict[str, Any]],
    count: int,
    more: Callable[[], dict[str, Any]] = dict,
) -> Response:
    """`count`: how many are changed. `more`: further fields of a dry run."""

    def told() -> dict[str, Any]:
        return {"matched_count": count, **more()}

    return changed(request, Edit(call, who, show, more=told, is_large=count > LARGE_EDIT))


def tenants_matched(request: Request, where: Fields) -> QuerySet[Any, Any]:
    """Their names."""
    tiers = where["tier"].split(",") if "tier" in where else ()
    wanted = TenantFilter(where.get("search", "").strip(), tiers, where.get("state", ""), where.get("tag", ""))
    found = tenants_found(tenants_of(request), wanted, timezone.now(), by_staff=True).exclude(name=OWN_TENANT)
    return found.order_by("name").values_list("name", flat=True)
