"""What gateways look up (quotas.limiter.directory): whose a credential is, and which endpoint serves a path."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import Any, NamedTuple, cast

import redis

from quotas.limiter import keys
from quotas.limiter.directory import MARKER, PEPPER, ROUTES, TOKEN, Credential, encode_routes
from quotas.models import Endpoint
from quotas.policy.routes import Route
from quotas.publishing.shards import CHUNK, batches
from tenants.keys import pepper
from tenants.models import ApiKey

PRESENT = "1"


class Indexed(NamedTuple):
    secret_hash: str
    text: str  # as it stands in the index


class CredentialIndex:
    """What S:i of every shard must hold: read whole once, then followed; no revision, so that a key works at once."""

    def __init__(self, client: redis.Redis, shards: int) -> None:
        self._client = client
        self.wanted: list[dict[str, str]] = [{MARKER: PRESENT} for _ in range(shards)]
        self._is_loaded = False

    def publish(self, changed: Collection[str]) -> None:
        if not self._is_loaded:
            self._load()
            self.restore(self.drifted())
        if changed:
            self._follow(changed)

    def drifted(self) -> set[int]:
        """By their number of fields; the contents are compared slice by slice."""
        with self._client.pipeline(transaction=False) as pipe:
            for shard in range(len(self.wanted)):
                pipe.hlen(keys.credentials(shard))
            found = cast("list[int]", pipe.execute())
        return {shard for shard, count in enumerate(found) if count != len(self.wanted[shard])}

    def restore(self, shards: Collection[int]) -> None:
        for shard in shards:
            with self._client.pipeline(transaction=True) as pipe:
                pipe.delete(keys.credentials(shard))
                for chunk in batches(self.wanted[shard].items(), CHUNK):
                    pipe.hset(keys.credentials(shard), mapping=dict(chunk))
                pipe.execute()

    def _load(self) -> None:
        for index in self.wanted:
            index.clear()
            index[MARKER] = PRESENT
        for row in _valid(None):
            self.wanted[self._shard(row.secret_hash)][row.secret_hash] = row.text
        self._is_loaded = True

    def _follow(self, changed: Collection[str]) -> None:
        valid = list(_valid(changed))
        kept = {row.secret_hash for row in valid}
        gone = [digest for digest in _hashes(changed) if digest not in kept]
        with self._client.pipeline(transaction=False) as pipe:
            for digest in gone:
                self.wanted[self._shard(digest)].pop(digest, None)
                pipe.hdel(keys.credentials(self._shard(digest)), digest)
            for row in valid:
                self.wanted[self._shard(row.secret_hash)][row.secret_hash] = row.text
                pipe.hset(keys.credentials(self._shard(row.secret_hash)), row.secret_hash, row.text)
            pipe.execute()

    def _shard(self, digest: str) -> int:
        return keys.shard_of(digest, len(self.wanted))


def _valid(only: Collection[str] | None) -> Iterator[Indexed]:
    found = ApiKey.objects.filter(revoked_at=None).order_by()
    if only is not None:
        found = found.filter(key_id__in=only)
    for digest, key_id, scopes, tenant in found.values_list("secret_hash", "key_id", "scopes", "tenant__name").iterator():
        yield Indexed(digest, str(Credential(key_id, tenant, frozenset(scopes))))


def _hashes(key_ids: Collection[str]) -> list[str]:
    return list(ApiKey.objects.filter(key_id__in=key_ids).values_list("secret_hash", flat=True))


class RouteTable:
    """The routes of all endpoints and the pepper of all credentials: small, and written whole."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._fields: dict[str, str] = {}

    def publish(self) -> None:
        fields = _table()
        if fields != self._fields:
            self._write(fields)
            self._fields = fields

    def has_drifted(self) -> bool:
        return bool(self._fields) and self._client.hgetall(keys.directory()) != self._fields

    def restore(self) -> None:
        self._write(self._fields)

    def _write(self, fields: dict[str, str]) -> None:
        with self._client.pipeline(transaction=True) as pipe:
            pipe.delete(keys.directory())
            pipe.hset(keys.directory(), mapping=cast("dict[Any, Any]", fields))
            pipe.execute()


def _table() -> dict[str, str]:
    rows = Endpoint.objects.filter(retired=False).exclude(path="").order_by("name")
    routes = encode_routes([Route(*row) for row in rows.values_list("name", "method", "path")])
    secret = pepper().hex()
    # Not the content alone: after a flush and a repair nobody reads again what he has.
    return {TOKEN: sha256(f"{secret}{routes}".encode()).hexdigest()[:16], PEPPER: secret, ROUTES: routes}
