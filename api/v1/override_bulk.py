"""Many overrides at once: given, extended or cancelled in one revision, or not at all."""

from __future__ import annotations

from functools import partial
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Edit, Guarded, changed, permitted
from api.inputs import Choice, LimitPatchesField, Moment, Whole, Word, body
from api.openapi.describe import changes
from api.v1.overrides import EndpointOrAll, Extension, Multiplier, NewOverride, extension, override_fields
from quotas.changes.commit import LARGE_EDIT
from quotas.models import Override, Revision
from quotas.override_edits import overrides_extend
from quotas.overrides import MOST_AT_ONCE, OverrideChange, overrides_cancel, overrides_create
from quotas.policies.endpoint import LONGEST_NAME
from quotas.policies.spec import CARRIES
from tenants.models import TENANT_NAME


def _numbers() -> serializers.ListField:
    return serializers.ListField(child=Whole(min_value=1, max_value=2**31 - 1), min_length=1, max_length=MOST_AT_ONCE)


class GiveMany(Guarded):
    """The same override for each tenant: either `limits`, by name, or `multiplier`, a fraction for all of them."""

    tenants = serializers.ListField(child=Word(TENANT_NAME), min_length=1, max_length=MOST_AT_ONCE)
    endpoint = EndpointOrAll(max_length=LONGEST_NAME, default="*")
    start = Moment(required=False, allow_null=True, help_text="Default: now.")
    end = Moment(required=False, allow_null=True, help_text="Default: until it is cancelled.")
    limits = LimitPatchesField(required=False)
    multiplier = Multiplier(required=False, allow_null=True)
    carry = Choice(choices=CARRIES, default="keep")

    rules = NewOverride.rules


class ExtendMany(Extension):
    overrides = _numbers()


class CancelMany(Guarded):
    overrides = _numbers()


class GivenOut(serializers.Serializer[Any]):
    overrides = serializers.ListField(child=serializers.IntegerField(), help_text="Their ids, in the order of tenants.")


class OverridesChangedOut(serializers.Serializer[Any]):
    revision = serializers.IntegerField(allow_null=True, help_text="null: no changes.")


class OverridesGive(APIView):
    @changes(GiveMany, GivenOut)
    def post(self, request: Request) -> Response:
        """Gives many tenants the same override, in one revision."""
        fields = override_fields(body(GiveMany, request))
        who = permitted(request, fields)
        tenants, carry = fields.pop("tenants"), fields.pop("carry")
        call = partial(overrides_create, tenants=tenants, change=OverrideChange(**fields), carry=carry)
        return changed(request, Edit(call, who, _given, is_large=len(tenants) > LARGE_EDIT))


class OverridesExtend(APIView):
    @changes(ExtendMany, OverridesChangedOut)
    def post(self, request: Request) -> Response:
        """Moves the ends of many overrides, in one revision."""
        fields = body(ExtendMany, request)
        who = permitted(request, fields)
        is_large = len(fields["overrides"]) > LARGE_EDIT
        return changed(request, Edit(partial(overrides_extend, **extension(fields)), who, _shown, is_large=is_large))


class OverridesCancel(APIView):
    @changes(CancelMany, OverridesChangedOut)
    def post(self, request: Request) -> Response:
        """Cancels many overrides, in one revision. The tenants' usual limits apply again at once."""
        fields = body(CancelMany, request)
        who = permitted(request, fields)
        is_large = len(fields["overrides"]) > LARGE_EDIT
        return changed(request, Edit(partial(overrides_cancel, **fields), who, _shown, is_large=is_large))


def _given(rows: list[Override]) -> dict[str, Any]:
    return {"overrides": [row.pk for row in rows]}


def _shown(revision: Revision | None) -> dict[str, Any]:
    return {"revision": revision.number if revision else None}
