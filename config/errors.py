"""Django's own error responses: problem+json for the API, a page for people."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.views import defaults

from access.request_ids import is_api
from api.errors import response
from headroom_edge.problems import Problem


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if is_api(request):
        return _problem(HTTPStatus.BAD_REQUEST, "bad-request", "The request is malformed; check the Host header.")
    return defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if is_api(request):
        detail = "Nothing was found at this address; correct the path or the name."
        return _problem(HTTPStatus.NOT_FOUND, "not-found", detail)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    if is_api(request):
        detail = "The server failed, and nothing was changed; its log has the cause."
        return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, "fault", detail)
    return defaults.server_error(request)


def _problem(status: HTTPStatus, code: str, detail: str) -> HttpResponse:
    return response(Problem(status, code, detail))
