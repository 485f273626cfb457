"""Request ids: the caller's X-Request-ID if it is valid, otherwise a new one. The response and the audit carry it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

API: Final = "/v1/"
HEADER: Final = "X-Request-ID"
_FIT: Final = re.compile(r"[A-Za-z0-9._:/+=-]{8,128}", re.ASCII)
_ATTRIBUTE: Final = "request_id"


class RequestIds:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent = request.headers.get(HEADER, "")
        request_id = sent if _FIT.fullmatch(sent) else str(uuid.uuid4())
        setattr(request, _ATTRIBUTE, request_id)
        response = self.get_response(request)
        response.headers[HEADER] = request_id
        return response


def request_id_of(request: HttpRequest) -> str:
    return str(getattr(request, _ATTRIBUTE, ""))


def is_api(request: HttpRequest) -> bool:
    """Whether the request is for the REST API, not for a page."""
    return request.path.startswith(API)


def wants_page(request: HttpRequest) -> bool:
    """Whether a browser navigates here. Programs, and scripts that load a part of a page, do not ask for HTML."""
    return "text/html" in request.headers.get("Accept", "")
