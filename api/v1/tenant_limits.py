"""A tenant's effective limits, and where each comes from."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.inputs import Moment, Query, query
from api.openapi.describe import reads
from api.preconditions import shown
from api.v1.shapes import EffectiveLimitOut, limit_shown, moment_of, tenant_shown
from quotas.policies.explain import standing
from quotas.policies.spec import Override


class UpcomingOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    endpoint = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(allow_null=True)


class StandingOut(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    tier = serializers.CharField()
    suspended = serializers.BooleanField()
    revision = serializers.IntegerField()
    limits = EffectiveLimitOut(many=True)
    upcoming = UpcomingOut(many=True, help_text="Overrides that start in the future.")


class StandingQuery(Query):
    at = Moment(required=False, help_text="Default: now.")


class TenantLimits(APIView):
    @reads(StandingOut, StandingQuery)
    def get(self, request: Request, name: str) -> Response:
        """Every limit that applies to the tenant, and where it comes from."""
        asked = query(StandingQuery, request)
        tenant_shown(request, name)
        found = standing(tenant=name, at=asked.get("at"))
        answer = {
            "tenant": found.tenant,
            "tier": found.tier,
            "suspended": found.is_suspended,
            "revision": found.revision,
            "limits": [limit_shown(explained) for explained in found.limits],
            "upcoming": [_upcoming(override) for override in found.upcoming],
        }
        return shown(request, StandingOut(answer).data)


def _upcoming(override: Override) -> dict[str, Any]:
    return {
        "id": override.id,
        "endpoint": override.endpoint,
        "start": moment_of(override.start_us),
        "end": moment_of(override.end_us),
    }
