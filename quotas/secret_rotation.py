"""Changes keys while everything stays valid: SECRET_KEY, and the keys that the keyring stores under it.

A new version of a stored key goes through four steps: it is added; everything that an older one protects is moved to
it; the older ones are retired; after a while, when no process uses them any more, they are deleted. Every function may
be stopped at any point and run again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from quotas.api_keys import live_keys
from quotas.locks import Lock, take_lock
from quotas.models import AlertTarget, AuditEvent, CalendarCounter
from quotas.outbox import put_every_key, put_key
from tenants import keyring
from tenants.models import HASH_DUE, ApiKey, ApiToken, KeyPurpose, KeyVersion
from tenants.secrets import KeyText, sealer

logger = logging.getLogger(__name__)

# Longer than any task that has read the keys, and than enforcers trust what they have read (0.3 s).
GRACE: Final = timedelta(minutes=10)
AT_ONCE: Final = 500
SHOWN: Final = 10


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


def keys_renew(*, author: str) -> list[KeyVersion]:
    """Adds a version of each key that is not being renewed already."""
    added = []
    for purpose in KeyPurpose.values:
        with transaction.atomic():
            rows = KeyVersion.objects.filter(purpose=purpose)
            list(rows.select_for_update())
            # Read again: whoever had the lock before may have added one.
            versions = list(rows.all())
            if len(versions) == 1:
                row = keyring.wrapped(purpose, versions[0].version + 1, keyring.new_key())
                row.save()
                AuditEvent.objects.create(kind="key_renewed", detail={"key": str(row), "author": author})
                added.append(row)
    return added


def keys_advance(now: datetime | None = None) -> list[str]:
    """Does what can be done now for keys that are being renewed. Returns a sentence for each that is not finished."""
    now = now or timezone.now()
    steps = {keyring.SEALING: _seal_again, keyring.SUBJECTS: _wait_for_denials, keyring.API_KEYS: _wait_for_secrets}
    return [sentence for purpose, step in steps.items() if (sentence := _advance(purpose, step, now))]


def _advance(purpose: str, step: Callable[[KeyVersion, datetime], str], now: datetime) -> str:
    """`step` moves what it can to the newest version, and says what is left; empty: nothing."""
    *older, newest = KeyVersion.objects.filter(purpose=purpose)
    if not older:
        return ""
    left = step(newest, now)
    if left:
        return f"{purpose}: {left}"
    with transaction.atomic():
        rows = KeyVersion.objects.select_for_update().filter(purpose=purpose, version__lt=newest.version)
        if rows.filter(retired_at=None).update(retired_at=now) and purpose == keyring.API_KEYS:
            put_every_key()
        rest = rows.filter(retired_at__gt=now - GRACE)
        if rest.exists():
            return f"{purpose}: nothing needs the old key; run this again in {GRACE.seconds // 60} minutes to delete it"
        if purpose == keyring.API_KEYS:
            _take_newer_hashes(newest)
        rows.delete()
    return ""


def _seal_again(newest: KeyVersion, now: datetime) -> str:
    for target in AlertTarget.objects.exclude(secret=b""):
        with transaction.atomic():
            sealing = sealer(lock=True)
            row = AlertTarget.objects.select_for_update().filter(pk=target.pk).first()
            text = None if row is None else sealing.unseal(bytes(row.secret))
            if row is not None and text:
                AlertTarget.objects.filter(pk=row.pk).update(secret=sealing.seal(text))
    for part in _batches(_older_counters()):
        _seal_counters_again(part)
    return ""


def _older_counters() -> Iterator[tuple[object, ...]]:
    sealing = sealer()
    for row in CalendarCounter.objects.exclude(subject=b"").iterator():
        if not sealing.is_newest(bytes(row.subject)):
            yield row.pk


def _seal_counters_again(numbers: list[tuple[object, ...]]) -> None:
    """The subject is part of the primary key, so the row is written anew. A drain may have done so already."""
    with transaction.atomic():
        take_lock(Lock.CALENDARS)
        sealing = sealer(lock=True)
        old = CalendarCounter.objects.filter(pk__in=numbers)
        anew = []
        for row in old:
            text = sealing.unseal(bytes(row.subject))
            if text is not None:
                row.subject = sealing.seal(text)
                anew.append(row)
        CalendarCounter.objects.bulk_create(anew, ignore_conflicts=True)
        old.delete()


def _batches(numbers: Iterable[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    part: list[tuple[object, ...]] = []
    for number in numbers:
        part.append(number)
        if len(part) == AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _wait_for_denials(newest: KeyVersion, now: datetime) -> str:
    """Hashes cannot be made anew; they age out. Until then the old key finds them (quotas.erasure)."""
    until = newest.created + timedelta(days=settings.HEADROOM_KEEP_DAYS["denials"] + 1)
    return f"denials hashed with the old key are kept until {until:%Y-%m-%d}" if now < until else ""


def _wait_for_secrets(newest: KeyVersion, now: datetime) -> str:
    """Only the hash of a secret is stored, so it is hashed anew when it is seen (`key_hash_again`)."""
    for rows in _valid(newest):
        rows.filter(next_hash="").update(next_hash=HASH_DUE)
    waiting = keys_waiting()
    if not waiting:
        return ""
    some = ", ".join(waiting[:SHOWN])
    if len(waiting) > SHOWN:
        some += f" and {len(waiting) - SHOWN} more (`rotate_secrets --list` names them all)"
    return (
        f"{len(waiting)} API keys and tokens have only a hash with the old key. Any request of theirs to the REST API "
        f"makes the new one; or replace them: {some}"
    )


def keys_waiting() -> list[str]:
    """The credentials that have no hash with the newest key yet, each with its tenant or as a token."""
    due = {"revoked_at": None, "next_hash": HASH_DUE}
    keys = (
        live_keys(timezone.now()).filter(**due).order_by("tenant__name", "key_id").values_list("key_id", "tenant__name")
    )
    tokens = ApiToken.objects.filter(**due).order_by("key_id").values_list("key_id", flat=True)
    return [*(f"{key} of {tenant}" for key, tenant in keys), *(f"{token} (a token)" for token in tokens)]


def _valid(newest: KeyVersion) -> tuple[QuerySet[ApiKey], QuerySet[ApiToken]]:
    """Credentials whose first hash is older than the newest key."""
    return (
        live_keys(timezone.now()).filter(secret_version__lt=newest.version),
        ApiToken.objects.filter(revoked_at=None, secret_version__lt=newest.version),
    )


def _take_newer_hashes(newest: KeyVersion) -> None:
    for model in (ApiKey, ApiToken):
        rows = model._default_manager.exclude(Q(next_hash="") | Q(next_hash=HASH_DUE))
        rows.update(secret_hash=F("next_hash"), secret_version=newest.version, next_hash="")
    put_every_key()


def key_hash_again(text: str) -> None:
    """Stores the hash that is due, now that the secret is here. The request goes on even if that fails."""
    key = KeyText.parse(text)
    if key is None:
        return
    try:
        with transaction.atomic():
            newer = key.hash_fields()["next_hash"]
            due = [model._default_manager.filter(key_id=key.key_id, next_hash=HASH_DUE) for model in (ApiKey, ApiToken)]
            if newer and any(rows.update(next_hash=newer) for rows in due):
                put_key(key.key_id)
    except DatabaseError as error:
        logger.warning("the hash of %s was not stored: %s", key.key_id, error)
