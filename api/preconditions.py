"""ETag and If-Match: nobody overwrites what they have not seen.

An ETag is a hash of what a GET shows. PUT, PATCH and DELETE need If-Match (428 without, 412 if it is another's; `*`
is for whoever does not mind); where it is optional, it is honoured. Compared under the lock that orders changes.
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
    """A GET of one thing."""
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
