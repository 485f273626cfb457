from __future__ import annotations

from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import principal_of
from access.roles import may
from api.edits import Action, RemovalQuery, changed, created, signed
from api.inputs import Choice, Flag, Line, Number, Reasoned, Text, TimeZone, body, query
from api.openapi import patterns
from api.openapi.describe import changes, creates, reads, removes
from api.preconditions import shown as with_etag
from quotas.alerts.queries import TargetRow, target_rows
from quotas.alerts.quiet_hours import clock_of
from quotas.alerts.rules import RULES
from quotas.alerts.settings import (
    IssuedTarget,
    RuleRow,
    alert_rules,
    alert_setting_set,
    alert_target_create,
    alert_target_delete,
    alert_target_test,
    alerts_firing,
)
from quotas.changes.affected import Effect
from quotas.models import AlertState, AlertTarget
from quotas.models.alert import TargetKind
from quotas.policies.diff import Action as DiffAction
from quotas.policies.diff import FieldDiff, ObjectDiff

MOST_SHOWN = 500


class AlertOut(serializers.Serializer[Any]):
    """An alert that is firing and was sent."""

    alert = serializers.CharField()
    about = serializers.CharField(help_text="A tenant and its quota. Empty: the whole platform.")
    text = serializers.CharField()
    value = serializers.FloatField()
    severity = serializers.ChoiceField(choices=["notice", "warning", "critical"])
    since = serializers.DateTimeField()
    told_at = serializers.DateTimeField()
    runbook = serializers.CharField()


class AlertsOut(serializers.Serializer[Any]):
    items = AlertOut(many=True)


class AlertRuleOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    words = serializers.CharField()
    threshold = serializers.FloatField()
    default = serializers.FloatField()
    unit = serializers.ChoiceField(choices=["share", "seconds", "enforcers", "emergencies"])
    severity = serializers.ChoiceField(choices=["notice", "warning", "critical"])
    is_on = serializers.BooleanField()
    runbook = serializers.CharField()


class AlertRulesOut(serializers.Serializer[Any]):
    items = AlertRuleOut(many=True)


class Threshold(Number):
    stated = {"exclusiveMinimum": 0, "maximum": 1_000_000}


class Clock(Text):
    stated = {"pattern": patterns.CLOCK}


class AlertRulePatch(Reasoned):
    threshold = Threshold(
        allow_null=True,
        default=None,
        help_text="Above 0; a share is at most 1, seconds at most 86,400. null: the default.",
    )
    is_on = Flag(default=True)


class AlertTargetOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=TargetKind.values)
    address = serializers.CharField(
        help_text="Who may not edit targets sees only `https://host/…` or `…@domain` of it: the rest may be a secret."
    )
    label = serializers.CharField()  # type: ignore[assignment]
    alerts = serializers.ListField(child=serializers.CharField(), help_text="Empty: all.")
    quiet_from = serializers.CharField(allow_null=True)
    quiet_until = serializers.CharField(allow_null=True)
    timezone = serializers.CharField()
    is_on = serializers.BooleanField()
    created = serializers.DateTimeField()
    waiting = serializers.IntegerField(help_text="The number of messages that are not delivered yet.")
    given_up = serializers.IntegerField(help_text="The number of messages of the last days that are not tried again.")
    problem = serializers.CharField(help_text="Why the last message could not be delivered. Empty: it was.")


class AlertTargetsOut(serializers.Serializer[Any]):
    items = AlertTargetOut(many=True)


class IssuedTargetOut(AlertTargetOut):
    secret = serializers.CharField(help_text="The key of a webhook's signatures; shown only once. Empty for email.")


class NewAlertTarget(Reasoned):
    kind = Choice(choices=TargetKind.values)
    address = Line(max_length=500, help_text="A URL, `https://…`, or an email address.")
    label = Line(max_length=200, default="", allow_blank=True)  # type: ignore[assignment]
    alerts = serializers.ListField(child=Choice(choices=list(RULES)), default=list, help_text="Empty: all.")
    quiet_from = Clock(
        max_length=5,
        default=None,
        allow_null=True,
        help_text="Such as `22:00`. Until `quiet_until`, only critical alerts are sent.",
    )
    quiet_until = Clock(max_length=5, default=None, allow_null=True)
    timezone = TimeZone(max_length=64, default="UTC", help_text="The time zone of the quiet hours.")

    rules = {
        "oneOf": [
            {"properties": {"kind": {"const": "webhook"}, "address": {"pattern": "^https?://[^/?#\\s]+"}}},
            {"properties": {"kind": {"const": "email"}, "address": {"pattern": "^[^@\\s]+@[^@\\s]+$"}}},
        ],
        "dependentRequired": {"quiet_from": ["quiet_until"], "quiet_until": ["quiet_from"]},
    }


class TestOut(serializers.Serializer[Any]):
    message = serializers.IntegerField()


class AlertList(APIView):
    @reads(AlertsOut)
    def get(self, request: Request) -> Response:
        """The alerts that are firing now."""
        return Response({"items": [_alert(row) for row in alerts_firing()[:MOST_SHOWN] if row.name in RULES]})


class AlertRuleList(APIView):
    @reads(AlertRulesOut)
    def get(self, request: Request) -> Response:
        """All alert rules, with their thresholds and whether they are on."""
        return Response({"items": [_rule(row) for row in alert_rules().values()]})


class AlertRuleDetail(APIView):
    @reads(AlertRuleOut)
    def get(self, request: Request, name: str) -> Response:
        """One alert rule."""
        return with_etag(request, _rule(_known(name)))

    @changes(AlertRulePatch, AlertRuleOut, needs_match=True)
    def patch(self, request: Request, name: str) -> Response:
        """Changes a rule's threshold, or turns it on or off."""
        fields = body(AlertRulePatch, request)
        who = signed(request, fields)
        action = Action(
            lambda: alert_setting_set(name=name, **fields, **who),
            _rule,
            present=lambda: _rule(_known(name)),
            describe=lambda row: _moved(name, row),
        )
        return changed(request, action)


class AlertTargetList(APIView):
    @reads(AlertTargetsOut)
    def get(self, request: Request) -> Response:
        """Where alerts are sent: webhooks, without their secrets, and email addresses."""
        may_edit = may(principal_of(request), "v1:alert-target", "DELETE")
        return Response({"items": [_target(row) for row in target_rows(with_addresses=may_edit)]})

    @creates(NewAlertTarget, IssuedTargetOut)
    def post(self, request: Request) -> Response:
        """Adds a target. Webhooks get JSON by POST, with `Headroom-Signature: v1=` HMAC-SHA-256 of `time.body`."""
        fields = body(NewAlertTarget, request)
        who = signed(request, fields)
        action = Action(
            lambda: alert_target_create(**fields, **who),
            _issued,
            describe=lambda issued: _effect(issued.row, "create"),
        )
        where = lambda issued: reverse("v1:alert-target", args=[issued.row.pk])  # noqa: E731
        return created(request, action, where=where, secrets=("secret",))


class AlertTargetDetail(APIView):
    @removes(needs_match=False)
    def delete(self, request: Request, number: int) -> Response:
        """Removes a target. Messages that are not delivered yet are dropped."""
        asked = query(RemovalQuery, request)
        who = signed(request, asked)
        row = get_object_or_404(AlertTarget, pk=number)
        action = Action(
            lambda: alert_target_delete(target=number, **who),
            lambda _: {},
            describe=lambda _: _effect(row, "delete"),
        )
        return changed(request, action, asked)


class AlertTargetTest(APIView):
    @creates(Reasoned, TestOut)
    def post(self, request: Request, number: int) -> Response:
        """Sends a test message within 15 seconds."""
        fields = body(Reasoned, request)
        who = signed(request, fields)
        row = get_object_or_404(AlertTarget, pk=number)
        action = Action(
            lambda: alert_target_test(target=number, **who),
            lambda sent: {"message": sent.pk},
            describe=lambda _: _effect(row, "update"),
        )
        return created(request, action, where=lambda _: reverse("v1:alert-targets"))


def _known(name: str) -> RuleRow:
    row = alert_rules().get(name)
    if row is None:
        raise Http404
    return row


def _alert(row: AlertState) -> dict[str, Any]:
    rule = RULES[row.name]
    facts = {"alert": row.name, "severity": rule.severity, "runbook": rule.runbook}
    return AlertOut(
        {**facts, **{name: getattr(row, name) for name in ("about", "text", "value", "since", "told_at")}}
    ).data


def _rule(row: RuleRow) -> dict[str, Any]:
    rule = row.rule
    facts = {"threshold": row.threshold, "is_on": row.is_on, "default": rule.threshold}
    return AlertRuleOut(
        {**facts, **{name: getattr(rule, name) for name in ("name", "words", "unit", "severity", "runbook")}}
    ).data


def _moved(name: str, row: RuleRow) -> Effect:
    default = RULES[name].threshold
    fields = (FieldDiff("threshold", default, row.threshold), FieldDiff("is_on", True, row.is_on))
    return Effect(
        (ObjectDiff(f"alert:{name}", "update", tuple(field for field in fields if field.before != field.after)),)
    )


def _target(row: TargetRow) -> dict[str, Any]:
    target = row.target
    quiet = {name: _clock(getattr(target, name)) for name in ("quiet_from", "quiet_until")}
    plain = {name: getattr(target, name) for name in ("id", "kind", "label", "alerts", "timezone", "is_on", "created")}
    state = {name: getattr(row, name) for name in ("address", "waiting", "given_up", "problem")}
    return AlertTargetOut({**plain, **quiet, **state}).data


def _clock(minute: int | None) -> str | None:
    return None if minute is None else clock_of(minute)


def _issued(issued: IssuedTarget) -> dict[str, Any]:
    issued.row.refresh_from_db()
    row = TargetRow(issued.row, issued.row.address, 0, 0, "", None, None)
    return {**_target(row), "secret": issued.secret}


def _effect(target: AlertTarget, action: DiffAction) -> Effect:
    return Effect((ObjectDiff(f"alert-target:{target.address}", action, ()),))
