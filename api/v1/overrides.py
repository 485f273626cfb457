from __future__ import annotations

from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import narrowed
from access.downloads import csv_download
from api.csv import CsvRenderer, exports
from api.edits import Edit, Guarded, changed, created, permitted
from api.inputs import Choice, Fields, LimitPatchesField, Moment, Query, Strict, Text, Whole, Word, body, query
from api.openapi.describe import changes, creates, lists, reads
from api.pagination import PageQuery, order_field, search_field, sorted_list
from api.preconditions import shown
from headroom_edge.algorithms.base import DURATION_PATTERN
from quotas.errors import span_of
from quotas.keyset import every_row
from quotas.models import Override
from quotas.models.policy import MULTIPLIER_MAX
from quotas.override_edits import override_update, overrides_extend
from quotas.override_list import ORDERS, OVERRIDE_COLUMNS, STATES, OverrideFilter, override_cells, overrides_found
from quotas.overrides import override_cancel, override_create, override_state
from quotas.policies.endpoint import LONGEST_NAME
from quotas.policies.spec import CARRIES, ENDPOINT_PART
from tenants.models import TENANT_NAME, WORD


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


class OverridePatch(Guarded):
    """What is not given stays as it is. `end` null: until it is cancelled."""

    end = Moment(required=False, allow_null=True)
    limits = LimitPatchesField(required=False)
    multiplier = Multiplier(required=False, allow_null=True)

    rules = {
        "anyOf": [{"properties": {"limits": {"maxProperties": 0}}}, {"properties": {"multiplier": {"type": "null"}}}]
    }


class Extension(Guarded):
    """Either `by`, for how much longer, or `until`, a time."""

    by = Word(DURATION_PATTERN, required=False, help_text="Such as `24h`.")
    until = Moment(required=False)

    rules = {"oneOf": [{"required": ["by"]}, {"required": ["until"]}]}


class OverridesAsked(Query):
    tenant = serializers.CharField(required=False, max_length=63)
    tier = serializers.RegexField(
        rf"^{WORD}(,{WORD})*$", required=False, max_length=1_000, help_text="One, or several separated by commas."
    )
    endpoint = serializers.CharField(required=False, max_length=128)
    state = serializers.ChoiceField(choices=list(STATES), required=False, help_text="By default all.")
    order = order_field(*ORDERS, default="-created")
    search = search_field("the tenant, the endpoint, the reason or the author")


class OverrideQuery(PageQuery, OverridesAsked):
    pass


class OverrideList(APIView):
    @lists(OverrideQuery, OverrideOut)
    def get(self, request: Request) -> Response:
        """Upcoming, active and ended overrides."""
        found = found_overrides(request, query(OverrideQuery, request))
        return sorted_list(request, OverrideQuery, found, ORDERS, OverrideOut)

    @creates(NewOverride, OverrideOut)
    def post(self, request: Request) -> Response:
        """Raises or lowers one tenant's limits from a start to an end. It starts and ends by itself, to the second."""
        fields = override_fields(body(NewOverride, request))
        who = permitted(request, fields)
        edit = Edit(partial(override_create, **fields), who, lambda row: _override(request, row.pk))
        return created(request, edit, where=lambda row: reverse("v1:override", args=[row.pk]))


class OverridesCsv(APIView):
    renderer_classes = [JSONRenderer, CsvRenderer]

    @exports(OverridesAsked, OVERRIDE_COLUMNS)
    def get(self, request: Request) -> StreamingHttpResponse:
        """The same list as CSV, as a whole. Cells that look like a formula begin with an apostrophe."""
        asked, now = query(OverridesAsked, request), timezone.now()
        rows = every_row(found_overrides(request, asked), ORDERS, asked["order"])
        lines = (override_cells(row, now) for row in rows)
        return csv_download(request._request, "overrides.csv", OVERRIDE_COLUMNS, lines)


class OverrideDetail(APIView):
    @reads(OverrideOut)
    def get(self, request: Request, number: int) -> Response:
        """One override and its current state."""
        return shown(request, _override(request, number))

    @changes(OverridePatch, OverrideOut, needs_match=True)
    def patch(self, request: Request, number: int) -> Response:
        """Changes an override that has not ended. Other values end it and begin another one, which is returned."""
        fields = override_fields(body(OverridePatch, request))
        who = permitted(request, fields)
        if "end" in fields and fields["end"] is None:
            fields["is_endless"] = True
        edit = Edit(
            partial(override_update, override=number, **fields),
            who,
            lambda row: _override(request, row.pk),
            lambda: _override(request, number),
        )
        return changed(request, edit)


class OverrideExtend(APIView):
    @changes(Extension, OverrideOut)
    def post(self, request: Request, number: int) -> Response:
        """Moves an override's end. Its values and its number stay."""

        def present(_: object = None) -> dict[str, Any]:
            return _override(request, number)

        fields = body(Extension, request)
        who = permitted(request, fields)
        call = partial(overrides_extend, overrides=[number], **extension(fields))
        return changed(request, Edit(call, who, present, present))


class OverrideCancel(APIView):
    @changes(Guarded, OverrideOut)
    def post(self, request: Request, number: int) -> Response:
        """Cancels an override. The tenant's usual limits apply again at once."""

        def present(_: object = None) -> dict[str, Any]:
            return _override(request, number)

        who = permitted(request, body(Guarded, request))
        return changed(request, Edit(partial(override_cancel, override=number), who, present, present))


def override_fields(fields: Fields) -> Fields:
    """The fields as arguments of the functions in quotas.overrides."""
    multiplier = fields.pop("multiplier", None)
    return fields | {"multiplier": (multiplier["numerator"], multiplier["denominator"]) if multiplier else None}


def extension(fields: Fields) -> Fields:
    by = fields.pop("by", None)
    return fields | ({"by": span_of("by", by)} if by else {})


def found_overrides(request: Request, asked: Fields, state: str = "any") -> QuerySet[Override]:
    """`state`: unless another is asked for."""
    wanted = OverrideFilter(
        asked.get("search", "").strip(),
        asked.get("state", state),
        asked.get("tenant", ""),
        asked["tier"].split(",") if "tier" in asked else (),
        asked.get("endpoint", ""),
    )
    return overrides_found(_rows(request), wanted, timezone.now())


def _rows(request: Request) -> QuerySet[Override]:
    return narrowed(request, Override.objects.select_related("tenant", "endpoint"), "tenant")


def _override(request: Request, number: int) -> dict[str, Any]:
    return OverrideOut(get_object_or_404(_rows(request), pk=number)).data
