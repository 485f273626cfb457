"""Many tenants at once: moved, suspended, resumed or tagged in one revision, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import tenants_of
from api.edits import Edit, Guarded, Permitted, Signed, changed, permitted, signed
from api.inputs import Choice, Fields, Reasoned, Strict, Text, Whole, Word, body
from api.openapi import patterns
from api.openapi.describe import DryRunOut, changes
from api.v1.tenant_moves import MoveDryRunOut, moves_shown, stranded_choice
from headroom_edge.keys import OWN_TENANT
from quotas import tenants as services
from quotas.changes.commit import LARGE_EDIT
from quotas.errors import refuse
from quotas.models import Revision
from quotas.policies.spec import CARRIES
from quotas.tenant_list import LONGEST_SEARCH, STATES, TenantFilter, tenants_found
from quotas.tenants.fields import MOST_TAGS, TAG
from quotas.tenants.many import MOST_AT_ONCE
from tenants.models import TENANT_NAME, WORD


class SearchText(Text):
    stated = {"pattern": patterns.SAID}


class TenantsWhere(Strict):
    """The filter of `GET /v1/tenants`: at least one condition, and all that are given must hold.

    Archived tenants and Headroom's own never match.
    """

    search = SearchText(
        required=False, max_length=LONGEST_SEARCH, help_text="Part of the name, the label, a tag or a contact."
    )
    tier = Word(f"{WORD}(,{WORD})*", required=False, max_length=1_000, help_text="One, or several separated by commas.")
    tag = Word(TAG, required=False)
    state = Choice(choices=[state for state in STATES if state != "archived"], required=False)

    rules = {"minProperties": 1}


class Chosen(Strict):
    """Which tenants: either `names`, or `where`, a filter."""

    names = serializers.ListField(child=Word(TENANT_NAME), min_length=1, max_length=MOST_AT_ONCE, required=False)
    where = TenantsWhere(required=False)
    count = Whole(
        required=False,
        min_value=0,
        max_value=MOST_AT_ONCE,
        help_text="With `where`: how many a dry run matched (`matched_count`). Refused if more or fewer match now.",
    )

    rules: ClassVar[dict[str, Any]] = {"oneOf": [{"required": ["names"]}, {"required": ["where"]}]}


class NamedTenants(Reasoned, Chosen):
    pass


class MoveMany(Guarded, Chosen):
    tier = Word(WORD)
    carry = Choice(choices=CARRIES, default="keep", help_text="What happens to current usage.")
    stranded_overrides = stranded_choice()


class TagMany(NamedTenants):
    add = serializers.ListField(child=Word(TAG), max_length=MOST_TAGS, default=list)
    remove = serializers.ListField(child=Word(TAG), max_length=MOST_TAGS, default=list)

    rules = {
        **Chosen.rules,
        "anyOf": [{"properties": {name: {"minItems": 1}}, "required": [name]} for name in ("add", "remove")],
    }


class ManyDryRunOut(DryRunOut):
    matched_count = serializers.IntegerField(help_text="Tenants that are named, or that match `where`.")


class MovesDryRunOut(MoveDryRunOut):
    matched_count = serializers.IntegerField(help_text="Tenants that are named, or that match `where`.")


class ManyOut(serializers.Serializer[Any]):
    revision = serializers.IntegerField(allow_null=True, help_text="null: no changes.")


class TenantsMove(APIView):
    @changes(MoveMany, ManyOut, dry=MovesDryRunOut)
    def post(self, request: Request) -> Response:
        """Moves many tenants to another tier, in one revision. A dry run tells who gets tighter."""
        fields = _with_names(request, body(MoveMany, request))
        who = permitted(request, fields)
        preview = partial(moves_shown, fields["names"], fields["tier"], fields["stranded_overrides"])
        return _change(request, partial(services.tenants_move, **fields), who, len(fields["names"]), preview)


class TenantsSuspend(APIView):
    @changes(NamedTenants, ManyOut, dry=ManyDryRunOut)
    def post(self, request: Request) -> Response:
        """Suspends many tenants. Those that are suspended already keep their reason."""
        return _switch(request, services.tenants_suspend)


class TenantsResume(APIView):
    @changes(NamedTenants, ManyOut, dry=ManyDryRunOut)
    def post(self, request: Request) -> Response:
        """Ends the suspensions of many tenants."""
        return _switch(request, services.tenants_resume)


class TenantsTag(APIView):
    @changes(TagMany, ManyOut, dry=ManyDryRunOut)
    def post(self, request: Request) -> Response:
        """Adds tags to many tenants, and removes tags from them."""
        fields = _with_names(request, body(TagMany, request))
        who = signed(request, fields)
        return _change(request, partial(services.tenants_tag, **fields), who, len(fields["names"]))


def _switch(request: Request, service: Callable[..., Revision | None]) -> Response:
    fields = _with_names(request, body(NamedTenants, request))
    who = signed(request, fields)
    return _change(request, partial(service, **fields), who, len(fields["names"]))


def _with_names(request: Request, fields: Fields) -> Fields:
    """The names of those that match `where`, in place of it."""
    where, count = fields.pop("where", None), fields.pop("count", None)
    if (where is None) == ("names" not in fields):
        raise refuse("names", "either", "say which tenants: either their names, or where with a filter")
    if where is None:
        return fields
    if not where:
        raise refuse("where", "missing", "where is empty and would mean all tenants; give at least one condition")
    search = where.get("search", "").strip()
    if "search" in where and not search:
        raise refuse("where.search", "blank", "where.search is blank; write a part of the name, or leave it out")
    tiers = where["tier"].split(",") if "tier" in where else ()
    wanted = TenantFilter(search, tiers, where.get("state", ""), where.get("tag", ""))
    found = tenants_found(tenants_of(request), wanted, timezone.now(), by_staff=True).exclude(name=OWN_TENANT)
    names = list(found.order_by("name").values_list("name", flat=True)[: MOST_AT_ONCE + 1])
    if not names:
        raise refuse("where", "unknown", "no tenant matches where; change its conditions")
    if len(names) > MOST_AT_ONCE:
        raise refuse("where", "too-many", f"more than {MOST_AT_ONCE:,} tenants match where; narrow its conditions")
    if count is not None and count != len(names):
        raise refuse("count", "differs", f"{len(names):,} tenants match where, not {count:,}; look at a dry run again")
    return fields | {"names": names}


def _change(
    request: Request,
    call: Callable[..., Revision | None],
    who: Signed | Permitted,
    count: int,
    more: Callable[[], dict[str, Any]] | None = None,
) -> Response:
    def told() -> dict[str, Any]:
        return {"matched_count": count, **(more() if more else {})}

    return changed(request, Edit(call, who, _shown, more=told, is_large=count > LARGE_EDIT))


def _shown(revision: Revision | None) -> dict[str, Any]:
    return {"revision": revision.number if revision else None}
