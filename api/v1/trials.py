"""The trial of a change: what it has shown, its verdict against its bars, and the rule by which it ends."""

from __future__ import annotations

from typing import Any, Final

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Action, changed, signed
from api.inputs import Choice, Flag, Moment, Number, Query, Reasoned, body, query
from api.openapi.describe import changes, reads
from api.preconditions import etag_of
from quotas.changes.affected import Effect
from quotas.changes.trial_rule import TrialRule, trial_rule_set
from quotas.models import Change
from quotas.models.change import ChangeState, TrialEnd
from quotas.trials.canary import CanaryCounts
from quotas.trials.counts import worst_minutes_read
from quotas.trials.report import Trial, trial_of

MOST_TENANTS: Final = 500


class TrialStageOut(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=ChangeState.values)
    share_percent = serializers.FloatField(allow_null=True)
    at = serializers.DateTimeField()
    author = serializers.CharField()
    reason = serializers.CharField()


class TrialVerdictOut(serializers.Serializer[Any]):
    tone = serializers.ChoiceField(
        choices=["ok", "wait", "no"], help_text="`ok`: below both bars, for long enough. `no`: above a bar."
    )
    code = serializers.ChoiceField(choices=["safe", "early", "no_traffic", "above_share", "above_tenant"])
    title = serializers.CharField()
    text = serializers.CharField()


class TrialRuleOut(serializers.Serializer[Any]):
    bar_share = serializers.FloatField(help_text="Of all requests, the most that it may deny.")
    bar_tenant = serializers.FloatField(help_text="Of one tenant's requests, the most that it may deny.")
    ends = serializers.DateTimeField(source="trial_ends", allow_null=True)
    then = serializers.ChoiceField(source="trial_then", choices=TrialEnd.values)
    auto_stop = serializers.BooleanField(help_text="Whether an hour above a bar ends the trial.")


class TrialCountsOut(serializers.Serializer[Any]):
    asked = serializers.IntegerField(help_text="Requests that its limits applied to.")
    would_deny = serializers.IntegerField(help_text="Requests that were allowed, and that it would deny.")
    would_allow = serializers.IntegerField(help_text="Requests that were denied, and that it would allow.")
    denied = serializers.IntegerField(help_text="Requests that the live limits denied.")
    share = serializers.FloatField(help_text="`would_deny` of `asked`.")


class TrialTenantOut(TrialCountsOut):
    tenant = serializers.CharField()
    worst_at = serializers.DateTimeField(allow_null=True, help_text="The minute in which it would deny most.")
    worst_would = serializers.IntegerField()
    worst_asked = serializers.IntegerField()


class TrialGapOut(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    reason = serializers.CharField(source="words")


class TrialShadowOut(serializers.Serializer[Any]):
    begin = serializers.DateTimeField()
    until = serializers.DateTimeField(help_text="Everything counted before is included.")
    hours = serializers.FloatField(help_text="Measured, without gaps.")
    total = TrialCountsOut()
    hit = serializers.IntegerField(help_text="Tenants that it would deny something.")
    tenant_count = serializers.IntegerField()
    tenants = TrialTenantOut(many=True, help_text="Those with most would-be 429s, at most 500.")
    gaps = TrialGapOut(many=True)


class CanaryShareOut(serializers.Serializer[Any]):
    asked = serializers.IntegerField()
    denied = serializers.IntegerField()
    share = serializers.FloatField()


class CanaryGroupOut(serializers.Serializer[Any]):
    tenants = serializers.IntegerField()
    before = CanaryShareOut()
    now = CanaryShareOut()


class CanaryTenantOut(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    before = CanaryShareOut()
    now = CanaryShareOut()


class CanaryOut(serializers.Serializer[Any]):
    begin = serializers.DateTimeField()
    until = serializers.DateTimeField()
    before_seconds = serializers.SerializerMethodField(help_text="How long the time before it is, for comparison.")
    canary = CanaryGroupOut(help_text="The tenants that have the change.")
    rest = CanaryGroupOut()
    due_to_change = serializers.FloatField(help_text="How much the share of 429s rose more than for the rest.")
    tenants = serializers.SerializerMethodField()

    def get_before_seconds(self, counts: CanaryCounts) -> int:
        return int(counts.before.total_seconds())

    def get_tenants(self, counts: CanaryCounts) -> list[dict[str, Any]]:
        return [CanaryTenantOut(one).data for one in counts.tenants[:MOST_TENANTS]]


class TrialOut(serializers.Serializer[Any]):
    change = serializers.IntegerField()
    state = serializers.ChoiceField(choices=ChangeState.values)
    stages = TrialStageOut(many=True)
    rule = TrialRuleOut()
    verdict = TrialVerdictOut(allow_null=True, help_text="null: it was never on trial.")
    shadow = TrialShadowOut(allow_null=True)
    canary = CanaryOut(allow_null=True)


class RuledTrialOut(serializers.Serializer[Any]):
    change = serializers.IntegerField()
    state = serializers.ChoiceField(choices=ChangeState.values)
    rule = TrialRuleOut()


class TrialRuleChange(Reasoned):
    """Fields that are left out stay as they are."""

    bar_share = Number(required=False, min_value=0.000001, max_value=1, help_text="0.01 is 1 % of all requests.")
    bar_tenant = Number(required=False, min_value=0.000001, max_value=1, help_text="0.05 is 5 % of one tenant's.")
    ends = Moment(required=False, help_text="The planned end. A later one extends the trial and keeps its counts.")
    then = Choice(choices=TrialEnd.values, required=False, help_text="What happens then, if it is below its bars.")
    auto_stop = Flag(required=False)


class TrialQuery(Query):
    tenants = serializers.IntegerField(default=50, min_value=0, max_value=MOST_TENANTS, help_text="How many to list.")


class ChangeTrial(APIView):
    @reads(TrialOut, TrialQuery)
    def get(self, request: Request, number: int) -> Response:
        """What the trial of a change has shown, and the verdict against its bars. Its ETag is that of the rule."""
        most = query(TrialQuery, request)["tenants"]
        row = get_object_or_404(Change, pk=number)
        # The counts grow by the second: an ETag of them would never match when the rule is changed.
        return Response(_trial(trial_of(row), most), headers={"ETag": etag_of(_ruled(row))})

    @changes(TrialRuleChange, RuledTrialOut, needs_match=True)
    def patch(self, request: Request, number: int) -> Response:
        """Sets the bars of a trial, extends it, or says what happens when it ends. Counts are kept."""
        fields = body(TrialRuleChange, request)
        who = signed(request, fields)
        rule = TrialRule(**fields)
        action = Action(
            lambda: trial_rule_set(change=number, rule=rule, **who),
            _ruled,
            lambda _: Effect(),
            lambda: _ruled(get_object_or_404(Change, pk=number)),
            takes_turn=True,
        )
        return changed(request, action)


def _ruled(row: Change) -> dict[str, Any]:
    return RuledTrialOut({"change": row.pk, "state": row.state, "rule": row}).data


def _trial(trial: Trial, most: int) -> dict[str, Any]:
    counts = trial.counts
    listed = counts.tenants[:most] if counts else []
    if counts:
        worst_minutes_read(trial.scope, counts, listed)
    shadow = counts and {
        "begin": counts.begin,
        "until": counts.until,
        "hours": round(counts.hours, 3),
        "total": counts.total,
        "hit": counts.hit,
        "tenant_count": len(counts.tenants),
        "tenants": listed,
        "gaps": counts.gaps,
    }
    stages = [
        {
            "state": stage.state,
            "share_percent": None if stage.share is None else stage.share / 10,
            "at": stage.at,
            "author": stage.author,
            "reason": stage.reason,
        }
        for stage in trial.stages
    ]
    found = {
        "change": trial.change.pk,
        "state": trial.change.state,
        "stages": stages,
        "rule": trial.change,
        "verdict": trial.verdict,
        "shadow": shadow,
        "canary": trial.canary,
    }
    return TrialOut(found).data
