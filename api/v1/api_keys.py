from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import narrowed
from api.edits import Action, changed, created, signed
from api.inputs import Choice, Line, Reasoned, Word, body
from api.openapi.describe import changes, creates, lists, reads
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from quotas.api_keys import LONGEST_LABEL, SCOPES, IssuedKey, api_key_issue, api_key_revoke
from quotas.changes.affected import Effect, TouchedTenants
from quotas.policies.diff import FieldDiff, ObjectDiff
from tenants.models import TENANT_NAME, ApiKey


class ApiKeyOut(serializers.Serializer[Any]):
    key_id = serializers.CharField(help_text="The public part of the key.")
    tenant = serializers.CharField(source="tenant.name")
    label = serializers.CharField()  # type: ignore[assignment]
    scopes = serializers.ListField(child=serializers.CharField())
    created = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)


class IssuedKeyOut(ApiKeyOut):
    key = serializers.CharField(
        allow_null=True, help_text="The whole key, shown only once; null if the request is repeated."
    )


class NewApiKey(Reasoned):
    tenant = Word(TENANT_NAME)
    label = Line(max_length=LONGEST_LABEL, allow_blank=True, default="")  # type: ignore[assignment]
    scopes = serializers.ListField(
        child=Choice(choices=SCOPES), min_length=1, max_length=len(SCOPES), default=["check"]
    )


class ApiKeyQuery(PageQuery):
    tenant = serializers.CharField(required=False, max_length=63)
    revoked = serializers.BooleanField(required=False)
    order = order_field("created", default="-created")
    search = search_field("the label or the id")

    orders = {"created": "id"}
    lookups = {"tenant": "tenant__name"}
    searched = ("label", "key_id")
    presence = {"revoked": "revoked_at"}


class ApiKeyList(APIView):
    @lists(ApiKeyQuery, ApiKeyOut)
    def get(self, request: Request) -> Response:
        """API keys with their scopes and whether they are revoked, without their secrets."""
        rows = narrowed(request, ApiKey.objects.select_related("tenant"), "tenant")
        return listed(request, ApiKeyQuery, rows, ApiKeyOut)

    @creates(NewApiKey, IssuedKeyOut)
    def post(self, request: Request) -> Response:
        """Issues an API key. The whole key is shown only once."""
        fields = body(NewApiKey, request)
        who = signed(request, fields)
        action = Action(
            lambda: api_key_issue(**fields, **who),
            lambda issued: {**_key(request, issued.row.key_id), "key": str(issued.text)},
            describe=lambda issued: _effect(issued.row, ObjectDiff("api_key:new", "create", _issued(issued))),
        )
        return created(
            request, action, where=lambda issued: reverse("v1:api-key", args=[issued.row.key_id]), secrets=("key",)
        )


class ApiKeyDetail(APIView):
    @reads(ApiKeyOut)
    def get(self, request: Request, key_id: str) -> Response:
        """One API key, by its public id."""
        return shown(request, _key(request, key_id))


class ApiKeyRevoke(APIView):
    @changes(Reasoned, ApiKeyOut)
    def post(self, request: Request, key_id: str) -> Response:
        """Revokes an API key for good. It stops working within a second."""

        def present(_: object = None) -> dict[str, Any]:
            return _key(request, key_id)

        before = present()["revoked_at"]
        who = signed(request, body(Reasoned, request))
        action = Action(
            lambda: api_key_revoke(key_id=key_id, **who),
            present,
            describe=lambda row: _effect(row, _revoked(row, was=before)),
            present=present,
        )
        return changed(request, action)


def _key(request: Request, key_id: str) -> dict[str, Any]:
    rows = narrowed(request, ApiKey.objects.select_related("tenant"), "tenant")
    return ApiKeyOut(get_object_or_404(rows, key_id=key_id)).data


def _effect(row: ApiKey, change: ObjectDiff) -> Effect:
    return Effect((change,) if change.fields else (), TouchedTenants(1, (row.tenant.name,)))


def _issued(issued: IssuedKey) -> tuple[FieldDiff, ...]:
    row = issued.row
    states = {"tenant": row.tenant.name, "label": row.label, "scopes": row.scopes}
    return tuple(FieldDiff(name, None, value) for name, value in states.items())


def _revoked(row: ApiKey, *, was: Any) -> ObjectDiff:
    fields = () if was else (FieldDiff("revoked", False, True),)
    return ObjectDiff(f"api_key:{row.key_id}", "update", fields)
