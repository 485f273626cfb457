"""Refuses what no page can use, before any sees it: an address or a form with NUL or half characters in it.

The API says of its own fields and bodies what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from access.request_ids import is_api
from quotas.policies.problems import is_fit


class Readable:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if is_api(request) or (is_fit(request.path) and _is_fit(request.GET)):
            return self.get_response(request)
        return _refused("The address has a NUL (%00) or half a character in it; leave that out.")

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponse | None:
        """Here, because only who may post a form has it read."""
        if request.method != "POST" or is_api(request) or _is_fit(request.POST):
            return None
        return _refused("The form has a NUL or half a character in it; leave that out.")


def _is_fit(fields: QueryDict) -> bool:
    return all(is_fit(name) and all(map(is_fit, values)) for name, values in fields.lists())


def _refused(words: str) -> HttpResponse:
    return HttpResponse(words, status=HTTPStatus.BAD_REQUEST, content_type="text/plain; charset=utf-8")
