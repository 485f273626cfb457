"""Who makes a request."""

from __future__ import annotations

from rest_framework.request import Request

from api.auth import principal_of


def author_of(request: Request) -> str:
    return principal_of(request).actor
