"""Changes keys while everything stays valid: SECRET_KEY, and the keys that the keyring stores under it.

Every function may be stopped at any point and run again.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from quotas.models import AuditEvent
from tenants import keyring
from tenants.models import KeyVersion


@dataclass(frozen=True, slots=True)
class KeyState:
    """One stored key, as the command shows it."""

    row: KeyVersion
    is_current: bool  # under SECRET_KEY itself, not under a former one


def key_states() -> list[KeyState]:
    """Raises KeyringError if a key cannot be opened."""
    keyring.read_keys(keyring.API_KEYS)
    rows = list(KeyVersion.objects.all())
    for row in rows:
        keyring.unwrap(row)
    return [KeyState(row, keyring.is_wrapped_under(row, settings.SECRET_KEY)) for row in rows]


def keys_rewrap(*, author: str) -> int:
    """Encrypts under SECRET_KEY what a former one encrypts. Returns how many keys that were."""
    with transaction.atomic():
        rows = KeyVersion.objects.select_for_update()
        former = [row for row in rows if not keyring.is_wrapped_under(row, settings.SECRET_KEY)]
        for row in former:
            row.wrapped = keyring.wrapped(row.purpose, row.version, keyring.unwrap(row)).wrapped
            row.save(update_fields=["wrapped"])
        if former:
            detail = {"keys": [str(row) for row in former], "author": author}
            AuditEvent.objects.create(kind="keys_rewrapped", detail=detail)
    return len(former)
