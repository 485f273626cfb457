"""Refuses pages' addresses and forms that contain NUL or unpaired surrogates, which PostgreSQL cannot store.

The API validates its own fields and bodies.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from access.request_ids import is_api, wants_page
from quotas.policies.problems import is_fit


class MalformedInput:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if is_api(request) or (is_fit(request.path) and _is_fit(request.GET)):
            return self.get_response(request)
        return _refused(request, "The address contains an invalid character (such as %00); remove it.")

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        # Not in __call__: the form is only parsed for callers whom the gate has let through.
        if request.method != "POST" or is_api(request) or _is_fit(request.POST):
            return None
        return _refused(request, "The form contains an invalid character (such as NUL); remove it.")


def _is_fit(fields: QueryDict) -> bool:
    return all(is_fit(name) and all(map(is_fit, values)) for name, values in fields.lists())


def _refused(request: HttpRequest, sentence: str) -> HttpResponse:
    if wants_page(request):
        return render(request, "400.html", {"sentence": sentence}, status=HTTPStatus.BAD_REQUEST)
    return HttpResponse(sentence, status=HTTPStatus.BAD_REQUEST, content_type="text/plain; charset=utf-8")
