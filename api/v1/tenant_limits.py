"""A tenant's effective limits, and where each comes from."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.inputs import LIMIT, Moment, Query, query
from api.openapi.describe import reads
from api.preconditions import shown
from api.v1.tenants import tenant_shown
from headroom_edge.algorithms.base import SECOND_US
from quotas.policies.explain import ExplainedLimit, standing
from quotas.policies.limit_codec import limit_fields
from quotas.policies.spec import Override
from quotas.policies.words import limit_words, override_words


class ReasonOut(serializers.Serializer[Any]):
    """A policy or an override that affects a limit."""

    source = serializers.CharField(help_text="Such as `tier pro × *` or `override 7`.")  # type: ignore[assignment]
    words = serializers.CharField(help_text="Its content in words.")
    until = serializers.DateTimeField(allow_null=True)


class EffectiveLimitOut(serializers.Serializer[Any]):
    limit = serializers.SerializerMethodField(help_text="The effective limit, with overrides applied.")
    words = serializers.CharField(help_text="The limit in words.")
    scope = serializers.CharField(help_text="What is counted together: `*`, an endpoint, or `service:*`.")
    is_global = serializers.BooleanField(help_text="Whether all tenants are counted together.")
    source = serializers.CharField(help_text="Where it comes from, such as `tier pro × *`.")  # type: ignore[assignment]
    overrides = ReasonOut(many=True, help_text="Overrides that changed it.")
    instead_of = ReasonOut(many=True, help_text="Less specific limits with the same name, which it replaces.")

    @extend_schema_field(LIMIT)
    def get_limit(self, row: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = row["limit"]
        return found


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


def limit_shown(explained: ExplainedLimit) -> dict[str, Any]:
    effective = explained.effective
    return {
        "limit": {"name": effective.limit.name, **limit_fields(effective.limit)},
        "words": limit_words(effective.limit),
        "scope": effective.scope,
        "is_global": effective.is_global,
        "source": effective.source,
        "overrides": [_override(override) for override in explained.overrides],
        "instead_of": [
            {"source": lost.source, "words": limit_words(lost.limit), "until": None} for lost in explained.lost
        ],
    }


def _override(override: Override) -> dict[str, Any]:
    words = override_words(override)
    return {"source": f"override {override.id}", "words": words, "until": moment_of(override.end_us)}


def _upcoming(override: Override) -> dict[str, Any]:
    return {
        "id": override.id,
        "endpoint": override.endpoint,
        "start": moment_of(override.start_us),
        "end": moment_of(override.end_us),
    }


def moment_of(us: int | None) -> datetime | None:
    return None if us is None else datetime.fromtimestamp(us / SECOND_US, UTC)
