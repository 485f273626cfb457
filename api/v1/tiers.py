from __future__ import annotations

from functools import partial
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Edit, Guarded, GuardedRemovalQuery, changed, created, permitted, signed
from api.inputs import HIGHEST, Choice, HighestPriority, Line, Reasoned, Word, body, query
from api.openapi.describe import changes, creates, lists, reads, removes
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from api.v1.tenant_moves import stranded_choice
from quotas.policies.spec import CARRIES
from quotas.policies.tier import LONGEST_DESCRIPTION, LONGEST_LABEL
from quotas.tenants import tier_create, tier_duplicate, tier_retire, tier_update
from quotas.tenants.many import MOST_AT_ONCE
from tenants.models import TENANT_NAME, WORD, Tier


class TierOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    description = serializers.CharField()
    priority = serializers.CharField(help_text=HIGHEST)
    created = serializers.DateTimeField()


class TierChange(Reasoned):
    label = Line(max_length=LONGEST_LABEL, allow_blank=True, required=False)  # type: ignore[assignment]
    description = Line(max_length=LONGEST_DESCRIPTION, allow_blank=True, required=False)
    priority = HighestPriority(required=False)


class NewTier(TierChange):
    name = Word(WORD)


@extend_schema_field(
    {
        "type": "object",
        "propertyNames": {"pattern": f"^{TENANT_NAME}$"},
        "additionalProperties": {"type": "string", "pattern": f"^{WORD}$"},
        "maxProperties": MOST_AT_ONCE,
    }
)
class PlacesField(serializers.DictField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=Word(WORD), **kwargs)


class Retirement(Guarded):
    to = Word(WORD, required=False, help_text="The tier of all its tenants that `tenants` does not name.")
    tenants = PlacesField(required=False, help_text="Tenant → its tier.")
    carry = Choice(choices=CARRIES, default="keep", help_text="What happens to current usage.")
    stranded_overrides = stranded_choice("leave_out")


class TierQuery(PageQuery):
    order = order_field("name", "created")
    search = search_field("the name or label")

    orders = {"name": "name", "created": "number"}
    searched = ("name", "label")


class TierList(APIView):
    @lists(TierQuery, TierOut)
    def get(self, request: Request) -> Response:
        """All tiers, by name. Retired ones are left out."""
        return listed(request, TierQuery, Tier.objects.filter(retired=False), TierOut)

    @creates(NewTier, TierOut)
    def post(self, request: Request) -> Response:
        """Creates a tier. Add tenants and policies to it afterwards. A retired tier comes back with its number."""
        fields = body(NewTier, request)
        who = signed(request, fields)
        edit = Edit(partial(tier_create, **fields), who, lambda row: _tier(row.name))
        return created(request, edit, where=lambda row: reverse("v1:tier", args=[row.name]))


class TierDetail(APIView):
    @reads(TierOut)
    def get(self, request: Request, name: str) -> Response:
        """One tier."""
        return shown(request, _tier(name))

    @changes(TierChange, TierOut, needs_match=True)
    def patch(self, request: Request, name: str) -> Response:
        """Changes a tier's label, description or priority."""
        fields = body(TierChange, request)
        who = signed(request, fields)
        update = partial(tier_update, name=name, **fields)
        return changed(request, Edit(update, who, lambda _: _tier(name), lambda: _tier(name)))

    @removes(GuardedRemovalQuery)
    def delete(self, request: Request, name: str) -> Response:
        """Retires a tier without tenants. Use `retire` to move its tenants in the same revision."""
        asked = query(GuardedRemovalQuery, request)
        who = permitted(request, asked)
        edit = Edit(partial(tier_retire, name=name), who, lambda _: {}, lambda: _tier(name))
        return changed(request, edit, asked)


class TierDuplicate(APIView):
    @creates(NewTier, TierOut)
    def post(self, request: Request, name: str) -> Response:
        """Creates a tier with the same limits, under policies of its own. It has no tenants."""
        fields = body(NewTier, request)
        who = signed(request, fields)
        edit = Edit(
            partial(tier_duplicate, source=name, **fields), who, lambda row: _tier(row.name), lambda: _tier(name)
        )
        return created(request, edit, where=lambda row: reverse("v1:tier", args=[row.name]))


class RetiredOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    retired = serializers.BooleanField()


class TierRetire(APIView):
    @changes(Retirement, RetiredOut)
    def post(self, request: Request, name: str) -> Response:
        """Moves the tier's tenants, deletes its limits and retires it, in one revision."""
        fields = body(Retirement, request)
        who = permitted(request, fields)
        places = fields.pop("tenants", {})
        retire = partial(tier_retire, name=name, places=places, **fields)
        edit = Edit(retire, who, lambda _: {"name": name, "retired": True}, lambda: _tier(name), is_large=True)
        return changed(request, edit)


def _tier(name: str) -> dict[str, Any]:
    return TierOut(get_object_or_404(Tier, name=name, retired=False)).data
