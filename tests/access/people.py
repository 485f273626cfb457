"""Who the tests of access are about: alice and bob work here, charlie is a stranger; acme and bolt are tenants."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client

from quotas.tokens import token_issue
from tenants.models import Membership, Role, Tenant
from tenants.scope import SCOPES

STAFF = (Role.VIEWER.value, Role.OPERATOR.value, Role.APPROVER.value, Role.OWNER.value)


def person(name: str, role: str | None = None, tenant: str | None = None) -> User:
    """Without a password: they are signed in by force. No role: somebody who was never given one."""
    user, _ = User.objects.get_or_create(username=name, defaults={"password": "!"})
    if role is not None:
        owner = None if tenant is None else Tenant.objects.get(name=tenant)
        Membership.objects.update_or_create(user=user, defaults={"role": role, "tenant": owner})
    return user


def signed_in(name: str, role: str | None = None, tenant: str | None = None) -> Client:
    client = Client()
    client.force_login(person(name, role, tenant))
    return client


def token(role: str = "viewer", *scopes: str, tenant: str | None = None, issuer: str = "alice") -> str:
    """A machine with the role to approve may approve, and so may its issuer, unless they have another role."""
    user, may_approve = person(issuer), role in ("approver", "owner") and "approve" in (scopes or SCOPES)
    if may_approve and not Membership.objects.filter(user=user).exists():
        person(issuer, role)
    issued = token_issue(
        label="a test",
        role=role,
        scopes=scopes or SCOPES,
        tenant=tenant,
        author=issuer,
        reason="a test",
        may_approve=may_approve,
    )
    return str(issued.text)


def machine(text: str) -> Client:
    return Client(headers={"authorization": f"Bearer {text}"})
