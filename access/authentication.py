"""Who sends a request, and which rows they may see: a machine by its token, or a person by the session of a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from tenants import scope
from tenants.models import Tenant
from tenants.scope import Principal, principal_of_text, principal_of_user

if TYPE_CHECKING:
    # REST framework's views read these classes from its settings while they are imported.
    from rest_framework.views import APIView

BEARER: Final = "bearer "
_ATTRIBUTE: Final = "principal"


class BadToken(Exception):  # noqa: N818 - it is an answer, not a fault
    """A token was sent, and it opens nothing."""


def authenticate(request: HttpRequest) -> Principal | None:
    """A token that is sent counts alone: a wrong one does not fall back to the session."""
    authorization = request.headers.get("Authorization", "")
    if authorization:
        found = principal_of_text(bearer_text(authorization))
        if found is None:
            raise BadToken
        return found
    return principal_of_user(request.user)


def bearer_text(authorization: str) -> str:
    return authorization[len(BEARER) :].strip() if authorization[: len(BEARER)].lower() == BEARER else ""


def principal_set(request: HttpRequest, principal: Principal) -> None:
    setattr(request, _ATTRIBUTE, principal)


def principal_of(request: HttpRequest | Request) -> Principal:
    """Who acts; the gate has seen to it on every route that needs a login."""
    principal: Principal = getattr(request, _ATTRIBUTE)
    return principal


class Machine:
    """What REST framework calls the user, where a token acts."""

    is_authenticated = True
    is_anonymous = False
    pk = None

    def __init__(self, principal: Principal) -> None:
        self.username = principal.actor

    def __str__(self) -> str:
        return self.username


class GateAuthentication(SessionAuthentication):
    """What the gate found. A browser sends its cookie by itself, so a person's change needs the CSRF token too."""

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
    """A view that is reached in another way than through the gate lets nobody in."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return getattr(request._request, _ATTRIBUTE, None) is not None


def author_of(request: Request) -> str:
    return principal_of(request).actor


ScopedRow = TypeVar("ScopedRow", bound=Model)


def tenants_of(request: Request) -> QuerySet[Tenant]:
    return scope.tenants_of(principal_of(request))


def narrowed(request: Request, rows: QuerySet[ScopedRow], tenant: str) -> QuerySet[ScopedRow]:
    """`tenant`: the path from a row to its tenant."""
    return scope.scoped(principal_of(request), rows, tenant)
