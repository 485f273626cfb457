"""The keys that this installation keeps in its database, one or more versions for each purpose.

Each key is stored encrypted under SECRET_KEY or one of SECRET_KEY_FALLBACKS. So SECRET_KEY can change without changing
the keys themselves: API keys stay valid and sealed texts stay readable (quotas.secret_rotation).

Version 1 is derived from the SECRET_KEY of the first start, as releases without this table derived it at every use.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from tenants.isolation import unrestricted
from tenants.models import ApiKey, ApiToken, KeyPurpose, KeyVersion

API_KEYS: Final = KeyPurpose.API_KEYS
SEALING: Final = KeyPurpose.SEALING
SUBJECTS: Final = KeyPurpose.SUBJECTS

KEY_BYTES: Final = 64
# How releases without this table derived their keys. These texts never change.
_FIRST: Final[Mapping[str, tuple[str, str]]] = {
    API_KEYS: ("sha256", "tenants.keys"),
    SEALING: ("sha512", "tenants.sealing"),
    SUBJECTS: ("sha256", "quotas.usage.subject"),
}
_WRAPPING_SALT: Final = "tenants.keyring"

WRONG_KEY: Final = (
    "SECRET_KEY cannot open the keys of this installation; set SECRET_KEY to the value used before, "
    "or put that value into SECRET_KEY_FALLBACKS."
)
_EARLY: Final = (
    "SECRET_KEY_FALLBACKS is set before this release has stored its keys; start once with the SECRET_KEY used so far "
    "and without SECRET_KEY_FALLBACKS, then change SECRET_KEY."
)


class KeyringError(ImproperlyConfigured):
    """The stored keys cannot be opened. The message is one sentence for the operator."""


class WrongKeyError(KeyringError):
    """Neither SECRET_KEY nor a fallback is the one they are stored under."""

    def __init__(self) -> None:
        super().__init__(WRONG_KEY)


@dataclass(frozen=True, slots=True)
class Keys:
    """The versions of one purpose; at least one."""

    by_version: Mapping[int, bytes]
    in_use: int  # the oldest version that is not retired: everything stored can be read or checked with it or a newer

    @property
    def newest(self) -> int:
        return max(self.by_version)

    @property
    def newest_first(self) -> list[bytes]:
        return [self.by_version[version] for version in sorted(self.by_version, reverse=True)]


def read_keys(purpose: str, *, lock: bool = False) -> Keys:
    """`lock`: inside a transaction, no version is added or retired until it ends."""
    rows = _rows(purpose, lock=lock)
    if not rows:
        _store_first_versions()
        rows = _rows(purpose, lock=lock)
    in_use = min(row.version for row in rows if row.retired_at is None)
    return Keys({row.version: unwrap(row) for row in rows}, in_use)


def _rows(purpose: str, *, lock: bool) -> list[KeyVersion]:
    with unrestricted():
        found = KeyVersion.objects.filter(purpose=purpose)
        return list(found.select_for_update(no_key=True) if lock else found)


def _store_first_versions() -> None:
    with unrestricted():
        if settings.SECRET_KEY_FALLBACKS and (ApiKey.objects.exists() or ApiToken.objects.exists()):
            raise KeyringError(_EARLY)
        rows = [
            wrapped(purpose, 1, hashlib.new(name, (salt + settings.SECRET_KEY).encode()).digest())
            for purpose, (name, salt) in _FIRST.items()
        ]
        KeyVersion.objects.bulk_create(rows, ignore_conflicts=True)


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def wrapped(purpose: str, version: int, key: bytes) -> KeyVersion:
    """A new row, encrypted under SECRET_KEY. Purpose and version are authenticated, so rows cannot be swapped."""
    text = _cipher(settings.SECRET_KEY).encrypt(key, _place(purpose, version))
    return KeyVersion(purpose=purpose, version=version, wrapped=text)


def unwrap(row: KeyVersion) -> bytes:
    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        key = _opened(row, secret)
        if key is not None:
            return key
    raise WrongKeyError


def is_wrapped_under(row: KeyVersion, secret: str) -> bool:
    return _opened(row, secret) is not None


def _opened(row: KeyVersion, secret: str) -> bytes | None:
    try:
        return _cipher(secret).decrypt(bytes(row.wrapped), _place(row.purpose, row.version))
    except InvalidTag:
        return None


def _place(purpose: str, version: int) -> list[bytes]:
    return [f"{purpose} {version}".encode()]


@lru_cache(maxsize=8)
def _cipher(secret: str) -> AESSIV:
    return AESSIV(hashlib.sha512((_WRAPPING_SALT + secret).encode()).digest())


_peppers: dict[tuple[str, int], bytes] = {}


def pepper(version: int) -> bytes:
    """The HMAC key of API keys and tokens. Kept in memory, because every request of a machine needs it."""
    place = (settings.SECRET_KEY, version)
    if place not in _peppers:
        keys = read_keys(API_KEYS).by_version
        if version not in keys:
            raise KeyringError(f"Version {version} of the API keys' key is missing; restore it from a backup.")
        _peppers[place] = keys[version]
    return _peppers[place]


def forget() -> None:
    """Empties what is kept in memory."""
    _peppers.clear()
