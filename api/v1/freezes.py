"""Change freezes: windows in which the configuration stays as it is."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Action, changed, created, signed
from api.inputs import Choice, Moment, Reasoned, Sentence, Text, body, query
from api.openapi.describe import changes, creates, lists, reads
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from quotas.changes.affected import Effect
from quotas.changes.freeze import MOST_MEMBERS, PASSING_ROLES, STATES, freeze_lift, freeze_set, freeze_state, freezes_in
from quotas.changes.freeze import passers as passers_of
from quotas.errors import LONGEST_REASON
from quotas.models import Freeze
from quotas.policies.diff import FieldDiff, ObjectDiff


class FreezeOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    state = serializers.SerializerMethodField(help_text="upcoming, active, lifted or over.")
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    reason = serializers.CharField()
    roles = serializers.ListField(child=serializers.CharField(), help_text="Roles that may pass.")
    may_pass = serializers.SerializerMethodField(help_text="Who may pass, in words.")
    author = serializers.CharField()
    created = serializers.DateTimeField()
    lifted_at = serializers.DateTimeField(allow_null=True)
    lifted_author = serializers.CharField(help_text="Who ended it early. Empty: nobody.")
    lifted_reason = serializers.CharField()

    def get_state(self, row: Freeze) -> str:
        return freeze_state(row, timezone.now())

    def get_may_pass(self, row: Freeze) -> str:
        return passers_of(row)


class NewFreeze(Reasoned):
    reason = Sentence(max_length=LONGEST_REASON, help_text="Why, in one line. Every refusal repeats it.")
    start = Moment(default=None, allow_null=True, help_text="null: at once.")
    end = Moment(help_text="At most 366 days after `start`.")
    roles = serializers.ListField(
        child=Choice(choices=PASSING_ROLES),
        default=list,
        max_length=len(PASSING_ROLES),
        help_text="Roles that may pass.",
    )
    members = serializers.ListField(
        child=Text(max_length=150), default=list, max_length=MOST_MEMBERS, help_text="Accounts that may pass."
    )


class FreezesQuery(PageQuery):
    state = serializers.ChoiceField(choices=STATES, required=False)
    order = order_field("created", default="-created")
    search = search_field("the reason")

    orders = {"created": "id"}
    searched = ("reason",)


class FreezeList(APIView):
    @lists(FreezesQuery, FreezeOut)
    def get(self, request: Request) -> Response:
        """Freezes: active, upcoming and past, newest first."""
        return listed(request, FreezesQuery, _in_state(query(FreezesQuery, request).get("state")), FreezeOut)

    @creates(NewFreeze, FreezeOut)
    def post(self, request: Request) -> Response:
        """Freezes the configuration. Until it ends, changes by others than those who may pass are refused with 423."""
        fields = body(NewFreeze, request)
        action = Action(
            partial(freeze_set, **signed(request, fields), **fields),
            lambda row: _row(row.pk),
            lambda row: Effect((ObjectDiff("freeze:new", "create", (FieldDiff("end", None, row.end.isoformat()),)),)),
            takes_turn=True,
        )
        return created(request, action, where=lambda row: reverse("v1:freeze", args=[row.pk]))


class FreezeDetail(APIView):
    @reads(FreezeOut)
    def get(self, request: Request, number: int) -> Response:
        """One freeze: its window, its reason and who may pass."""
        return shown(request, _row(number))


class FreezeLift(APIView):
    @changes(Reasoned, FreezeOut)
    def post(self, request: Request, number: int) -> Response:
        """Ends a freeze early."""
        who = signed(request, body(Reasoned, request))
        action = Action(
            partial(freeze_lift, freeze=number, **who),
            lambda row: _row(row.pk),
            lambda row: Effect((ObjectDiff(f"freeze:{row.pk}", "update", _lifted(row)),)),
            lambda: _row(number),
        )
        return changed(request, action)


def _in_state(state: str | None) -> QuerySet[Freeze]:
    return Freeze.objects.filter(freezes_in(state, timezone.now())) if state else Freeze.objects.all()


def _lifted(row: Freeze) -> tuple[FieldDiff, ...]:
    return (FieldDiff("lifted_at", None, row.lifted_at.isoformat() if row.lifted_at else None),)


def _row(number: int) -> dict[str, Any]:
    return FreezeOut(get_object_or_404(Freeze, pk=number)).data
