from __future__ import annotations

from functools import partial
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Edit, created, signed
from api.inputs import Reasoned, Word, body
from api.openapi.describe import creates, lists, reads
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from quotas.tenants import tier_create
from tenants.models import WORD, Tier


class TierOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    created = serializers.DateTimeField()


class NewTier(Reasoned):
    name = Word(WORD)


class TierQuery(PageQuery):
    order = order_field("name", "created")
    search = search_field("the name")

    orders = {"name": "name", "created": "number"}
    searched = ("name",)


class TierList(APIView):
    @lists(TierQuery, TierOut)
    def get(self, request: Request) -> Response:
        """All tiers, by name."""
        return listed(request, TierQuery, Tier.objects.all(), TierOut)

    @creates(NewTier, TierOut)
    def post(self, request: Request) -> Response:
        """Creates a tier. Add tenants and policies to it afterwards."""
        fields = body(NewTier, request)
        who = signed(request, fields)
        edit = Edit(partial(tier_create, **fields), who, lambda row: _tier(row.name))
        return created(request, edit, where=lambda row: reverse("v1:tier", args=[row.name]))


class TierDetail(APIView):
    @reads(TierOut)
    def get(self, request: Request, name: str) -> Response:
        """One tier."""
        return shown(request, _tier(name))


def _tier(name: str) -> dict[str, Any]:
    return TierOut(get_object_or_404(Tier, name=name)).data
