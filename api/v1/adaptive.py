"""Limits that adapt: their live values and timelines, and the pin."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Guarded, changed, permitted
from api.inputs import Text, body, query
from api.openapi.describe import changes, lists
from api.pagination import PageQuery, sequence_page
from api.v1.policies import PolicyOut, edit_of
from quotas.adaptive.pin import limit_pin, limit_unpin
from quotas.adaptive.queries import SHOWN, AdaptiveLimit, adaptive_limits, adaptive_timeline
from quotas.lookups import find_endpoint, find_tenant
from quotas.models.adaptive import CONCURRENCY, RATE
from quotas.policies.endpoint import LONGEST_NAME

UNIT = "Of a rate in per mille: 420 is 42 % of the configured limit. Of `concurrency`, requests in flight."


class AdaptiveOut(serializers.Serializer[Any]):
    policy = serializers.CharField()
    limit = serializers.CharField()
    endpoint = serializers.CharField(help_text="`*`: all endpoints together. `rides:*`: all of a service.")
    tenant = serializers.CharField(help_text="Whose counter it is. Empty: all tenants together.")
    kind = serializers.ChoiceField(
        choices=[RATE, CONCURRENCY],
        help_text="`rate`: the values are per mille of the configured limit. `concurrency`: requests in flight.",
    )
    value = serializers.IntegerField(help_text=f"The live value. {UNIT}")
    least = serializers.IntegerField(help_text=f"The floor. {UNIT}")
    most = serializers.IntegerField(help_text=f"The ceiling. {UNIT}")
    reason = serializers.CharField(help_text="Why it is there, for people.")
    is_pinned = serializers.BooleanField()
    is_at_floor = serializers.BooleanField()
    at = serializers.DateTimeField(help_text="When it was read; within the last two minutes.")


class AdaptivePointOut(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    value = serializers.IntegerField(help_text=f"Holds until the next point. {UNIT}")
    least = serializers.IntegerField(help_text=f"The floor. {UNIT}")
    most = serializers.IntegerField(help_text=f"The ceiling. {UNIT}")
    reason = serializers.CharField()


class AdaptiveQuery(PageQuery):
    endpoint = Text(
        required=False,
        max_length=LONGEST_NAME,
        help_text="Limits on this endpoint, on its service or on all endpoints.",
    )
    tenant = Text(required=False, max_length=63, help_text="Counters that this tenant has or shares.")


class TimelineQuery(PageQuery):
    tenant = Text(required=False, max_length=63, help_text="Whose counter, if the limit counts per tenant.")


class Pinning(Guarded):
    at = Text(
        required=False,
        max_length=6,
        help_text="A share of the configured limit, from floor to ceiling, such as `42%`. "
        "Without it: its newest value, of at most two minutes ago.",
    )


class Unpinning(Guarded):
    pass


class AdaptiveList(APIView):
    @lists(AdaptiveQuery, AdaptiveOut)
    def get(self, request: Request) -> Response:
        """Limits that adapt, with their live values, which are read every ten seconds."""
        asked = query(AdaptiveQuery, request)
        endpoint = find_endpoint(asked["endpoint"]) if asked.get("endpoint") else None
        tenant = find_tenant(asked["tenant"]) if asked.get("tenant") else None
        found = adaptive_limits(timezone.now(), endpoint=endpoint, tenant=tenant)
        return Response(sequence_page(sorted(found, key=_place), asked, AdaptiveOut, key=_place))


class AdaptiveTimeline(APIView):
    @lists(TimelineQuery, AdaptivePointOut)
    def get(self, request: Request, name: str, limit: str) -> Response:
        """The live value of a limit in the last six hours, oldest first."""
        asked = query(TimelineQuery, request)
        tenant = find_tenant(asked["tenant"]).number if asked.get("tenant") else 0
        now = timezone.now()
        points = adaptive_timeline(name, limit, now - SHOWN, now, tenant)
        return Response(sequence_page(points, asked, AdaptivePointOut, key=lambda point: (point.at.isoformat(),)))


class PolicyLimitPin(APIView):
    @changes(Pinning, PolicyOut)
    def post(self, request: Request, name: str, limit: str) -> Response:
        """Pins a limit that adapts to its present value, or to a given one."""
        fields = body(Pinning, request)
        who = permitted(request, fields)
        pin = partial(limit_pin, policy=name, limit=limit, at=fields.get("at", ""))
        return changed(request, edit_of(request, name, pin, who))


class PolicyLimitUnpin(APIView):
    @changes(Unpinning, PolicyOut)
    def post(self, request: Request, name: str, limit: str) -> Response:
        """Lets a pinned limit adapt again."""
        who = permitted(request, body(Unpinning, request))
        return changed(request, edit_of(request, name, partial(limit_unpin, policy=name, limit=limit), who))


def _place(each: AdaptiveLimit) -> tuple[str, ...]:
    return each.endpoint, each.policy, each.limit, each.tenant
