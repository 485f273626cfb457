"""Secrets: API keys, of which only an HMAC is stored, and texts that are stored encrypted."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from django.utils.crypto import constant_time_compare

from tenants.keyring import API_KEYS, SEALING, pepper, read_keys

ID_BYTES = 8
SECRET_BYTES = 32
_TEXT = re.compile(r"hr_([0-9a-f]{16})_([0-9a-f]{64})")


class HashFields(TypedDict):
    secret_hash: str
    secret_version: int
    next_hash: str


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

    def hash_fields(self) -> HashFields:
        """What a new row stores. Run it in the transaction that stores it.

        While two versions are in use, the row has a hash for each: enforcers are told the older one until no key
        needs it.
        """
        keys = read_keys(API_KEYS, lock=True)
        newer = "" if keys.newest == keys.in_use else self._hash(keys.by_version[keys.newest])
        return {
            "secret_hash": self._hash(keys.by_version[keys.in_use]),
            "secret_version": keys.in_use,
            "next_hash": newer,
        }

    def opens(self, secret_hash: str, version: int | None) -> bool:
        """Keyed, so that a copy of the database is not enough to verify guesses. `version` None: there is no key."""
        return constant_time_compare(self._hash(b"" if version is None else pepper(version)), secret_hash)

    def _hash(self, key: bytes) -> str:
        return hmac.digest(key, self.secret.encode(), "sha256").hex()


class Sealer:
    """Encrypts with the newest key; decrypts what any stored version has encrypted.

    The same text always gives the same result, until there is a newer key.
    """

    def __init__(self, newest_first: Iterable[bytes]) -> None:
        self._ciphers = [AESSIV(key) for key in newest_first]

    def seal(self, text: bytes) -> bytes:
        """An empty text stays empty."""
        return self._ciphers[0].encrypt(text, None) if text else b""

    def is_newest(self, sealed: bytes) -> bool:
        """Whether the newest key encrypted it."""
        try:
            self._ciphers[0].decrypt(sealed, None)
        except InvalidTag:
            return False
        return True

    def unseal(self, sealed: bytes) -> bytes | None:
        """None if it was encrypted with a key that is gone, or is damaged."""
        if not sealed:
            return b""
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(sealed, None)
            except InvalidTag:
                continue
        return None


def sealer(*, lock: bool = False) -> Sealer:
    """`lock`: inside a transaction, no newer key appears until it ends. Whoever stores what it seals needs it."""
    return Sealer(read_keys(SEALING, lock=lock).newest_first)
