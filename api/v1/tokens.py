"""Tokens of machines: who answers for each, and whether an owner lets it approve. manage.py token issues them."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Action, changed, signed
from api.inputs import Flag, Reasoned, body
from api.openapi.describe import changes, lists, reads
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from quotas.changes.affected import Effect
from quotas.policies.diff import FieldDiff, ObjectDiff
from quotas.tokens import token_permit
from tenants.models import ApiToken, Role


class TokenOut(serializers.Serializer[Any]):
    key_id = serializers.CharField(help_text="The public part of the token.")
    label = serializers.CharField()  # type: ignore[assignment]
    role = serializers.ChoiceField(choices=Role.values)
    scopes = serializers.ListField(child=serializers.CharField())
    tenant = serializers.CharField(source="tenant.name", allow_null=True, default=None)
    issuer = serializers.CharField(
        source="issuer.username",
        allow_null=True,
        default=None,
        help_text="Who answers for it. null: nobody is known to.",
    )
    may_approve = serializers.BooleanField(help_text="Whether an owner lets this machine approve.")
    created = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)


class TokenPatch(Reasoned):
    may_approve = Flag()


class TokensQuery(PageQuery):
    role = serializers.ChoiceField(choices=Role.values, required=False)
    issuer = serializers.CharField(required=False, max_length=150)
    may_approve = serializers.BooleanField(required=False)
    revoked = serializers.BooleanField(required=False)
    order = order_field("created", default="-created")
    search = search_field("the label or the id")

    orders = {"created": "id"}
    lookups = {"role": "role", "issuer": "issuer__username", "may_approve": "may_approve"}
    searched = ("label", "key_id")
    presence = {"revoked": "revoked_at"}


class TokenList(APIView):
    @lists(TokensQuery, TokenOut)
    def get(self, request: Request) -> Response:
        """Tokens of machines, without their secrets."""
        return listed(request, TokensQuery, ApiToken.objects.select_related("tenant", "issuer"), TokenOut)


class TokenDetail(APIView):
    @reads(TokenOut)
    def get(self, request: Request, key_id: str) -> Response:
        """One token, by its public id."""
        return shown(request, _row(key_id))

    @changes(TokenPatch, TokenOut, needs_match=True)
    def patch(self, request: Request, key_id: str) -> Response:
        """Lets a machine approve changes and recommendations, or no longer. For owners, signed in as a person."""
        fields = body(TokenPatch, request)
        who = signed(request, fields)
        before = _row(key_id)["may_approve"]
        action = Action(
            partial(token_permit, key_id=key_id, **fields, **who),
            lambda row: _row(row.key_id),
            lambda row: _effect(row, was=before),
            lambda: _row(key_id),
        )
        return changed(request, action)


def _effect(row: ApiToken, *, was: bool) -> Effect:
    fields = () if row.may_approve == was else (FieldDiff("may_approve", was, row.may_approve),)
    return Effect((ObjectDiff(f"token:{row.key_id}", "update", fields),) if fields else ())


def _row(key_id: str) -> dict[str, Any]:
    return TokenOut(get_object_or_404(ApiToken.objects.select_related("tenant", "issuer"), key_id=key_id)).data
