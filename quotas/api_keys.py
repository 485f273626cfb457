"""API keys. They change often and hold no limits, so they have no revision and wait for no lock."""

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
from tenants.models import ApiKey
from tenants.secrets import KeyText

SCOPES = ("check", "read", "write")
LONGEST_LABEL = 200


@dataclass(frozen=True, slots=True)
class IssuedKey:
    row: ApiKey
    text: KeyText  # shown once: it cannot be had again


def api_key_issue(
    *, tenant: str, author: str, reason: str, scopes: Collection[str] = ("check",), label: str = ""
) -> IssuedKey:
    author, reason = author_and_reason(author, reason)
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise refuse("scopes", "unknown", f"scopes must be one or more of {', '.join(SCOPES)}")
    one_line("label", label, LONGEST_LABEL)
    text = KeyText.make()
    with acting(author=author, action="api_key_issue"), transaction.atomic():
        row = ApiKey.objects.create(
            tenant=find_tenant(tenant),
            key_id=text.key_id,
            **text.hash_fields(),
            scopes=sorted(set(scopes)),
            label=label,
        )
        _record("api_key_issued", row, author, reason)
    return IssuedKey(row, text)


def api_key_revoke(*, key_id: str, author: str, reason: str) -> ApiKey:
    """Revokes a key for good."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="api_key_revoke"), transaction.atomic():
        row = ApiKey.objects.select_for_update(of=("self",)).select_related("tenant").filter(key_id=key_id).first()
        if row is None:
            raise refuse("key_id", "unknown", f"there is no API key {key_id}; correct the id")
        if row.revoked_at is None:
            row.revoked_at = timezone.now()
            row.save(update_fields=["revoked_at"])
            _record("api_key_revoked", row, author, reason)
    return row


def _record(kind: str, row: ApiKey, author: str, reason: str) -> None:
    detail = {"key_id": row.key_id, "tenant": row.tenant.name, "author": author, "reason": reason}
    AuditEvent.objects.create(kind=kind, detail=detail)
    put_key(row.key_id)
