"""Many overrides at once: given, extended or cancelled in one revision, or not at all."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Guarded, permitted
from api.inputs import Choice, Fields, LimitPatchesField, Moment, Said, Strict, Whole, Word, body
from api.openapi.describe import changes
from api.v1.chosen import (
    Chooser,
    ManyDryRunOut,
    TenantsWhere,
    change_many,
    count_field,
    listed_or_matched,
    tenants_matched,
    tiers_field,
)
from api.v1.overrides import (
    EndpointOrAll,
    Extension,
    Multiplier,
    NewOverride,
    extension,
    found_overrides,
    override_fields,
)
from quotas.models import Override, Revision
from quotas.override_edits import overrides_extend
from quotas.override_list import STATES
from quotas.overrides import ENDED, MOST_AT_ONCE, OverrideChange, overrides_cancel, overrides_create
from quotas.policies.endpoint import LONGEST_NAME
from quotas.policies.spec import CARRIES
from quotas.tenant_list import LONGEST_SEARCH
from tenants.models import TENANT_NAME


class OverridesWhere(Strict):
    """The filter of `GET /v1/overrides`: at least one condition, and all that are given must hold.

    Overrides that have ended never match.
    """

    search = Said(
        required=False,
        max_length=LONGEST_SEARCH,
        help_text="Part of the tenant, endpoint, reason or author.",
    )
    tenant = Word(TENANT_NAME, required=False)
    tier = tiers_field()
    endpoint = EndpointOrAll(max_length=LONGEST_NAME, required=False)
    state = Choice(choices=[state for state in STATES if state != ENDED], required=False)

    rules = {"minProperties": 1}


def _matched(request: Request, where: Fields) -> QuerySet[Any, Any]:
    """Their numbers."""
    return found_overrides(request, where, "current").order_by("pk").values_list("pk", flat=True)


_TENANTS: Final = Chooser("tenants", "tenant", MOST_AT_ONCE, tenants_matched)
_OVERRIDES: Final = Chooser("overrides", "override", MOST_AT_ONCE, _matched)


class GiveMany(Guarded):
    """The same override for each tenant: either `limits`, by name, or `multiplier`, a fraction for all of them.

    Which tenants: either `tenants`, their names, or `where`, a filter.
    """

    tenants = serializers.ListField(child=Word(TENANT_NAME), min_length=1, max_length=MOST_AT_ONCE, required=False)
    where = TenantsWhere(required=False)
    count = count_field(MOST_AT_ONCE)
    endpoint = EndpointOrAll(max_length=LONGEST_NAME, default="*")
    start = Moment(required=False, allow_null=True, help_text="Default: now.")
    end = Moment(required=False, allow_null=True, help_text="Default: until it is cancelled.")
    limits = LimitPatchesField(required=False)
    multiplier = Multiplier(required=False, allow_null=True)
    carry = Choice(choices=CARRIES, default="keep")

    rules = {"allOf": [NewOverride.rules, listed_or_matched("tenants")]}


class ChosenOverrides(Strict):
    """Which overrides: either `overrides`, their ids, or `where`, a filter."""

    overrides = serializers.ListField(
        child=Whole(min_value=1, max_value=2**31 - 1), min_length=1, max_length=MOST_AT_ONCE, required=False
    )
    where = OverridesWhere(required=False)
    count = count_field(MOST_AT_ONCE)

    rules: ClassVar[dict[str, Any]] = listed_or_matched("overrides")


class ExtendMany(Extension, ChosenOverrides):
    """Which overrides: either `overrides`, their ids, or `where`, a filter. Then either `by`, or `until`, a time."""

    rules = {"allOf": [Extension.rules, ChosenOverrides.rules]}


class CancelMany(Guarded, ChosenOverrides):
    rules = ChosenOverrides.rules


class GivenOut(serializers.Serializer[Any]):
    overrides = serializers.ListField(child=serializers.IntegerField(), help_text="Their ids, in the order of tenants.")


class OverridesChangedOut(serializers.Serializer[Any]):
    revision = serializers.IntegerField(allow_null=True, help_text="null: no changes.")


class OverridesGive(APIView):
    @changes(GiveMany, GivenOut, dry=ManyDryRunOut)
    def post(self, request: Request) -> Response:
        """Gives many tenants the same override, in one revision."""
        fields = override_fields(_TENANTS.resolve(request, body(GiveMany, request)))
        who = permitted(request, fields)
        tenants, carry = fields.pop("tenants"), fields.pop("carry")
        call = partial(overrides_create, tenants=tenants, change=OverrideChange(**fields), carry=carry)
        return change_many(request, call, who, _given, len(tenants))


class OverridesExtend(APIView):
    @changes(ExtendMany, OverridesChangedOut, dry=ManyDryRunOut)
    def post(self, request: Request) -> Response:
        """Moves the ends of many overrides, in one revision."""
        fields = _OVERRIDES.resolve(request, body(ExtendMany, request))
        who = permitted(request, fields)
        return change_many(
            request, partial(overrides_extend, **extension(fields)), who, _shown, len(fields["overrides"])
        )


class OverridesCancel(APIView):
    @changes(CancelMany, OverridesChangedOut, dry=ManyDryRunOut)
    def post(self, request: Request) -> Response:
        """Cancels many overrides, in one revision. The tenants' usual limits apply again at once."""
        fields = _OVERRIDES.resolve(request, body(CancelMany, request))
        who = permitted(request, fields)
        return change_many(request, partial(overrides_cancel, **fields), who, _shown, len(fields["overrides"]))


def _given(rows: list[Override]) -> dict[str, Any]:
    return {"overrides": [row.pk for row in rows]}


def _shown(revision: Revision | None) -> dict[str, Any]:
    return {"revision": revision.number if revision else None}
