"""Texts that Postgres keeps but must not tell: sealed with a key that follows from SECRET_KEY.

The same text always gives the same sealed one (AES-SIV), so rows can be found by it; and unlike a hash it can be
opened again. A rotated SECRET_KEY makes what was sealed before unreadable.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from django.conf import settings

_SALT = "tenants.sealing"


@lru_cache(maxsize=4)
def _cipher(secret: str) -> AESSIV:
    return AESSIV(hashlib.sha512((_SALT + secret).encode()).digest())


def seal(text: bytes) -> bytes:
    """Nothing stays nothing."""
    return _cipher(settings.SECRET_KEY).encrypt(text, None) if text else b""


def unseal(sealed: bytes) -> bytes | None:
    """None: it was sealed with another key, or is damaged."""
    if not sealed:
        return b""
    try:
        return _cipher(settings.SECRET_KEY).decrypt(sealed, None)
    except InvalidTag:
        return None
