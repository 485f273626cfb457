"""Who sends a request, and which rows they may see. Machines send a token; people have a browser session."""

from __future__ import annotations

from collections.abc import MutableMapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.asgi import ASGIRequest
from django.db import Error
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from access.sessions import LastingSessions
from headroom_edge.request_guard import bearer_text
from quotas.secret_rotation import key_hash_again
from tenants import scope
from tenants.keyring import KeyringError
from tenants.models import Tenant
from tenants.scope import Principal, principal_of_text, principal_of_user

if TYPE_CHECKING:
    # REST framework's views read these classes from its settings while they are imported.
    from rest_framework.views import APIView

_ATTRIBUTE: Final = "principal"


class BadToken(Exception):  # noqa: N818 - an expected outcome, not a fault
    """The token that was sent is unknown, expired or revoked."""


def authenticate(request: HttpRequest) -> Principal | None:
    """Return None if nobody is signed in. If a token is sent, the session is ignored: a bad token raises BadToken."""
    authorization = request.headers.get("Authorization", "")
    if authorization:
        principal = principal_of_text(bearer_text(authorization))
        if principal is None:
            raise BadToken
        if principal.is_hash_due:
            key_hash_again(bearer_text(authorization))
        return principal
    return principal_of_user(request.user)


def is_known(scope: MutableMapping[str, Any]) -> bool:
    """Whether an ASGI request has a valid session or token, by its head alone. The gate tells why it has none."""
    request = ASGIRequest(dict(scope), BytesIO())
    try:
        SessionMiddleware(_unused).process_request(request)
        LastingSessions(_unused).process_request(request)
        return authenticate(request) is not None
    except (BadToken, Error, KeyringError):
        return False


def _unused(request: HttpRequest) -> HttpResponse:
    raise NotImplementedError


def principal_set(request: HttpRequest, principal: Principal) -> None:
    setattr(request, _ATTRIBUTE, principal)


def principal_of(request: HttpRequest | Request) -> Principal:
    """The principal that the gate set. Only valid on routes that require a login."""
    principal: Principal = getattr(request, _ATTRIBUTE)
    return principal


class Machine:
    """REST framework's `request.user` for a request with a token."""

    is_authenticated = True
    is_anonymous = False
    pk = None

    def __init__(self, principal: Principal) -> None:
        self.username = principal.actor

    def __str__(self) -> str:
        return self.username


class GateAuthentication(SessionAuthentication):
    """Returns the principal that the gate set. A session needs a CSRF token too: browsers send cookies unasked."""

    def authenticate(self, request: Request) -> tuple[object, None] | None:
        principal = getattr(request._request, _ATTRIBUTE, None)
        if principal is None:
            return None
        if principal.is_machine:
            return Machine(principal), None
        self.enforce_csrf(request)
        return principal.user, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class PassedTheGate(BasePermission):
    """Denies every request that did not pass the gate."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return getattr(request._request, _ATTRIBUTE, None) is not None


def author_of(request: Request) -> str:
    return principal_of(request).actor


ScopedRow = TypeVar("ScopedRow", bound=Model)


def tenants_of(request: Request) -> QuerySet[Tenant]:
    return scope.tenants_of(principal_of(request))


def narrowed(request: Request, rows: QuerySet[ScopedRow], tenant: str) -> QuerySet[ScopedRow]:
    """`tenant` is the lookup path from a row to its tenant."""
    return scope.scoped(principal_of(request), rows, tenant)
