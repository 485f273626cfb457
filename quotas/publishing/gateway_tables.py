"""Tables in Redis that gateways read beside the configuration: API keys, routes, pepper. They have no revision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple, cast

import redis
from django.db.models import QuerySet

from headroom_edge import keys
from headroom_edge.directory import EVERY_TENANT, MARKER, PEPPER, ROUTES, TOKEN, Credential, encode_routes
from headroom_edge.plan.routes import Route
from quotas.models import Endpoint
from quotas.outbox import EVERY_KEY
from quotas.publishing.shards import CHUNK, batches
from tenants.keyring import API_KEYS, read_keys
from tenants.models import HASH_DUE, ApiKey, ApiToken

Pipeline = redis.client.Pipeline


class ShardTable:
    """A hash in each shard, and the fields that it must have."""

    def __init__(
        self, client: redis.Redis, shards: int, key_of: Callable[[int], str], always: Mapping[str, str] | None = None
    ) -> None:
        """`always`: fields that every shard has."""
        self._client = client
        self._always = dict(always or {})
        self.key_of = key_of
        self.wanted: list[dict[str, str]] = [dict(self._always) for _ in range(shards)]

    def load(self, entries: Iterable[tuple[int, str, str]]) -> None:
        """`entries`: shard, field and value."""
        for fields in self.wanted:
            fields.clear()
            fields.update(self._always)
        for shard, field, value in entries:
            self.wanted[shard][field] = value

    def drifted(self) -> set[int]:
        """Shards with a wrong number of fields. The reconciler compares the values."""
        with self._client.pipeline(transaction=False) as pipe:
            for shard in range(len(self.wanted)):
                pipe.hlen(self.key_of(shard))
            found = cast("list[int]", pipe.execute())
        return {shard for shard, count in enumerate(found) if count != len(self.wanted[shard])}

    def restore(self, shards: Collection[int]) -> None:
        for shard in shards:
            with self._client.pipeline(transaction=True) as pipe:
                pipe.delete(self.key_of(shard))
                for chunk in batches(self.wanted[shard].items(), CHUNK):
                    pipe.hset(self.key_of(shard), mapping=dict(chunk))
                pipe.execute()

    def put(self, pipe: Pipeline, shard: int, field: str, value: str) -> None:
        self.wanted[shard][field] = value
        pipe.hset(self.key_of(shard), field, value)

    def remove(self, pipe: Pipeline, shard: int, field: str) -> None:
        self.wanted[shard].pop(field, None)
        pipe.hdel(self.key_of(shard), field)


class CredentialRow(NamedTuple):
    key_id: str
    hashes: tuple[str, ...]  # of the secret: two while a newer version of the pepper is on its way
    scopes: list[str]
    number: int | None  # of the tenant; None: a token, not a tenant's key
    tenant: str
    is_valid: bool

    @property
    def entry(self) -> str:
        return str(Credential(self.key_id, self.tenant, frozenset(self.scopes)))


class ApiKeyIndex:
    """Loads all keys once, then follows the changes in the outbox."""

    def __init__(self, client: redis.Redis, shards: int) -> None:
        self._client = client
        self._shards = shards
        self.registered = ShardTable(client, shards, keys.registered)
        self.credentials = ShardTable(client, shards, keys.credentials, {MARKER: "1"})
        self._is_loaded = False

    @property
    def tables(self) -> tuple[ShardTable, ShardTable]:
        return self.registered, self.credentials

    def publish(self, changed: Collection[str]) -> None:
        if not self._is_loaded or EVERY_KEY in changed:
            self._load()
            for table in self.tables:
                table.restore(table.drifted())
        if changed:
            self._follow(changed)

    def _load(self) -> None:
        rows = list(_read(ApiKey.objects.filter(revoked_at=None), ApiToken.objects.filter(revoked_at=None)))
        self.registered.load(
            (self._of_tenant(row), row.key_id, keys.tenant_number(row.number)) for row in rows if row.number is not None
        )
        self.credentials.load((self._of_hash(text), text, row.entry) for row in rows for text in row.hashes)
        self._is_loaded = True

    def _follow(self, changed: Collection[str]) -> None:
        named = ApiKey.objects.filter(key_id__in=changed), ApiToken.objects.filter(key_id__in=changed)
        with self._client.pipeline(transaction=False) as pipe:
            for row in _read(*named):
                if row.is_valid:
                    if row.number is not None:
                        self.registered.put(pipe, self._of_tenant(row), row.key_id, keys.tenant_number(row.number))
                    for text in row.hashes:
                        self.credentials.put(pipe, self._of_hash(text), text, row.entry)
                else:
                    for text in row.hashes:
                        self.credentials.remove(pipe, self._of_hash(text), text)
                    self.registered.remove(pipe, self._of_tenant(row), row.key_id)
            pipe.execute()

    def _of_tenant(self, row: CredentialRow) -> int:
        return keys.shard_of(row.tenant, self._shards)

    def _of_hash(self, text: str) -> int:
        return keys.shard_of(text, self._shards)


def _read(api_keys: QuerySet[ApiKey], tokens: QuerySet[ApiToken]) -> Iterator[CredentialRow]:
    return chain(_keys(api_keys), _tokens(tokens))


def _keys(found: QuerySet[ApiKey]) -> Iterator[CredentialRow]:
    fields = ("key_id", "secret_hash", "next_hash", "scopes", "tenant__number", "tenant__name", "revoked_at")
    for key_id, first, newer, scopes, number, tenant, revoked_at in found.order_by().values_list(*fields).iterator():
        yield CredentialRow(key_id, _hashes(first, newer), scopes, number, tenant, is_valid=revoked_at is None)


def _tokens(found: QuerySet[ApiToken]) -> Iterator[CredentialRow]:
    fields = ("key_id", "secret_hash", "next_hash", "scopes", "tenant__name", "revoked_at")
    for key_id, first, newer, scopes, tenant, revoked_at in found.order_by().values_list(*fields).iterator():
        hashes = _hashes(first, newer)
        yield CredentialRow(key_id, hashes, scopes, None, tenant or EVERY_TENANT, is_valid=revoked_at is None)


def _hashes(first: str, newer: str) -> tuple[str, ...]:
    return (first,) if newer in ("", HASH_DUE) else (first, newer)


class RouteTable:
    """The routes of all endpoints; small, so it is always written as a whole."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._wanted: dict[str, str] = {}

    def publish(self) -> None:
        self._wanted = _table()
        if self.has_drifted():
            self.restore()

    def has_drifted(self) -> bool:
        return bool(self._wanted) and self._client.hgetall(keys.directory()) != self._wanted

    def restore(self) -> None:
        with self._client.pipeline(transaction=True) as pipe:
            pipe.delete(keys.directory())
            pipe.hset(keys.directory(), mapping=cast("dict[Any, Any]", self._wanted))
            pipe.execute()


def _table() -> dict[str, str]:
    rows = Endpoint.objects.filter(retired=False).order_by("name")
    routes = encode_routes([Route(*row) for row in rows.values_list("name", "method", "path")])
    stored = read_keys(API_KEYS)
    secret = stored.by_version[stored.in_use].hex()
    return {TOKEN: sha256(f"{secret} {routes}".encode()).hexdigest()[:16], PEPPER: secret, ROUTES: routes}
