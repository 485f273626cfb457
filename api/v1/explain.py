"""What would happen to a request, and why. Asks the store as a check does, but charges nothing."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.inputs import Choice, Fields, Strict, SubjectField, Text, Whole, Word, body
from api.openapi.describe import asks
from api.v1.shapes import EffectiveLimitOut, limit_shown, tenant_shown
from headroom_edge.check import COST_MAX, ENDPOINT_CHARACTERS
from headroom_edge.django import limiter
from headroom_edge.plan.paths import LONGEST_PATH
from quotas.errors import refuse
from quotas.policies.explain import Verdict, endpoint_of, request_explain
from quotas.policies.spec import METHODS
from tenants.models import TENANT_NAME


class Question(Strict):
    """A request, by method and path or by endpoint."""

    rules = {"oneOf": [{"required": ["path"]}, {"required": ["endpoint"]}]}

    tenant = Word(TENANT_NAME)
    method = Choice(choices=METHODS[:-1], default="GET")
    path = Text(max_length=LONGEST_PATH, required=False)
    endpoint = Text(max_length=ENDPOINT_CHARACTERS, required=False)
    subject = SubjectField(default=dict, help_text="The dimensions that a caller would send: ip, key, user, …")
    cost = Whole(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=COST_MAX,
        help_text="Default: the endpoint's default cost.",
    )


class DecisionOut(serializers.Serializer[Any]):
    allowed = serializers.BooleanField()
    reason = serializers.CharField()
    limit = serializers.CharField(help_text="The limit that decided. Empty: no limit applies.")
    retry_after_ms = serializers.IntegerField(allow_null=True, help_text="null: waiting does not help.")
    wait_ms = serializers.IntegerField()
    revision = serializers.IntegerField(help_text="The revision that Redis enforces.")


class RuleOut(EffectiveLimitOut):
    allowed = serializers.BooleanField(
        allow_null=True, help_text="Whether the limit would admit the request. null: it is not enforced."
    )
    quota = serializers.IntegerField(allow_null=True)
    remaining = serializers.IntegerField(allow_null=True, help_text="After the request, if it is allowed.")
    reset_ms = serializers.IntegerField(allow_null=True)
    retry_after_ms = serializers.IntegerField(allow_null=True)
    cause = serializers.CharField(
        allow_null=True, help_text="Why a limit that borrows denies: `pool`, `share` or `ceiling`. Empty otherwise."
    )


class AnswerOut(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    tier = serializers.CharField()
    suspended = serializers.BooleanField()
    endpoint = serializers.CharField(help_text="The endpoint of the path. `*`: none is registered.")
    revision = serializers.IntegerField(help_text="The newest revision. The decision has the one that Redis enforces.")
    decision = DecisionOut()
    rules = RuleOut(many=True)


class Explain(APIView):
    @asks(Question, AnswerOut)
    def post(self, request: Request) -> Response:
        """Shows how every limit would decide a request, and what is left of it. Charges nothing."""
        asked = body(Question, request)
        tenant_shown(request, asked["tenant"])
        found = request_explain(
            limiter=limiter(),
            tenant=asked["tenant"],
            endpoint=_endpoint(asked),
            subject=asked["subject"],
            cost=asked.get("cost"),
        )
        explanation = found.explanation
        answer = {
            "tenant": explanation.tenant,
            "tier": explanation.tier,
            "suspended": explanation.is_suspended,
            "endpoint": explanation.endpoint,
            "revision": explanation.revision,
            "decision": found.decision,
            "rules": [_rule(verdict) for verdict in found.verdicts],
        }
        return Response(AnswerOut(answer).data)


def _endpoint(asked: Fields) -> str:
    if ("path" in asked) == ("endpoint" in asked):
        raise refuse("path", "either", "send either the path of the request or its endpoint")
    return str(asked["endpoint"]) if "endpoint" in asked else endpoint_of(method=asked["method"], path=asked["path"])


def _rule(verdict: Verdict) -> dict[str, Any]:
    row = verdict.row
    if row is None:
        stands: dict[str, Any] = dict.fromkeys(("allowed", "quota", "remaining", "reset_ms", "retry_after_ms", "cause"))
    else:
        stands = {
            "allowed": row.allowed,
            "quota": row.quota,
            "remaining": row.remaining,
            "reset_ms": -(-row.reset_us // 1_000),
            "retry_after_ms": None if row.retry_us < 0 else -(-row.retry_us // 1_000),
            "cause": row.cause,
        }
    return limit_shown(verdict.explained) | stands
