"""The roles of people. Their accounts are Django's; changes of their roles are recorded in the audit."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from quotas.errors import author_and_reason, refuse
from quotas.lookups import find_tenant
from quotas.models import AuditEvent
from tenants.history import acting
from tenants.models import Membership, Role


def member_set(*, user: str, role: str, author: str, reason: str, tenant: str | None = None) -> Membership:
    """Gives an account its one role, which replaces the former one."""
    author, reason = author_and_reason(author, reason)
    if role not in Role.values:
        raise refuse("role", "unknown", f"role must be one of {', '.join(Role.values)}")
    if (role == Role.TENANT) != (tenant is not None):
        raise refuse("tenant", "role", "a member of the role tenant names the tenant, and no other member does")
    with acting(author=author, action="member_set"), transaction.atomic():
        account = _find(user)
        owner = None if tenant is None else find_tenant(tenant)
        row, _ = Membership.objects.update_or_create(user=account, defaults={"role": role, "tenant": owner})
        _record("member_set", row, author, reason)
    return row


def member_remove(*, user: str, author: str, reason: str) -> None:
    """Takes the role away; the account stays."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="member_remove"), transaction.atomic():
        row = Membership.objects.filter(user=_find(user)).first()
        if row is None:
            raise refuse("user", "unknown", f"{user} has no role to take away")
        _record("member_removed", row, author, reason)
        row.delete()


def _find(name: str) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        raise refuse("user", "unknown", f"there is no account {name}; create it with --create, or correct the name")
    return user


def _record(kind: str, row: Membership, author: str, reason: str) -> None:
    tenant = None if row.tenant is None else row.tenant.name
    detail = {"user": row.user.username, "role": row.role, "tenant": tenant, "author": author, "reason": reason}
    AuditEvent.objects.create(kind=kind, detail=detail)
