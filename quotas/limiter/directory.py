"""Whose a credential is, and which endpoint serves a path, as the publisher has written it to the store.

Kept here for a moment only: a revoked key is refused, and a new one accepted, well within a second. While the store is
away, what was known stays known. Conversations, as in `core`: no input or output.
"""

from __future__ import annotations

import hmac
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quotas.limiter import keys
from quotas.limiter.check import pack
from quotas.limiter.core import Conversation, Core
from quotas.limiter.errors import StoreError, StoreRefusedError
from quotas.limiter.recent import Recent
from quotas.policy.routes import Route

# From a revocation in the store to the refusal: twice this if a request is cut short just then.
FRESH_S: Final = 0.3
CREDENTIALS_KEPT: Final = 8_192
EVERY_TENANT: Final = ""
TOKEN: Final = "token"  # noqa: S105 - the name of a field
PEPPER: Final = "pepper"
ROUTES: Final = "routes"
MARKER: Final = "*"  # a field that every index has: one without it was lost, and says nothing about anybody

_TEXT: Final = re.compile(r"hr_[0-9a-f]{16}_[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    key_id: str
    tenant: str  # EVERY_TENANT: it speaks for all of them
    scopes: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Credential:
        key_id, scopes, tenant = text.split(" ")
        return cls(key_id, tenant, frozenset(scopes.split(",")))

    def __str__(self) -> str:
        """As it stands in the index."""
        return f"{self.key_id} {','.join(sorted(self.scopes))} {self.tenant}"


@dataclass(slots=True)
class _Known:
    credential: Credential | None  # None: the store knows none
    read_s: float


def secret_hash(pepper: bytes, text: str) -> str:
    """Under which the index knows a credential (twin of tenants.keys)."""
    return hmac.digest(pepper, text.rpartition("_")[2].encode(), "sha256").hex()


def encode_routes(routes: list[Route]) -> str:
    return json.dumps([[route.endpoint, route.method, route.path] for route in routes], separators=(",", ":"))


class Directory:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._token = b""  # of the routes that are held
        self._pepper = b""
        self._read_s = float("-inf")
        self._known: Recent[str, _Known] = Recent(CREDENTIALS_KEPT)  # by the text that was sent
        self.routes: tuple[Route, ...] = ()  # replaced whole

    def refresh(self, core: Core) -> Conversation[None]:
        """Routes and pepper, if it is time to look again. StoreError only if there is nothing to go on with."""
        now = self._clock()
        if now - self._read_s < FRESH_S:
            return
        # Whoever comes meanwhile goes on with what there is.
        self._read_s = now if self._pepper else self._read_s
        try:
            yield from self._reread(core)
            self._read_s = now
        except StoreError:
            if not self._pepper:
                raise

    def _reread(self, core: Core) -> Conversation[None]:
        (token,) = yield from _read(core, keys.directory(), TOKEN)
        if token is None or token != self._token:
            self._take(*(yield from _read(core, keys.directory(), TOKEN, PEPPER, ROUTES)))

    def _take(self, token: bytes | None, pepper: bytes | None, text: bytes | None) -> None:
        if token is None or pepper is None or text is None:
            # A store that was emptied a moment ago tells nothing about routes and keys.
            raise StoreRefusedError("the store has no directory of keys and routes yet")
        try:
            routes, secret = tuple(Route(*row) for row in json.loads(text)), bytes.fromhex(pepper.decode())
        except (ValueError, TypeError):
            raise StoreRefusedError("the store's directory of keys and routes cannot be read") from None
        self.routes, self._pepper, self._token = routes, secret, token

    def credential(self, core: Core, text: str) -> Conversation[Credential | None]:
        """None: unknown, wrong or revoked. StoreError: the store is away, and this one is not known here."""
        known = self._known.get(text)
        now = self._clock()
        if known is None:
            if not _TEXT.fullmatch(text):
                return None
        else:
            if now - known.read_s < FRESH_S:
                return known.credential
            # Whoever comes meanwhile goes on with what there is.
            known.read_s = now
        try:
            credential = yield from self._read_credential(core, text)
        except StoreError:
            if known is None:
                raise
            return known.credential
        self._known.put(text, _Known(credential, now))
        return credential

    def _read_credential(self, core: Core, text: str) -> Conversation[Credential | None]:
        yield from self.refresh(core)
        digest = secret_hash(self._pepper, text)
        index = keys.credentials(keys.shard_of(digest, core.shards))
        entry, marker = yield from _read(core, index, digest, MARKER)
        if marker is None:
            raise StoreRefusedError("the store has no index of credentials yet")
        try:
            return Credential.parse(entry.decode()) if entry is not None else None
        except ValueError:
            raise StoreRefusedError("the store's index of credentials cannot be read") from None


def _read(core: Core, key: str, *fields: str) -> Conversation[list[bytes | None]]:
    reply: list[bytes | None] = yield from core.read(pack(("HMGET", key, *fields)))
    return reply
