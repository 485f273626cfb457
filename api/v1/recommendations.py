"""Recommended limits with their evidence: read, simulate, edit, approve, enforce, dismiss or roll them back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api import edits, preconditions
from api.edits import Action, Signed, changed, signed
from api.inputs import Flag, Number, Reasoned, Whole, body, query
from api.openapi.describe import AnythingField, changes, lists, reads
from api.pagination import PageQuery, narrowed, order_field, page_of, search_field
from api.preconditions import shown
from api.v1.changes import Accepted
from quotas.changes.affected import Effect
from quotas.models import Recommendation
from quotas.models.recommendation import Kind, Stage, Trust
from quotas.recommendations.lifecycle import (
    LEAST_RATE,
    MOST_BURST,
    MOST_RATE,
    BulkApproval,
    recommendation_approve,
    recommendation_dismiss,
    recommendation_edit,
    recommendation_enforce,
    recommendation_roll_back,
    recommendation_simulate,
    recommendations_approve,
    recommendations_sure,
)
from quotas.recommendations.remeasurement import recommendation_measure
from quotas.recommendations.staleness import marked

BINDS = ["demand", "capacity"]


class RecommendationOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=Kind.values)
    stage = serializers.ChoiceField(choices=Stage.values)
    policy = serializers.CharField()
    limit = serializers.CharField()
    tier = serializers.CharField(help_text="Empty: a tenant's own policy.")
    tenant = serializers.CharField(help_text="Empty: all tenants of the tier.")
    endpoint = serializers.CharField()
    summary = serializers.CharField()
    current = AnythingField(help_text="The current algorithm and parameters.")
    proposed = AnythingField(help_text="The proposed algorithm and parameters. null: there is too little data.")
    is_edited = serializers.BooleanField(help_text="Whether a person edited `proposed`.")
    trust = serializers.ChoiceField(choices=Trust.values)
    binds = serializers.ChoiceField(choices=BINDS, help_text="What determines the limit.")
    forecast = AnythingField(help_text="The result of replaying recorded usage. Empty: not simulated yet.")
    observed = AnythingField(help_text="What was measured in shadow or under enforcement.")
    ready_at = serializers.DateTimeField(allow_null=True, help_text="When there will be enough data.")
    problem = serializers.CharField(help_text="Why the recommendation is blocked.")
    stale = serializers.BooleanField(
        source="is_stale", help_text="Its base has changed: it cannot be approved before it is measured again."
    )
    stale_reason = serializers.CharField(help_text="What has changed since it was measured. Empty: nothing has.")
    change = serializers.IntegerField(source="change_id", allow_null=True, help_text="The change that carries it out.")
    decider = serializers.CharField()
    reason = serializers.CharField()
    created = serializers.DateTimeField()
    measured_at = serializers.DateTimeField(help_text="The end of the usage that it is based on.")
    decided_at = serializers.DateTimeField(allow_null=True)
    shadow_at = serializers.DateTimeField(allow_null=True)
    enforced_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class WholeRecommendationOut(RecommendationOut):
    evidence = AnythingField(
        help_text="Periods used and excluded, percentiles, histogram, arrival curve, weeks, tenants, capacity, advice."
    )


class RefusedOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    reason = serializers.CharField(help_text="Why it was not approved.")


class ApprovedOut(serializers.Serializer[Any]):
    approved = serializers.ListField(child=serializers.IntegerField())
    refused = RefusedOut(many=True)


class ProposedOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    current = AnythingField(help_text="The current algorithm and parameters.")
    proposed = AnythingField(help_text="The proposed algorithm and parameters.")


class ApprovableOut(serializers.Serializer[Any]):
    items = ProposedOut(many=True)


class Edit(Reasoned):
    rate = Number(
        default=None,
        allow_null=True,
        min_value=LEAST_RATE,
        max_value=MOST_RATE,
        help_text="Units per second. May be left out for a window: its rate follows from its limit.",
    )
    burst = Whole(min_value=1, max_value=MOST_BURST, help_text="Of a window: its limit.")


class Enforce(Reasoned):
    early = Flag(default=False, help_text="Enforce before the time in shadow is over.")
    force = Flag(default=False, help_text="Accept cuts that its approver has not seen.")
    accept = Accepted(default=list)


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
        """Recommendations, newest first."""
        asked, rows = query(RecommendationsQuery, request), Recommendation.objects.defer("evidence")
        page = page_of(narrowed(rows, RecommendationsQuery, asked), RecommendationsQuery, asked)
        return Response({"items": RecommendationOut(marked(page.rows), many=True).data, "next": page.next})


class RecommendationDetail(APIView):
    @reads(WholeRecommendationOut)
    def get(self, request: Request, number: int) -> Response:
        """One recommendation with its evidence and its forecast."""
        return shown(request, _row(number))


class RecommendationSimulate(APIView):
    @changes(Reasoned, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Replays recorded usage against the current limit and the proposed one."""
        author = signed(request, body(Reasoned, request))["author"]
        simulate = partial(recommendation_simulate, recommendation=number, author=author)
        return _act(request, number, simulate, lambda check: simulate(check=check))


class RecommendationMeasure(APIView):
    @changes(Reasoned, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Measures its limit again on the newest data. If nothing is left to propose, it ends as `superseded`."""
        author = signed(request, body(Reasoned, request))["author"]
        measure = partial(recommendation_measure, recommendation=number, author=author)
        return _act(request, number, measure, lambda check: measure(check=check))


class RecommendationEdit(APIView):
    @changes(Edit, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Changes the proposed rate and burst. The recommendation must be simulated again."""
        fields = body(Edit, request)
        who = signed(request, fields)
        edit = partial(recommendation_edit, recommendation=number, **fields, **who)
        return _act(request, number, edit)


class RecommendationApprove(APIView):
    @changes(Reasoned, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Starts the recommendation in shadow, beside the live limit. A raise for one tenant is enforced at once."""
        who = signed(request, body(Reasoned, request))
        return _edit(request, number, recommendation_approve, who)


class RecommendationEnforce(APIView):
    @changes(Enforce, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Enforces the recommended limit."""
        fields = body(Enforce, request)
        who = signed(request, fields)
        return _edit(request, number, partial(recommendation_enforce, **fields), who)


class RecommendationDismiss(APIView):
    @changes(Reasoned, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Dismisses a recommendation. The same one is not made again for four weeks."""
        who = signed(request, body(Reasoned, request))
        return _edit(request, number, recommendation_dismiss, who)


class RecommendationRollBack(APIView):
    @changes(Reasoned, WholeRecommendationOut)
    def post(self, request: Request, number: int) -> Response:
        """Restores the previous limit."""
        who = signed(request, body(Reasoned, request))
        return _edit(request, number, recommendation_roll_back, who)


class RecommendationsApprove(APIView):
    @reads(ApprovableOut)
    def get(self, request: Request) -> Response:
        """What approving all would approve. Its ETag is for the If-Match of that POST."""
        return shown(request, _approvable())

    @changes(Reasoned, ApprovedOut)
    def post(self, request: Request) -> Response:
        """Approves all recommendations that are simulated and have high confidence."""
        who = signed(request, body(Reasoned, request))
        edit = edits.Edit(
            recommendations_approve,
            who,
            _bulk,
            _approvable if preconditions.is_conditional(request) else None,
        )
        return changed(request, edit)


STEPS: dict[str, type[APIView]] = {
    "simulate": RecommendationSimulate,
    "measure": RecommendationMeasure,
    "edit": RecommendationEdit,
    "approve": RecommendationApprove,
    "enforce": RecommendationEnforce,
    "dismiss": RecommendationDismiss,
    "roll-back": RecommendationRollBack,
}


def _edit(request: Request, number: int, call: Callable[..., Recommendation], who: Signed) -> Response:
    """A step that changes limits, and so creates a revision."""
    edit = edits.Edit(partial(call, recommendation=number), who, lambda row: _row(row.pk), lambda: _row(number))
    return changed(request, edit)


def _act(
    request: Request,
    number: int,
    call: Callable[[], Recommendation],
    call_checked: Callable[[Callable[[], None]], Recommendation] | None = None,
) -> Response:
    """A step that changes the recommendation alone."""
    action = Action(
        call,
        lambda row: _row(row.pk),
        lambda _: Effect(),
        lambda: _row(number),
        call_checked=call_checked,
    )
    return changed(request, action)


def _approvable() -> dict[str, Any]:
    return ApprovableOut({"items": recommendations_sure().only("current", "proposed")}).data


def _bulk(done: BulkApproval) -> dict[str, Any]:
    refused = [{"id": number, "reason": reason} for number, reason in done.refused.items()]
    return {"approved": [row.pk for row in done.approved], "refused": refused}


def _row(number: int) -> dict[str, Any]:
    (row,) = marked([get_object_or_404(Recommendation, pk=number)])
    return WholeRecommendationOut(row).data
