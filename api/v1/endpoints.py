from __future__ import annotations

from functools import partial
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Edit, Guarded, GuardedRemovalQuery, changed, created, permitted
from api.inputs import Choice, Flag, Strict, Text, Whole, Word, body, query
from api.openapi.describe import changes, creates, lists, reads, removes
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from headroom_edge.plan.priority import PRIORITIES
from quotas.endpoints import endpoint_create, endpoint_delete, endpoint_update
from quotas.models import Endpoint
from quotas.policies.endpoint import ENDPOINT_FIELDS, LONGEST_NAME, LONGEST_PATH
from quotas.policies.spec import ENDPOINT_PART, METHODS, MOST_COST


class HintsOut(serializers.Serializer[Any]):
    """What is known about the endpoint's traffic. Unknown hints are omitted."""

    bursty = serializers.BooleanField(required=False, help_text="Whether the service can absorb bursts.")
    clients = serializers.ChoiceField(choices=["few", "many"], required=False)
    exact = serializers.BooleanField(required=False, help_text="Whether the count must be exact.")


class EndpointOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    method = serializers.CharField()
    path = serializers.CharField(help_text="A template, such as `/v1/rides/{id}`. Empty: no path.")
    default_cost = serializers.IntegerField()
    priority = serializers.ChoiceField(
        choices=PRIORITIES, help_text="A full pool refuses sheddable requests first and critical ones last."
    )
    hints = HintsOut()


class Hints(Strict):
    bursty = Flag(required=False)
    clients = Choice(choices=["few", "many"], required=False)
    exact = Flag(required=False)


class PathTemplate(Text):
    stated = {"pattern": ENDPOINT_FIELDS["path"]["pattern"]}


class EndpointChange(Guarded):
    method = Choice(choices=METHODS, required=False)
    path = PathTemplate(max_length=LONGEST_PATH, allow_blank=True, required=False)
    default_cost = Whole(min_value=1, max_value=MOST_COST, required=False)
    priority = Choice(choices=PRIORITIES, required=False)
    hints = Hints(required=False)


class NewEndpoint(EndpointChange):
    name = Word(f"{ENDPOINT_PART}:{ENDPOINT_PART}", max_length=LONGEST_NAME)


class EndpointRemovalQuery(GuardedRemovalQuery):
    with_limits = serializers.BooleanField(
        default=False, help_text="Delete its policies and end its overrides in the same revision."
    )


class EndpointQuery(PageQuery):
    method = serializers.ChoiceField(choices=METHODS, required=False)
    order = order_field("name", "created")
    search = search_field("the name or path")

    orders = {"name": "name", "created": "number"}
    lookups = {"method": "method"}
    searched = ("name", "path")


class EndpointList(APIView):
    @lists(EndpointQuery, EndpointOut)
    def get(self, request: Request) -> Response:
        """The registered endpoints, with method, path template, default cost, priority and hints."""
        return listed(request, EndpointQuery, Endpoint.objects.filter(retired=False), EndpointOut)

    @creates(NewEndpoint, EndpointOut)
    def post(self, request: Request) -> Response:
        """Registers an endpoint, so that policies can limit it and requests can be matched to it."""
        fields = body(NewEndpoint, request)
        who = permitted(request, fields)
        edit = Edit(partial(endpoint_create, **fields), who, lambda row: _endpoint(row.name))
        return created(request, edit, where=lambda row: reverse("v1:endpoint", args=[row.name]))


class EndpointDetail(APIView):
    @reads(EndpointOut)
    def get(self, request: Request, name: str) -> Response:
        """One endpoint."""
        return shown(request, _endpoint(name))

    @changes(EndpointChange, EndpointOut, needs_match=True)
    def patch(self, request: Request, name: str) -> Response:
        """Changes an endpoint's method, path, default cost or hints."""
        fields = body(EndpointChange, request)
        who = permitted(request, fields)
        update = partial(endpoint_update, name=name, **fields)
        return changed(request, Edit(update, who, lambda _: _endpoint(name), lambda: _endpoint(name)))

    @removes(EndpointRemovalQuery)
    def delete(self, request: Request, name: str) -> Response:
        """Retires an endpoint. Its requests then fall under the limits on `*` only; its number and usage are kept."""
        asked = query(EndpointRemovalQuery, request)
        who = permitted(request, asked)
        retire = partial(endpoint_delete, name=name, with_limits=asked["with_limits"])
        edit = Edit(retire, who, lambda _: {}, lambda: _endpoint(name))
        return changed(request, edit, asked)


def _endpoint(name: str) -> dict[str, Any]:
    return EndpointOut(get_object_or_404(Endpoint, name=name, retired=False)).data
