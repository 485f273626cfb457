"""Many tenants at once: moved, suspended, resumed or tagged in one revision, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Guarded, permitted, signed
from api.inputs import Choice, Reasoned, Strict, Word, body
from api.openapi.describe import changes
from api.v1.chosen import (
    MATCHED,
    Chooser,
    ManyDryRunOut,
    TenantsWhere,
    change_many,
    count_field,
    listed_or_matched,
    tenants_matched,
)
from api.v1.tenant_moves import MoveDryRunOut, moves_shown, stranded_choice
from quotas import tenants as services
from quotas.models import Revision
from quotas.policies.spec import CARRIES
from quotas.tenants.fields import MOST_TAGS, TAG
from quotas.tenants.many import MOST_AT_ONCE
from tenants.models import TENANT_NAME, WORD

_TENANTS: Final = Chooser("names", "tenant", MOST_AT_ONCE, tenants_matched)


class Chosen(Strict):
    """Which tenants: either `names`, or `where`, a filter."""

    names = serializers.ListField(child=Word(TENANT_NAME), min_length=1, max_length=MOST_AT_ONCE, required=False)
    where = TenantsWhere(required=False)
    count = count_field(MOST_AT_ONCE)

    rules: ClassVar[dict[str, Any]] = listed_or_matched("names")


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


class MovesDryRunOut(MoveDryRunOut):
    matched_count = serializers.IntegerField(help_text=MATCHED)


class ManyOut(serializers.Serializer[Any]):
    revision = serializers.IntegerField(allow_null=True, help_text="null: no changes.")


class TenantsMove(APIView):
    @changes(MoveMany, ManyOut, dry=MovesDryRunOut)
    def post(self, request: Request) -> Response:
        """Moves many tenants to another tier, in one revision. A dry run tells who gets tighter."""
        fields = _TENANTS.resolve(request, body(MoveMany, request))
        who = permitted(request, fields)
        preview = partial(moves_shown, fields["names"], fields["tier"], fields["stranded_overrides"])
        call = partial(services.tenants_move, **fields)
        return change_many(request, call, who, _shown, len(fields["names"]), preview)


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
        fields = _TENANTS.resolve(request, body(TagMany, request))
        who = signed(request, fields)
        return change_many(request, partial(services.tenants_tag, **fields), who, _shown, len(fields["names"]))


def _switch(request: Request, service: Callable[..., Revision | None]) -> Response:
    fields = _TENANTS.resolve(request, body(NamedTenants, request))
    who = signed(request, fields)
    return change_many(request, partial(service, **fields), who, _shown, len(fields["names"]))


def _shown(revision: Revision | None) -> dict[str, Any]:
    return {"revision": revision.number if revision else None}
