"""Secrets: API keys, of which only an HMAC is stored, and texts that are stored encrypted."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from django.conf import settings
from django.utils.crypto import constant_time_compare

ID_BYTES = 8
SECRET_BYTES = 32
_TEXT = re.compile(r"hr_([0-9a-f]{16})_([0-9a-f]{64})")
_SALT = "tenants.keys"

_SEAL_SALT = "tenants.sealing"


def pepper() -> bytes:
    """The HMAC key of every secret. Enforcers get it (quotas.publishing.gateway_tables). It hides SECRET_KEY."""
    return hashlib.sha256((_SALT + settings.SECRET_KEY).encode()).digest()


@dataclass(frozen=True, slots=True)
class KeyText:
    key_id: str
    secret: str

    @classmethod
    def make(cls) -> KeyText:
        return cls(secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> KeyText | None:
        match = _TEXT.fullmatch(text)
        return cls(match[1], match[2]) if match else None

    def __str__(self) -> str:
        return f"hr_{self.key_id}_{self.secret}"

    def __repr__(self) -> str:
        # Tracebacks and log messages must not contain the secret.
        return f"KeyText({self.key_id})"

    def secret_hash(self) -> str:
        """Keyed by SECRET_KEY, so that a copy of the database is not enough to verify guesses."""
        return hmac.digest(pepper(), self.secret.encode(), "sha256").hex()

    def matches(self, secret_hash: str) -> bool:
        return constant_time_compare(self.secret_hash(), secret_hash)


@lru_cache(maxsize=4)
def _cipher(secret: str) -> AESSIV:
    return AESSIV(hashlib.sha512((_SEAL_SALT + secret).encode()).digest())


def seal(text: bytes) -> bytes:
    """Encrypt. An empty text stays empty."""
    return _cipher(settings.SECRET_KEY).encrypt(text, None) if text else b""


def unseal(sealed: bytes) -> bytes | None:
    """Decrypt. None if it was encrypted with another key or is damaged."""
    if not sealed:
        return b""
    try:
        return _cipher(settings.SECRET_KEY).decrypt(sealed, None)
    except InvalidTag:
        return None
