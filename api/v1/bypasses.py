from __future__ import annotations

from typing import Any, cast

from django.http import Http404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Action, RemovalQuery, changed, created, signed
from api.inputs import Choice, Reasoned, Text, body, query
from api.openapi.describe import creates, reads, removes
from api.v1.shapes import moment_of
from quotas.bypass import bypass_clear, bypass_plan, bypass_set, bypasses_read
from quotas.changes.affected import Effect, TouchedTenants
from quotas.policies.diff import FieldDiff, ObjectDiff
from quotas.publishing.bypass_switches import BypassSwitch, Scope
from tenants.models import Tenant

SCOPES = ("all", "tenant", "endpoint", "limit")


class BypassOut(serializers.Serializer[Any]):
    """Limits in shadow mode for a while: they count requests but deny none."""

    about = serializers.CharField(help_text="`all`, `tenant:acme`, `endpoint:rides:get` or `limit:burst`.")
    scope = serializers.ChoiceField(choices=SCOPES)
    name = serializers.CharField()
    until = serializers.DateTimeField()
    reason = serializers.CharField()


class BypassesOut(serializers.Serializer[Any]):
    items = BypassOut(many=True)


class BypassDuration(Text):
    stated = {"pattern": r"^([1-9][0-9]{0,7}ms|[1-9][0-9]{0,4}s|[1-9][0-9]{0,3}m|([1-9][0-9]?|1[0-5][0-9])h|[1-7]d)$"}


class NewBypass(Reasoned):
    scope = Choice(choices=SCOPES)
    name = Text(max_length=128, allow_blank=True, default="", help_text="The name of the tenant, endpoint or limit.")
    duration = BypassDuration(max_length=20, help_text="Such as `30m`; at most `7d`.")

    rules = {
        "oneOf": [
            {"properties": {"scope": {"const": "all"}, "name": {"maxLength": 0}}},
            {"properties": {"scope": {"enum": list(SCOPES[1:])}, "name": {"minLength": 1}}, "required": ["name"]},
        ]
    }


class BypassList(APIView):
    @reads(BypassesOut)
    def get(self, request: Request) -> Response:
        """The active bypasses: which limits let everything through, why and until when."""
        return Response({"items": [_shown(switch) for switch in bypasses_read()]})

    @creates(NewBypass, BypassOut)
    def post(self, request: Request) -> Response:
        """Starts a bypass, for emergencies. It replaces one with the same scope and name."""
        fields = body(NewBypass, request)
        who = signed(request, fields)
        action = Action(
            lambda: bypass_set(**fields, **who),
            _shown,
            describe=lambda switch: _effect(switch, "create"),
            rehearse=lambda: bypass_plan(**fields, **who),
        )
        return created(request, action, where=lambda switch: reverse("v1:bypass", args=[_about(switch)]))


class BypassDetail(APIView):
    @removes(needs_match=False)
    def delete(self, request: Request, about: str) -> Response:
        """Ends a bypass early."""
        asked = query(RemovalQuery, request)
        who = signed(request, asked)
        scope, _, name = about.partition(":")
        action = Action(
            lambda: bypass_clear(scope=cast("Scope", scope), name=name, **who),
            _shown,
            describe=lambda switch: _effect(switch, "delete"),
            rehearse=lambda: _switch(about),
        )
        _switch(about)
        return changed(request, action, asked)


def _switch(about: str) -> BypassSwitch:
    switch = next((switch for switch in bypasses_read() if _about(switch) == about), None)
    if switch is None:
        raise Http404
    return switch


def _about(switch: BypassSwitch) -> str:
    return f"{switch.scope}:{switch.name}" if switch.name else switch.scope


def _shown(switch: BypassSwitch) -> dict[str, Any]:
    shown = {
        "about": _about(switch),
        "scope": switch.scope,
        "name": switch.name,
        "until": moment_of(switch.until_us),
        "reason": switch.reason,
    }
    return BypassOut(shown).data


def _effect(switch: BypassSwitch, action: Any) -> Effect:
    until = moment_of(switch.until_us)
    before, after = (None, until) if action == "create" else (until, None)
    change = ObjectDiff(f"bypass:{_about(switch)}", action, (FieldDiff("until", before, after),))
    if switch.scope == "tenant":
        return Effect((change,), TouchedTenants(1, (switch.name,)))
    return Effect((change,), TouchedTenants(Tenant.objects.count(), is_everyone=True))
