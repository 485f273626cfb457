"""Look-ups in what the publisher wrote to the store: the owner of a credential, the endpoint of a path.

Results are cached for a moment only, so a revoked key is refused and a new one accepted within a second. While the
store is down, cached results stay valid, but a key that has an end is refused from that moment on, whoever is down.
Conversations, as in `core`: no I/O.
"""

from __future__ import annotations

import hmac
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from headroom_edge import keys
from headroom_edge.check import pack
from headroom_edge.core import Conversation, Core
from headroom_edge.errors import StoreError, StoreRefusedError
from headroom_edge.plan.routes import Route
from headroom_edge.recent_cache import RecentCache

# The longest time from a revocation in the store to its effect; twice this if a request is cancelled in between.
FRESH_S: Final = 0.3
CREDENTIALS_KEPT: Final = 8_192
UNKNOWN_KEPT: Final = 1_024
EVERY_TENANT: Final = ""
TOKEN: Final = "token"  # noqa: S105 - the name of a field
PEPPER: Final = "pepper"
ROUTES: Final = "routes"
MARKER: Final = "*"  # every index has this field; without it the index was lost, and a missing key means nothing

# These facts stand among a key's scopes: enforcers before 0.3 read exactly three words and ignore unknown scopes.
_ENDS: Final = "!ends="
_COUNTED_AS: Final = "!as="
NEVER_S: Final = float("inf")

_TOKEN: Final = pack(("HMGET", keys.directory(), TOKEN))
_TABLE: Final = pack(("HMGET", keys.directory(), TOKEN, PEPPER, ROUTES))
_TEXT: Final = re.compile(r"hr_[0-9a-f]{16}_[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    key_id: str
    tenant: str  # EVERY_TENANT: valid for all tenants
    scopes: frozenset[str]
    counted_as: str = ""  # what limits per key count it as: the first key of its line of rotations
    ends_ms: int | None = None  # since 1970; None: never

    def __post_init__(self) -> None:
        if not self.counted_as:
            object.__setattr__(self, "counted_as", self.key_id)

    @classmethod
    def parse(cls, text: str) -> Self:
        key_id, words, tenant = text.split(" ")
        scopes, counted_as, ends_ms = [], "", None
        for word in words.split(","):
            if word.startswith(_ENDS):
                ends_ms = int(word.removeprefix(_ENDS))
            elif word.startswith(_COUNTED_AS):
                counted_as = word.removeprefix(_COUNTED_AS)
            else:
                scopes.append(word)
        return cls(key_id, tenant, frozenset(scopes), counted_as, ends_ms)

    def __str__(self) -> str:
        """The form stored in the index."""
        words = sorted(self.scopes)
        if self.ends_ms is not None:
            words.append(f"{_ENDS}{self.ends_ms}")
        if self.counted_as != self.key_id:
            words.append(f"{_COUNTED_AS}{self.counted_as}")
        return f"{self.key_id} {','.join(words)} {self.tenant}"


@dataclass(slots=True)
class _CachedCredential:
    credential: Credential | None  # None: it was revoked
    read_s: float
    ends_s: float  # by the same clock as `read_s`; NEVER_S


def secret_hash(pepper: bytes, text: str) -> str:
    """The index's key for a credential. Must match tenants.secrets."""
    return hmac.digest(pepper, text.rpartition("_")[2].encode(), "sha256").hex()


def encode_routes(routes: list[Route]) -> str:
    return json.dumps([[route.endpoint, route.method, route.path] for route in routes], separators=(",", ":"))


class Directory:
    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._token = b""  # of the cached routes
        self._pepper = b""
        self._read_s = float("-inf")
        self._known: RecentCache[str, _CachedCredential] = RecentCache(CREDENTIALS_KEPT)  # by the key as sent
        # Apart from the known ones, so that invented keys do not push them out: when each was looked up.
        self._unknown: RecentCache[str, float] = RecentCache(UNKNOWN_KEPT)
        self.routes: tuple[Route, ...] = ()  # never modified in place
        self.endpoints: frozenset[str] = frozenset()  # all registered ones, including those without a path

    def refresh(self, core: Core) -> Conversation[None]:
        """Reread routes and pepper if they are stale. Raises StoreError only if nothing is cached."""
        if not self._pepper:
            yield from self._reread(core)
        elif self._is_time():
            with suppress(StoreError):
                ((token,),) = yield from core.read(_TOKEN)
                yield from self._follow(core, token)

    @property
    def is_stale(self) -> bool:
        """Whether `refresh` would ask the store."""
        return not self._pepper or self._clock() - self._read_s >= FRESH_S

    def _is_time(self) -> bool:
        """True for one caller per interval; the others go on with the cached state."""
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
            # The store was just emptied: that does not mean that there are no routes or keys.
            raise StoreRefusedError("the store has no directory of keys and routes yet")
        try:
            found, secret = [Route(*row) for row in json.loads(text)], bytes.fromhex(pepper.decode())
        except (ValueError, TypeError):
            raise StoreRefusedError("the store's directory of keys and routes cannot be read") from None
        self.endpoints = frozenset(route.endpoint for route in found)
        self.routes, self._pepper, self._token = tuple(route for route in found if route.path), secret, token

    def fresh(self, text: str) -> Credential | None:
        """The credential if it was read a moment ago; None if it must be looked up or does not exist."""
        known = self._known.get(text)
        if known is None:
            return None
        now = self._clock()
        if now - known.read_s >= FRESH_S or now >= known.ends_s:
            return None
        return known.credential

    def credential(self, core: Core, text: str) -> Conversation[Credential | None]:
        """None if unknown, wrong, revoked or ended. Raises StoreError if the store is down and nothing is cached."""
        known = self._known.get(text)
        now = self._clock()
        if known is None:
            if not _TEXT.fullmatch(text) or now - (self._unknown.get(text) or float("-inf")) < FRESH_S:
                return None
        else:
            if now - known.read_s < FRESH_S:
                return self._valid(known)
            # Concurrent callers use the cached credential until this look-up ends.
            known.read_s = now
        try:
            credential = yield from self._read_credential(core, text)
        except StoreError:
            if known is None and self._unknown.get(text) is None:
                raise
            return self._valid(known) if known else None
        if credential is None and known is None:
            self._unknown.put(text, now)
            return None
        read = _CachedCredential(credential, now, self._end_of(credential))
        self._known.put(text, read)
        return self._valid(read)

    def _valid(self, known: _CachedCredential) -> Credential | None:
        return known.credential if self._clock() < known.ends_s else None

    def _end_of(self, credential: Credential | None) -> float:
        """By the clock that is never set, so that a wrong date in between neither revives a key nor ends it."""
        if credential is None or credential.ends_ms is None:
            return NEVER_S
        # The wall clock first: whatever happens between the two, no key ends before its time.
        remaining_s = credential.ends_ms / 1_000 - self._wall_clock()
        return self._clock() + remaining_s

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
            credential = Credential.parse(entry.decode()) if entry is not None else None
        except ValueError:
            raise StoreRefusedError("the store's index of credentials cannot be read") from None
        # The index is by secret alone. A secret under another id is not the key that was issued.
        return credential if credential is not None and credential.key_id == text.split("_")[1] else None

    def _questions(self, core: Core, text: str) -> list[bytes]:
        """Ask for the credential and, if it is stale, for the routes' token in the same round trip."""
        return [self._question(core, text), *([_TOKEN] if self._is_time() else ())]

    def _question(self, core: Core, text: str) -> bytes:
        digest = secret_hash(self._pepper, text)
        return pack(("HMGET", keys.credentials(keys.shard_of(digest, core.shards)), digest, MARKER))
