from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, cast, get_args

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
from api.edits import Action, changed, created, signed
from api.inputs import Choice, Fields, Line, Moment, Reasoned, Word, body
from api.openapi.describe import changes, creates, lists, reads
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from headroom_edge.algorithms.base import DURATION_PATTERN
from quotas.api_keys import (
    LONGEST_LABEL,
    SCOPES,
    IssuedKey,
    KeyState,
    api_key_issue,
    api_key_revoke,
    api_key_rotate,
    api_key_update,
    key_state,
)
from quotas.changes.affected import Effect, TouchedTenants
from quotas.errors import refuse, span_of
from quotas.policies.diff import FieldDiff, ObjectDiff
from quotas.publishing.key_arrival import key_arrives
from quotas.usage.key_uses import with_last_use
from tenants.models import TENANT_NAME, ApiKey


class ApiKeyOut(serializers.Serializer[Any]):
    key_id = serializers.CharField(help_text="The public part of the key.")
    tenant = serializers.CharField(source="tenant.name")
    label = serializers.CharField()  # type: ignore[assignment]
    scopes = serializers.ListField(child=serializers.CharField())
    state = serializers.SerializerMethodField()
    created = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True, help_text="It stops working then; null: never.")
    revoked_at = serializers.DateTimeField(allow_null=True)
    counted_as = serializers.CharField(help_text="What limits per key count it as; a rotation keeps it.")
    successor = serializers.CharField(source="successor.key_id", allow_null=True, default=None)
    last_used = serializers.DateTimeField(
        allow_null=True, help_text="To about 15 s, from what gateways and SDKs report; null: in no report yet."
    )

    @extend_schema_field({"enum": list(get_args(KeyState))})
    def get_state(self, row: ApiKey) -> str:
        return key_state(row, timezone.now())


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
    expires_at = Moment(allow_null=True, default=None, help_text="When it stops working; null: never.")


class ApiKeyPatch(Reasoned):
    label = Line(max_length=LONGEST_LABEL, allow_blank=True)  # type: ignore[assignment]


class Rotation(Reasoned):
    overlap = Word(
        DURATION_PATTERN, required=False, help_text="How long the old key still works, such as 1h, 24h or 7d."
    )
    until = Moment(required=False, help_text="Instead of an overlap: when the old key ends.")
    expires_at = Moment(allow_null=True, default=None, help_text="When the new key stops working; null: never.")

    rules = {"oneOf": [{"required": ["overlap"]}, {"required": ["until"]}]}


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
        return listed(request, ApiKeyQuery, _rows(request), ApiKeyOut)

    @creates(NewApiKey, IssuedKeyOut)
    def post(self, request: Request) -> Response:
        """Issues an API key. The whole key is shown only once, as soon as it works (it waits for that at most 2 s)."""
        fields = body(NewApiKey, request)
        who = signed(request, fields)
        action = Action(
            lambda: api_key_issue(**fields, **who),
            lambda issued: {**_key(request, issued.row.key_id), "key": str(issued.text)},
            describe=lambda issued: _effect(issued.row, ObjectDiff("api_key:new", "create", _issued(issued))),
        )
        return _handed_out(created(request, action, where=_place, secrets=("key",)))


class ApiKeyDetail(APIView):
    @reads(ApiKeyOut)
    def get(self, request: Request, key_id: str) -> Response:
        """One API key, by its public id."""
        return shown(request, _key(request, key_id))

    @changes(ApiKeyPatch, ApiKeyOut, needs_match=True)
    def patch(self, request: Request, key_id: str) -> Response:
        """Changes a key's label."""
        fields = body(ApiKeyPatch, request)
        who = signed(request, fields)
        was = _key(request, key_id)["label"]

        def effect(row: ApiKey) -> Effect:
            diffs = () if row.label == was else (FieldDiff("label", was, row.label),)
            return _effect(row, ObjectDiff(f"api_key:{row.key_id}", "update", diffs))

        action = Action(
            lambda: api_key_update(key_id=key_id, **fields, **who),
            lambda row: _key(request, row.key_id),
            effect,
            lambda: _key(request, key_id),
        )
        return changed(request, action)


class ApiKeyRotate(APIView):
    @creates(Rotation, IssuedKeyOut)
    def post(self, request: Request, key_id: str) -> Response:
        """Issues a key that replaces this one, which ends by itself after the overlap.

        Limits per key count both as one key, so a rotation adds no budget. The whole new key is shown only once.
        """
        fields = body(Rotation, request)
        who = signed(request, fields)
        before = _key(request, key_id)
        action = Action(
            lambda: api_key_rotate(key_id=key_id, until=_until(fields), expires_at=fields["expires_at"], **who),
            lambda issued: {**_key(request, issued.row.key_id), "key": str(issued.text)},
            describe=lambda issued: _rotated(issued, before),
            present=lambda: _key(request, key_id),
        )
        return _handed_out(created(request, action, where=_place, secrets=("key",)))


def _place(issued: IssuedKey) -> str:
    return reverse("v1:api-key", args=[issued.row.key_id])


def _handed_out(response: Response) -> Response:
    """Answers once the new key works, so that whoever uses it at once is not refused."""
    if response.status_code == HTTPStatus.CREATED:
        key_arrives(ApiKey.objects.get(key_id=response.data["key_id"]))
    return response


def _until(fields: Fields) -> datetime:
    if ("overlap" in fields) == ("until" in fields):
        raise refuse("overlap", "missing", "give either overlap, such as 24h, or until, a time")
    if "until" in fields:
        return cast("datetime", fields["until"])
    return timezone.now() + span_of("overlap", fields["overlap"])


def _rotated(issued: IssuedKey, before: Mapping[str, Any]) -> Effect:
    former = ApiKey.objects.get(key_id=before["key_id"])
    fields = (FieldDiff("expires_at", before["expires_at"], _iso(former.expires_at)),)
    new = ObjectDiff("api_key:new", "create", _issued(issued))
    changes_made = (new, ObjectDiff(f"api_key:{former.key_id}", "update", fields))
    return Effect(changes_made, TouchedTenants(1, (issued.row.tenant.name,)))


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
    return ApiKeyOut(get_object_or_404(_rows(request), key_id=key_id)).data


def _rows(request: Request) -> QuerySet[ApiKey]:
    return narrowed(request, with_last_use(ApiKey.objects.select_related("tenant", "successor")), "tenant")


def _effect(row: ApiKey, change: ObjectDiff) -> Effect:
    return Effect((change,) if change.fields else (), TouchedTenants(1, (row.tenant.name,)))


def _issued(issued: IssuedKey) -> tuple[FieldDiff, ...]:
    row = issued.row
    states = {"tenant": row.tenant.name, "label": row.label, "scopes": row.scopes, "expires_at": _iso(row.expires_at)}
    return tuple(FieldDiff(name, None, value) for name, value in states.items() if name != "expires_at" or value)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _revoked(row: ApiKey, *, was: Any) -> ObjectDiff:
    fields = () if was else (FieldDiff("revoked", False, True),)
    return ObjectDiff(f"api_key:{row.key_id}", "update", fields)
