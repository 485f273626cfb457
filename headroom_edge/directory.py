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
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from headroom_edge import keys
from headroom_edge.check import pack
from headroom_edge.core import Conversation, Core
from headroom_edge.errors import StoreError, StoreRefusedError
from headroom_edge.plan.routes import Route
from headroom_edge.recent import RecentCache

# From a revocation in the store to the refusal: twice this if a request is cut short just then.
FRESH_S: Final = 0.3
CREDENTIALS_KEPT: Final = 8_192
EVERY_TENANT: Final = ""
TOKEN: Final = "token"  # noqa: S105 - the name of a field
PEPPER: Final = "pepper"
ROUTES: Final = "routes"
MARKER: Final = "*"  # a field that every index has: one without it was lost, and says nothing about anybody

_TOKEN: Final = pack(("HMGET", keys.directory(), TOKEN))
_TABLE: Final = pack(("HMGET", keys.directory(), TOKEN, PEPPER, ROUTES))
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
class _CachedCredential:
    credential: Credential | None  # None: the store knows none
    read_s: float


def secret_hash(pepper: bytes, text: str) -> str:
    """Under which the index knows a credential (twin of tenants.secrets)."""
    return hmac.digest(pepper, text.rpartition("_")[2].encode(), "sha256").hex()


def encode_routes(routes: list[Route]) -> str:
    return json.dumps([[route.endpoint, route.method, route.path] for route in routes], separators=(",", ":"))


class Directory:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._token = b""  # of the routes that are held
        self._pepper = b""
        self._read_s = float("-inf")
        self._known: RecentCache[str, _CachedCredential] = RecentCache(CREDENTIALS_KEPT)  # by the text that was sent
        self.routes: tuple[Route, ...] = ()  # replaced whole
        self.endpoints: frozenset[str] = frozenset()  # all that are registered, also those without a path

    def refresh(self, core: Core) -> Conversation[None]:
        """Routes and pepper, if it is time to look again. StoreError only if there is nothing to go on with."""
        if not self._pepper:
            yield from self._reread(core)
        elif self._is_time():
            with suppress(StoreError):
                ((token,),) = yield from core.read(_TOKEN)
                yield from self._follow(core, token)

    def _is_time(self) -> bool:
        """True once: whoever comes meanwhile goes on with what there is."""
        now = self._clock()
        if now - self._read_s < FRESH_S:
            return False
        self._read_s = now
        return True

    def _follow(self, core: Core, token: bytes | None) -> Conversation[None]:
        if token is None or token != self._token:
            yield from self._reread(core)

    def _reread(self, core: Core) -> Conversation[None]:
        now = self._clock()
        (found,) = yield from core.read(_TABLE)
        self._take(*found)
        self._read_s = now

    def _take(self, token: bytes | None, pepper: bytes | None, text: bytes | None) -> None:
        if token is None or pepper is None or text is None:
            # A store that was emptied a moment ago tells nothing about routes and keys.
            raise StoreRefusedError("the store has no directory of keys and routes yet")
        try:
            found, secret = [Route(*row) for row in json.loads(text)], bytes.fromhex(pepper.decode())
        except (ValueError, TypeError):
            raise StoreRefusedError("the store's directory of keys and routes cannot be read") from None
        self.endpoints = frozenset(route.endpoint for route in found)
        self.routes, self._pepper, self._token = tuple(route for route in found if route.path), secret, token

    def fresh(self, text: str) -> Credential | None:
        """What was read a moment ago; None: it has to be looked up, or there is none."""
        known = self._known.get(text)
        if known is None or self._clock() - known.read_s >= FRESH_S:
            return None
        return known.credential

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
        self._known.put(text, _CachedCredential(credential, now))
        return credential

    def _read_credential(self, core: Core, text: str) -> Conversation[Credential | None]:
        if not self._pepper:
            yield from self._reread(core)
        pepper = self._pepper
        (entry, marker), *told = yield from core.read(*self._questions(core, text))
        for (token,) in told:
            with suppress(StoreError):
                yield from self._follow(core, token)
        if self._pepper != pepper:
            ((entry, marker),) = yield from core.read(self._question(core, text))
        if marker is None:
            raise StoreRefusedError("the store has no index of credentials yet")
        try:
            return Credential.parse(entry.decode()) if entry is not None else None
        except ValueError:
            raise StoreRefusedError("the store's index of credentials cannot be read") from None

    def _questions(self, core: Core, text: str) -> list[bytes]:
        """About the credential and, if it is time, about the routes: one round trip for both."""
        return [self._question(core, text), *([_TOKEN] if self._is_time() else ())]

    def _question(self, core: Core, text: str) -> bytes:
        digest = secret_hash(self._pepper, text)
        return pack(("HMGET", keys.credentials(keys.shard_of(digest, core.shards)), digest, MARKER))
