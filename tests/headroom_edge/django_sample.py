"""The rides as a Django project: its routes, and a view each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from headroom_edge.drf import HeadroomThrottle
from headroom_edge.request_guard import Caller
from tests.headroom_edge.apps import SERVED_BY


def served(endpoint: str) -> JsonResponse:
    return JsonResponse({}, headers={SERVED_BY: endpoint})


@require_http_methods(["GET", "POST"])
def rides(request: HttpRequest) -> HttpResponse:
    return served("rides:list" if request.method == "GET" else "rides:create")


async def rides_later(request: HttpRequest) -> HttpResponse:
    return served("rides:list")


@require_GET
def ride(request: HttpRequest, ride: str) -> HttpResponse:
    return served("rides:get")


@require_GET
def status(request: HttpRequest) -> HttpResponse:
    return served("rides:status")


@require_POST
def cancel(request: HttpRequest, ride: str) -> HttpResponse:
    return served("rides:cancel")


def users(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"users": get_user_model().objects.count()})


def stream(request: HttpRequest) -> StreamingHttpResponse:
    def parts() -> Iterator[bytes]:
        yield from (b"0", b"1", b"2")

    return StreamingHttpResponse(parts())


async def stream_later(request: HttpRequest) -> StreamingHttpResponse:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"0", b"1", b"2"):
            yield part

    return StreamingHttpResponse(parts())


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("as it was meant to")


class PerUser(HeadroomThrottle):
    def caller(self, request: Request, view: APIView) -> Caller | None:
        user = request.headers.get("X-User")
        return Caller("acme", {"user": user}) if user else None


class Throttled(APIView):
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = (PerUser,)

    def get(self, request: Request) -> Response:
        return Response({"a": 1})


class Costly(Throttled):
    headroom_endpoint = "rides:create"
    headroom_cost = 3


urlpatterns = [
    path("v1/rides", rides),
    path("v1/rides/status", status),
    path("v1/rides/<ride>", ride),
    path("v1/rides/<ride>/cancel", cancel),
    path("later", rides_later),
    path("users", users),
    path("stream", stream),
    path("stream-later", stream_later),
    path("broken", broken),
    path("throttled", Throttled.as_view()),
    path("costly", Costly.as_view()),
]
