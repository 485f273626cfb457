from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.inputs import Moment
from api.openapi.describe import lists
from api.pagination import PageQuery, listed, order_field
from quotas.models import AuditEvent


class AuditEventOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.CharField()
    at = serializers.DateTimeField()
    detail = serializers.DictField(help_text="Depends on the kind. Has `author` and `reason` if a person acted.")


class AuditQuery(PageQuery):
    kind = serializers.CharField(required=False, max_length=40)
    since = Moment(required=False)
    until = Moment(required=False)
    order = order_field("id", default="-id")

    orders = {"id": "id"}
    lookups = {"kind": "kind", "since": "at__gte", "until": "at__lt"}


class AuditList(APIView):
    @lists(AuditQuery, AuditEventOut)
    def get(self, request: Request) -> Response:
        """Events that affect enforcement but create no revision: keys, bypasses, resets, repairs."""
        return listed(request, AuditQuery, AuditEvent.objects.all(), AuditEventOut)
