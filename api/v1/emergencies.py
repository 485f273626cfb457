"""Emergencies: what was done without the consent of others, and who else has looked at it."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Action, changed, signed
from api.inputs import Reasoned, body
from api.openapi.describe import changes, lists, reads
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from quotas.changes.affected import Effect
from quotas.changes.emergency import emergency_review
from quotas.models import Emergency
from quotas.policies.diff import FieldDiff, ObjectDiff


class EmergencyOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    action = serializers.CharField()
    what = serializers.CharField(help_text="Such as `revision 12` or `bypass of all limits`.")
    author = serializers.CharField()
    reason = serializers.CharField()
    at = serializers.DateTimeField()
    reviewer = serializers.CharField(help_text="Who else has looked at it. Empty: nobody yet.")
    review_reason = serializers.CharField()
    reviewed_at = serializers.DateTimeField(allow_null=True)


class EmergenciesQuery(PageQuery):
    reviewed = serializers.BooleanField(required=False)
    author = serializers.CharField(required=False, max_length=150)
    order = order_field("at", default="-at")
    search = search_field("the reason")

    orders = {"at": "id"}
    lookups = {"author": "author"}
    searched = ("reason",)
    presence = {"reviewed": "reviewed_at"}


class EmergencyList(APIView):
    @lists(EmergenciesQuery, EmergencyOut)
    def get(self, request: Request) -> Response:
        """Edits that skipped an approval or passed a freeze, and bypasses that did, newest first."""
        return listed(request, EmergenciesQuery, Emergency.objects.all(), EmergencyOut)


class EmergencyDetail(APIView):
    @reads(EmergencyOut)
    def get(self, request: Request, number: int) -> Response:
        """One emergency, and who else has looked at it."""
        return shown(request, _row(number))


class EmergencyReview(APIView):
    @changes(Reasoned, EmergencyOut)
    def post(self, request: Request, number: int) -> Response:
        """Says that you have looked at it. Its author cannot, and neither can their tokens."""
        who = signed(request, body(Reasoned, request))
        action = Action(
            partial(emergency_review, emergency=number, **who),
            lambda row: _row(row.pk),
            lambda row: Effect((ObjectDiff(f"emergency:{row.pk}", "update", _reviewed(row)),)),
            lambda: _row(number),
        )
        return changed(request, action)


def _reviewed(row: Emergency) -> tuple[FieldDiff, ...]:
    return (FieldDiff("reviewer", "", row.reviewer),)


def _row(number: int) -> dict[str, Any]:
    return EmergencyOut(get_object_or_404(Emergency, pk=number)).data
