"""API tokens for machines: shown once, revoked for good. Like API keys, they have no revision."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from quotas.errors import author_and_reason, one_line, refuse
from quotas.lookups import find_tenant
from quotas.models import AuditEvent
from quotas.outbox import put_key
from tenants.history import acting
from tenants.models import ApiToken, Role, Tenant
from tenants.scope import SCOPES
from tenants.secrets import KeyText

LONGEST_LABEL = 200


@dataclass(frozen=True, slots=True)
class IssuedToken:
    row: ApiToken
    text: KeyText  # shown once: it cannot be had again


def token_issue(
    *, label: str, role: str, scopes: Collection[str], author: str, reason: str, tenant: str | None = None
) -> IssuedToken:
    author, reason = author_and_reason(author, reason)
    label = label.strip()
    _check(label, role, scopes)
    text = KeyText.make()
    with acting(author=author, action="token_issue"), transaction.atomic():
        row = ApiToken.objects.create(
            key_id=text.key_id,
            secret_hash=text.secret_hash(),
            label=label,
            role=role,
            scopes=sorted(set(scopes)),
            tenant=_bound_to(role, tenant),
            author=author,
        )
        _record("api_token_issued", row, author, reason)
    return IssuedToken(row, text)


def token_revoke(*, key_id: str, author: str, reason: str) -> ApiToken:
    """Revokes a token for good."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="token_revoke"), transaction.atomic():
        row = ApiToken.objects.select_for_update().filter(key_id=key_id).first()
        if row is None:
            raise refuse("key_id", "unknown", f"there is no token {key_id}; correct the id")
        if row.revoked_at is None:
            row.revoked_at = timezone.now()
            row.save(update_fields=["revoked_at"])
            _record("api_token_revoked", row, author, reason)
    return row


def _check(label: str, role: str, scopes: Collection[str]) -> None:
    if not label:
        raise refuse("label", "missing", "label is missing; say what the token is for")
    one_line("label", label, LONGEST_LABEL)
    if role not in Role.values:
        raise refuse("role", "unknown", f"role must be one of {', '.join(Role.values)}")
    if not scopes or set(scopes) - set(SCOPES):
        raise refuse("scopes", "unknown", f"scopes must be one or more of {', '.join(SCOPES)}")


def _bound_to(role: str, tenant: str | None) -> Tenant | None:
    if (role == Role.TENANT) != (tenant is not None):
        raise refuse("tenant", "role", "a token of the role tenant names its tenant, and no other token does")
    return None if tenant is None else find_tenant(tenant)


def _record(kind: str, row: ApiToken, author: str, reason: str) -> None:
    detail = {"key_id": row.key_id, "label": row.label, "role": row.role, "author": author, "reason": reason}
    AuditEvent.objects.create(kind=kind, detail=detail)
    put_key(row.key_id)
