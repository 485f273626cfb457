from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.inputs import Choice, query
from api.openapi.describe import lists
from api.pagination import PageQuery, sequence_page
from quotas.publishing.enforcers import STATES, Enforcer, enforcers_now


class LeasesOut(serializers.Serializer[Any]):
    """A process that leases takes a block of requests from Redis and decides them by itself. An edit then arrives up to
    `ms` later, or less if a limit allows less; a process that dies may waste up to one block."""

    ms = serializers.IntegerField(help_text="The longest lease that it asks for, in milliseconds.")
    endpoints = serializers.ListField(
        child=serializers.CharField(), help_text="On which it leased within the last minute."
    )
    more = serializers.IntegerField(help_text="How many further endpoints it leased on, which it does not name.")


class EnforcerOut(serializers.Serializer[Any]):
    """A process that checks limits through the SDK, a middleware or the gateway."""

    id = serializers.CharField()
    host = serializers.CharField(help_text="Empty if it did not report one.")
    pid = serializers.IntegerField()
    version = serializers.CharField(help_text="Of headroom-edge; empty if it is too old to report one.")
    revision = serializers.IntegerField(
        allow_null=True, help_text="That its latest decision was made with; null if it has made none."
    )
    behind = serializers.IntegerField(
        allow_null=True, help_text="How many revisions the tenant of that decision has moved on since."
    )
    decided_s = serializers.IntegerField(allow_null=True, help_text="The age of that decision in seconds.")
    state = serializers.ChoiceField(
        choices=STATES,
        help_text="`degraded`: decided without Redis within the last minute. `behind`: decides with an older revision. "
        "`stale`: no heartbeat for 15 s, so it was stopped or cannot reach Redis.",
    )
    seen = serializers.DateTimeField(help_text="The time of its last heartbeat.")
    leases = LeasesOut(allow_null=True, help_text="null: every decision asks Redis.")


class EnforcerQuery(PageQuery):
    state = Choice(choices=STATES, required=False)
    leases = serializers.BooleanField(
        required=False, help_text="`true`: only those that lease; `false`: only the others."
    )


class EnforcerList(APIView):
    @lists(EnforcerQuery, EnforcerOut)
    def get(self, request: Request) -> Response:
        """The processes that enforced limits within the last ten minutes, the worst first. Clients that call Redis
        themselves (FCALL) do not appear."""
        asked = query(EnforcerQuery, request)
        rows = [row for row in enforcers_now() if _is_asked(row, asked)]
        return Response(sequence_page(rows, asked, EnforcerOut, key=lambda row: row.badness))


def _is_asked(row: Enforcer, asked: Mapping[str, Any]) -> bool:
    return asked.get("state") in (None, row.state) and asked.get("leases") in (None, row.leases is not None)
