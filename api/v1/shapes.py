"""Shapes of responses that several resources share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from access.authentication import tenants_of
from api.inputs import HIGHEST, LIMIT
from headroom_edge.algorithms.base import SECOND_US
from quotas.models import TenantSummary
from quotas.policies.explain import ExplainedLimit
from quotas.policies.limit_codec import limit_fields
from quotas.policies.limit_words import limit_words, override_words
from quotas.policies.spec import Override


class TenantOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField(help_text="The display name.")  # type: ignore[assignment]
    tier = serializers.CharField(source="tier.name")
    timezone = serializers.CharField()
    suspended = serializers.BooleanField()
    suspended_reason = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())
    contacts = serializers.ListField(child=serializers.CharField(), help_text="Mail addresses.")
    priority = serializers.CharField(help_text=HIGHEST)
    archived_at = serializers.DateTimeField(allow_null=True, help_text="null: it is not archived.")
    created = serializers.DateTimeField()


class TightestLimitOut(serializers.Serializer[Any]):
    share = serializers.FloatField(source="use", help_text="Of the limit; above 1 if the demand exceeded it.")
    endpoint = serializers.CharField(source="use_scope")
    limit = serializers.CharField(source="use_limit")


class TenantFiguresOut(serializers.Serializer[Any]):
    """Measured every minute, over the current hour and the 23 before."""

    asked = serializers.IntegerField()
    denied = serializers.IntegerField()
    denied_share = serializers.FloatField(source="share")
    tightest = serializers.SerializerMethodField(help_text="The limit that it came closest to. null: not measured.")
    last_request_at = serializers.DateTimeField(source="last_request", allow_null=True, help_text="null: never.")

    @extend_schema_field(TightestLimitOut(allow_null=True))
    def get_tightest(self, row: TenantSummary) -> dict[str, Any] | None:
        return None if row.tightest is None else TightestLimitOut(row).data


class ListedTenantOut(TenantOut):
    figures = TenantFiguresOut(source="summary", help_text="Requests of the last 24 hours.")


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


def tenant_shown(request: Request, name: str) -> dict[str, Any]:
    return TenantOut(get_object_or_404(tenants_of(request).select_related("tier"), name=name)).data


def limit_shown(explained: ExplainedLimit) -> dict[str, Any]:
    effective = explained.effective
    return {
        "limit": {"name": effective.limit.name, **limit_fields(effective.limit)},
        "words": limit_words(effective.limit, is_global=effective.is_global),
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


def moment_of(us: int | None) -> datetime | None:
    return None if us is None else datetime.fromtimestamp(us / SECOND_US, UTC)
