from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Action, changed, signed
from api.inputs import Reasoned, SubjectField, Text, body
from api.openapi.describe import changes
from api.v1.shapes import tenant_shown
from headroom_edge.check import ENDPOINT_CHARACTERS
from headroom_edge.django import limiter
from quotas.changes.affected import Effect, TouchedTenants
from quotas.counters import EVERY, counter_reset
from quotas.policies.diff import FieldDiff, ObjectDiff
from quotas.policies.explain import UNREGISTERED
from quotas.policies.spec import EVERYWHERE


class Reset(Reasoned):
    endpoint = Text(
        max_length=ENDPOINT_CHARACTERS,
        default=EVERYWHERE,
        help_text="`*`: the limits that count all endpoints together.",
    )
    limit = Text(max_length=80, default=EVERY, help_text="The name of a limit, or `*` for all limits.")
    subject = SubjectField(default=dict, help_text="The subject's dimensions (ip, key, user, …), as callers send them.")


class ResetOut(serializers.Serializer[Any]):
    count = serializers.IntegerField(help_text="The number of limits reset. Global limits are not reset.")


class TenantReset(APIView):
    @changes(Reset, ResetOut)
    def post(self, request: Request, name: str) -> Response:
        """Clears what a tenant, or one of its subjects, has used."""
        fields = body(Reset, request)
        who = signed(request, fields)
        endpoint = UNREGISTERED if fields["endpoint"] == EVERYWHERE else fields["endpoint"]
        asked = {"tenant": name, **fields, "endpoint": endpoint}
        action = Action(
            lambda: counter_reset(limiter=limiter(), **asked, **who),
            lambda count: {"count": count},
            describe=lambda _: _effect(name, fields["endpoint"], fields["limit"]),
            present=lambda: tenant_shown(request, name),
            rehearse=lambda: 0,
        )
        return changed(request, action)


def _effect(tenant: str, endpoint: str, limit: str) -> Effect:
    field = FieldDiff("used", "as counted", 0)
    return Effect(
        (ObjectDiff(f"counter:{tenant} {endpoint} {limit}", "update", (field,)),), TouchedTenants(1, (tenant,))
    )
