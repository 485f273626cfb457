"""ETag and If-Match: nobody overwrites a version that they have not seen.

An ETag is a hash of the GET response. PUT, PATCH and DELETE require If-Match: 428 if it is missing, 412 if it differs;
`*` matches any version. Other methods honour it if it is sent. It is compared in the turn of the change, or under the
lock of the row that long work writes. What has no version, such as something that a request creates, only matches `*`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from django.utils.http import parse_etags
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from api.errors import PreconditionFailed, PreconditionRequired

NEEDING = frozenset({"PUT", "PATCH", "DELETE"})


def etag_of(shown: Mapping[str, Any]) -> str:
    return f'"{hashlib.sha256(JSONRenderer().render(shown)).hexdigest()[:24]}"'


def shown(request: Request, content: Mapping[str, Any]) -> Response:
    """The response to a GET of one resource: 304 if the caller has this version already."""
    etag = etag_of(content)
    known = parse_etags(request.headers.get("If-None-Match", ""))
    if "*" in known or etag in (one.removeprefix("W/") for one in known):
        return Response(status=304, headers={"ETag": etag})
    return Response(content, headers={"ETag": etag})


def is_conditional(request: Request) -> bool:
    return request.method in NEEDING or "If-Match" in request.headers


def check(request: Request, content: Mapping[str, Any]) -> None:
    given = request.headers.get("If-Match")
    if given is None:
        raise PreconditionRequired
    matches = parse_etags(given)
    if "*" not in matches and etag_of(content) not in matches:
        raise PreconditionFailed


def check_without_version(request: Request) -> None:
    """For a change of what no GET shows with an ETag: a create, or an action on a whole list."""
    given = request.headers.get("If-Match")
    if given is not None and "*" not in parse_etags(given):
        raise PreconditionFailed("There is no ETag that this could match; send it without If-Match, or with *.")
