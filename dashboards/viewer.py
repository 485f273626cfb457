"""The signed-in user of a page and the buttons their role shows. The gate checks the role again on each request."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest

from tenants.models import Role, Tenant
from tenants.scope import Principal

OPERATES = frozenset({Role.OPERATOR.value, Role.APPROVER.value, Role.OWNER.value})
APPROVES = frozenset({Role.APPROVER.value, Role.OWNER.value})


@dataclass(frozen=True, slots=True)
class Viewer:
    name: str
    role: str
    tenant: Tenant | None

    @property
    def operates(self) -> bool:
        return self.role in OPERATES

    @property
    def approves(self) -> bool:
        return self.role in APPROVES

    @property
    def owns(self) -> bool:
        return self.role == Role.OWNER.value

    @property
    def initials(self) -> str:
        return initials(self.name)


def principal_of(request: HttpRequest) -> Principal:
    """Set by the gate (access.gate) on every page that requires sign-in."""
    principal: Principal = request.principal  # type: ignore[attr-defined]
    return principal


def viewer_of(request: HttpRequest) -> Viewer:
    principal = principal_of(request)
    return Viewer(principal.actor, principal.role, principal.tenant)


def initials(name: str) -> str:
    words = [word for word in name.replace("_", "-").replace(".", "-").replace("@", "-").split("-") if word]
    letters = words[0][:2] if len(words) == 1 else "".join(word[0] for word in words[:2])
    return letters.upper() if words else "?"
