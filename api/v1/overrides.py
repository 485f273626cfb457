from __future__ import annotations

from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import narrowed
from api.edits import Edit, Guarded, changed, created, permitted
from api.inputs import Choice, Fields, LimitPatchesField, Moment, Strict, Text, Whole, Word, body, query
from api.openapi.describe import changes, creates, lists, reads
from api.pagination import PageQuery, listed, order_field
from api.preconditions import shown
from quotas.models import Override
from quotas.models.policy import MULTIPLIER_MAX
from quotas.overrides import STATES, override_cancel, override_create, override_state, overrides_in
from quotas.policies.endpoint import LONGEST_NAME
from quotas.policies.spec import CARRIES, ENDPOINT_PART
from tenants.models import TENANT_NAME


class MultiplierOut(serializers.Serializer[Any]):
    numerator = serializers.IntegerField(source="multiplier_numerator")
    denominator = serializers.IntegerField(source="multiplier_denominator")


class OverrideOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    tenant = serializers.CharField(source="tenant.name")
    endpoint = serializers.CharField(source="scope")
    state = serializers.SerializerMethodField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(allow_null=True, help_text="null: until it is cancelled.")
    cancelled_at = serializers.DateTimeField(allow_null=True)
    limits = LimitPatchesField(help_text="The changed fields of each limit, by its name.")
    multiplier = serializers.SerializerMethodField(help_text="A fraction that every limit is multiplied by.")
    carry = serializers.ChoiceField(choices=CARRIES)
    author = serializers.CharField()
    reason = serializers.CharField()
    revision = serializers.IntegerField(source="created_revision_id")

    def get_state(self, row: Override) -> str:
        return override_state(row, timezone.now())

    @extend_schema_field(MultiplierOut(allow_null=True))
    def get_multiplier(self, row: Override) -> dict[str, int] | None:
        return MultiplierOut(row).data if row.multiplier_numerator else None


class Multiplier(Strict):
    numerator = Whole(min_value=1, max_value=MULTIPLIER_MAX)
    denominator = Whole(min_value=1, max_value=MULTIPLIER_MAX, default=1)


class EndpointOrAll(Text):
    stated = {"pattern": rf"^(\*|{ENDPOINT_PART}:{ENDPOINT_PART})$"}


class NewOverride(Guarded):
    """Either `limits`, with other values for limits by name, or `multiplier`, a fraction for all of them."""

    tenant = Word(TENANT_NAME)
    endpoint = EndpointOrAll(max_length=LONGEST_NAME, default="*")
    start = Moment(required=False, allow_null=True, help_text="Default: now.")
    end = Moment(required=False, allow_null=True, help_text="Default: until it is cancelled.")
    limits = LimitPatchesField(required=False)
    multiplier = Multiplier(required=False, allow_null=True)
    carry = Choice(choices=CARRIES, default="keep")

    rules = {
        "oneOf": [
            {
                "properties": {"limits": {"minProperties": 1}, "multiplier": {"type": "null"}},
                "required": ["limits"],
            },
            {
                "properties": {"limits": {"maxProperties": 0}, "multiplier": {"type": "object"}},
                "required": ["multiplier"],
            },
        ]
    }


class OverrideQuery(PageQuery):
    tenant = serializers.CharField(required=False, max_length=63)
    endpoint = serializers.CharField(required=False, max_length=128)
    state = serializers.ChoiceField(choices=STATES, required=False)
    order = order_field("created", default="-created")

    orders = {"created": "id"}
    lookups = {"tenant": "tenant__name", "endpoint": "endpoint__name"}


class OverrideList(APIView):
    @lists(OverrideQuery, OverrideOut)
    def get(self, request: Request) -> Response:
        """Upcoming, active and ended overrides."""
        state = query(OverrideQuery, request).get("state")
        rows = _rows(request)
        return listed(
            request, OverrideQuery, rows.filter(overrides_in(state, timezone.now())) if state else rows, OverrideOut
        )

    @creates(NewOverride, OverrideOut)
    def post(self, request: Request) -> Response:
        """Raises or lowers one tenant's limits from a start to an end. It starts and ends by itself, to the second."""
        fields = _fields(body(NewOverride, request))
        who = permitted(request, fields)
        edit = Edit(partial(override_create, **fields), who, lambda row: _override(request, row.pk))
        return created(request, edit, where=lambda row: reverse("v1:override", args=[row.pk]))


class OverrideDetail(APIView):
    @reads(OverrideOut)
    def get(self, request: Request, number: int) -> Response:
        """One override and its current state."""
        return shown(request, _override(request, number))


class OverrideCancel(APIView):
    @changes(Guarded, OverrideOut)
    def post(self, request: Request, number: int) -> Response:
        """Cancels an override. The tenant's usual limits apply again at once."""

        def present(_: object = None) -> dict[str, Any]:
            return _override(request, number)

        who = permitted(request, body(Guarded, request))
        return changed(request, Edit(partial(override_cancel, override=number), who, present, present))


def _fields(fields: Fields) -> Fields:
    """The fields as arguments of override_create."""
    multiplier = fields.pop("multiplier", None)
    return fields | {"multiplier": (multiplier["numerator"], multiplier["denominator"]) if multiplier else None}


def _rows(request: Request) -> QuerySet[Override]:
    return narrowed(request, Override.objects.select_related("tenant", "endpoint"), "tenant")


def _override(request: Request, number: int) -> dict[str, Any]:
    return OverrideOut(get_object_or_404(_rows(request), pk=number)).data
