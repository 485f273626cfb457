"""Who makes a request."""

from __future__ import annotations

from rest_framework.request import Request


def author_of(request: Request) -> str:
    return request.user.get_username()
