"""Proposed limits with their evidence: to look at, simulate, edit, approve, enforce, dismiss or take back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.changes import Change, changed, said
from api.inputs import Flag, Reasoned, Whole, body
from api.openapi.describe import AnythingField, changes, lists, reads
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from headroom_edge.algorithms.base import shown as value_shown
from quotas.changes.effect import Effect
from quotas.models import Recommendation
from quotas.models.recommendation import Kind, Stage, Trust
from quotas.recommendations.lifecycle import (
    recommendation_approve,
    recommendation_dismiss,
    recommendation_edit,
    recommendation_enforce,
    recommendation_roll_back,
    recommendation_simulate,
    recommendations_approve,
)

BINDS = ["demand", "capacity"]


class RecommendationOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=Kind.values)
    stage = serializers.ChoiceField(choices=Stage.values)
    policy = serializers.CharField()
    limit = serializers.CharField()
    tier = serializers.CharField(help_text="Empty: a tenant's own policy.")
    tenant = serializers.CharField(help_text="Empty: for all of the tier.")
    endpoint = serializers.CharField()
    summary = serializers.CharField()
    current = AnythingField(help_text="Algorithm and parameters that hold.")
    proposed = AnythingField(help_text="The same; null: too little is known.")
    is_edited = serializers.BooleanField(help_text="`proposed` is what a person wrote.")
    trust = serializers.ChoiceField(choices=Trust.values)
    binds = serializers.ChoiceField(choices=BINDS, help_text="What sets the limit.")
    forecast = AnythingField(help_text="What a replay of recorded usage says; empty before it was simulated.")
    observed = AnythingField(help_text="What shadow, or enforcement, has shown.")
    ready_at = serializers.DateTimeField(allow_null=True, help_text="When there will be enough data.")
    problem = serializers.CharField(help_text="Why it does not go on.")
    change = serializers.IntegerField(source="change_id", allow_null=True, help_text="The change that tries it out.")
    decider = serializers.CharField()
    reason = serializers.CharField()
    created = serializers.DateTimeField()
    measured_at = serializers.DateTimeField(help_text="The end of the usage that it rests on.")
    decided_at = serializers.DateTimeField(allow_null=True)
    shadow_at = serializers.DateTimeField(allow_null=True)
    enforced_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class WholeRecommendationOut(RecommendationOut):
    evidence = AnythingField(
        help_text="Spans used and excluded, percentiles, histogram, arrival curve, weeks, tenants, capacity, advice."
    )


class ApprovedOut(serializers.Serializer[Any]):
    approved = serializers.ListField(child=serializers.IntegerField())


class Number(serializers.FloatField):
    def to_internal_value(self, data: Any) -> float:
        if type(data) not in (int, float):
            raise ValidationError(f"give a number, not {value_shown(data)}", "type")
        return super().to_internal_value(data)


class Edit(Reasoned):
    rate = Number(min_value=1e-6, max_value=1e9, help_text="Units a second.")
    burst = Whole(min_value=1, max_value=10**12)


class Enforce(Reasoned):
    early = Flag(default=False, help_text="Before its time in shadow is over.")


class RecommendationsQuery(PageQuery):
    stage = serializers.ChoiceField(choices=Stage.values, required=False)
    kind = serializers.ChoiceField(choices=Kind.values, required=False)
    trust = serializers.ChoiceField(choices=Trust.values, required=False)
    policy = serializers.CharField(required=False, max_length=63)
    tenant = serializers.CharField(required=False, max_length=63)
    endpoint = serializers.CharField(required=False, max_length=128)
    order = order_field("created", default="-created")
    search = search_field("the summary")

    orders = {"created": "id"}
    lookups = {
        "stage": "stage",
        "kind": "kind",
        "trust": "trust",
        "policy": "policy",
        "tenant": "tenant",
        "endpoint": "endpoint",
    }
    searched = ("summary",)


class RecommendationList(APIView):
    @lists(RecommendationsQuery, RecommendationOut)
    def get(self, request: Request) -> Response:
        """Proposed limits, by stage and confidence, newest first."""
        return listed(request, RecommendationsQuery, Recommendation.objects.defer("evidence"), RecommendationOut)


class RecommendationDetail(APIView):
    @reads(WholeRecommendationOut)
    def get(self, request: Request, number: int) -> Response:
        """One proposal with its evidence and its forecast."""
        return shown(request, _row(number))


class RecommendationSimulate(APIView):
    @changes(Reasoned, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Replays recorded usage through the limit that holds and the one that is proposed."""
        author = said(request, body(Reasoned, request))["author"]
        return _acted(
            request, number, lambda: recommendation_simulate(recommendation=number, author=author), writes=False
        )


class RecommendationEdit(APIView):
    @changes(Edit, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Proposes another rate and burst; it has to be simulated again."""
        fields = body(Edit, request)
        who = said(request, fields)
        return _acted(
            request, number, lambda: recommendation_edit(recommendation=number, **fields, **who), writes=False
        )


class RecommendationApprove(APIView):
    @changes(Reasoned, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Into shadow, beside the live limit; a raise for one tenant holds at once."""
        who = said(request, body(Reasoned, request))
        return _acted(request, number, lambda: recommendation_approve(recommendation=number, **who))


class RecommendationEnforce(APIView):
    @changes(Enforce, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """It holds for all from now on."""
        fields = body(Enforce, request)
        who = said(request, fields)
        return _acted(request, number, lambda: recommendation_enforce(recommendation=number, **fields, **who))


class RecommendationDismiss(APIView):
    @changes(Reasoned, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Turns it down; the same is not proposed again for four weeks."""
        who = said(request, body(Reasoned, request))
        return _acted(request, number, lambda: recommendation_dismiss(recommendation=number, **who))


class RecommendationRollBack(APIView):
    @changes(Reasoned, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """The limit is again what it was."""
        who = said(request, body(Reasoned, request))
        return _acted(request, number, lambda: recommendation_roll_back(recommendation=number, **who))


class RecommendationsApprove(APIView):
    @changes(Reasoned, ApprovedOut)
    def post(self, request: Request) -> Response:
        """All that are simulated and of high confidence, and no others."""
        who = said(request, body(Reasoned, request))
        act = Change(lambda: recommendations_approve(**who), lambda rows: {"approved": [row.pk for row in rows]})
        return changed(request, act)


STEPS: dict[str, type[APIView]] = {
    "simulate": RecommendationSimulate,
    "edit": RecommendationEdit,
    "approve": RecommendationApprove,
    "enforce": RecommendationEnforce,
    "dismiss": RecommendationDismiss,
    "roll-back": RecommendationRollBack,
}


def _acted(request: Request, number: int, act: Callable[[], Recommendation], writes: bool = True) -> Response:
    """`writes`: limits, and with them a revision."""
    describe = None if writes else lambda _: Effect()
    return changed(
        request,
        Change(act, lambda row: _row(row.pk), lambda: _row(number), has_revision=writes, describe=describe),
    )


def _row(number: int) -> dict[str, Any]:
    return WholeRecommendationOut(get_object_or_404(Recommendation, pk=number)).data
