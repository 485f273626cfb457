"""Tables in Redis that gateways read beside the configuration: API keys, routes, pepper. They have no revision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any, NamedTuple, cast

import redis
from django.db.models import Q, QuerySet

from headroom_edge import keys
from headroom_edge.directory import EVERY_TENANT, MARKER, PEPPER, ROUTES, TOKEN, Credential, encode_routes
from headroom_edge.plan.routes import Route
from quotas.models import Endpoint
from quotas.models.usage import BEGINNING
from quotas.outbox import EVERY_KEY
from quotas.publishing import store
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
        """Shards with a wrong number of fields, as far as they can be reached. The reconciler compares the values."""
        calls = {shard: ("HLEN", self.key_of(shard)) for shard in range(len(self.wanted))}
        found, _ = store.ask_each(self._client, calls)
        return {shard for shard, count in found.items() if count != len(self.wanted[shard])}

    def restore(self, shards: Collection[int]) -> dict[int, Exception]:
        """Returns the errors of those that could not be restored. Raises StoreError if a single server is away."""
        errors: dict[int, Exception] = {}
        for shard in shards:
            try:
                self._restore(shard)
            except redis.RedisError as error:
                if store.as_cluster(self._client) is None:
                    raise
                errors[shard] = error
        return errors

    def _restore(self, shard: int) -> None:
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
    is_revoked: bool
    counted_as: str = ""
    ends_ms: int | None = None

    @property
    def entry(self) -> str:
        return str(Credential(self.key_id, self.tenant, frozenset(self.scopes), self.counted_as, self.ends_ms))

    def is_valid(self, now_ms: int) -> bool:
        return not self.is_revoked and (self.ends_ms is None or self.ends_ms > now_ms)


class ApiKeyIndex:
    """Loads all keys once, then follows the changes in the outbox and the ends of keys.

    Enforcers know the end of each key and refuse it from then on; here it is removed, for enforcers that do not.
    """

    def __init__(self, client: redis.Redis, shards: int) -> None:
        self._client = client
        self._shards = shards
        # Keys that are never taken for invented ones: each live key, and what each is counted as.
        self.registered = ShardTable(client, shards, keys.registered)
        self.credentials = ShardTable(client, shards, keys.credentials, {MARKER: "1"})
        self._ends: list[tuple[int, str]] = []  # a heap of end and id
        self._is_loaded = False

    @property
    def tables(self) -> tuple[ShardTable, ShardTable]:
        return self.registered, self.credentials

    def publish(self, changed: Collection[str], now_us: int) -> None:
        if not self._is_loaded or EVERY_KEY in changed:
            self._load(now_us)
            errors: dict[int, Exception] = {}
            for table in self.tables:
                errors |= table.restore(table.drifted())
            if errors:
                raise store.PartialError(errors, self._shards)
        if changed:
            self._follow(changed, now_us)

    def remove_ended(self, now_us: int) -> None:
        ended = set()
        while self._ends and self._ends[0][0] <= now_us // 1_000:
            ended.add(heappop(self._ends)[1])
        if ended:
            self._follow(ended, now_us)

    def _load(self, now_us: int) -> None:
        live = ApiKey.objects.filter(_unended(now_us), revoked_at=None)
        rows = list(_read(live, ApiToken.objects.filter(revoked_at=None)))
        self.registered.load(
            (self._of_tenant(row), name, keys.tenant_number(row.number))
            for row in rows
            if row.number is not None
            for name in {row.key_id, row.counted_as}
        )
        self.credentials.load((self._of_hash(text), text, row.entry) for row in rows for text in row.hashes)
        self._ends = [(row.ends_ms, row.key_id) for row in rows if row.ends_ms is not None]
        heapify(self._ends)
        self._is_loaded = True

    def _follow(self, changed: Collection[str], now_us: int) -> None:
        named = ApiKey.objects.filter(key_id__in=changed), ApiToken.objects.filter(key_id__in=changed)
        rows = list(_read(*named))
        lines = _live_lines({row.counted_as for row in rows if row.number is not None}, now_us)
        with self._client.pipeline(transaction=False) as pipe:
            for row in rows:
                is_valid = row.is_valid(now_us // 1_000)
                if row.number is not None:
                    self._register(pipe, row, row.key_id, is_valid or row.key_id in lines)
                    self._register(pipe, row, row.counted_as, row.counted_as in lines)
                for text in row.hashes:
                    if is_valid:
                        self.credentials.put(pipe, self._of_hash(text), text, row.entry)
                    else:
                        self.credentials.remove(pipe, self._of_hash(text), text)
                if is_valid and row.ends_ms is not None:
                    heappush(self._ends, (row.ends_ms, row.key_id))
            pipe.execute()

    def _register(self, pipe: Pipeline, row: CredentialRow, name: str, is_live: bool) -> None:
        if is_live and row.number is not None:
            self.registered.put(pipe, self._of_tenant(row), name, keys.tenant_number(row.number))
        else:
            self.registered.remove(pipe, self._of_tenant(row), name)

    def _of_tenant(self, row: CredentialRow) -> int:
        return keys.shard_of(row.tenant, self._shards)

    def _of_hash(self, text: str) -> int:
        return keys.shard_of(text, self._shards)


def _unended(now_us: int) -> Q:
    return Q(expires_at=None) | Q(expires_at__gt=BEGINNING + timedelta(microseconds=now_us))


def _live_lines(names: Collection[str], now_us: int) -> set[str]:
    """Which of these first keys have a live key in their line of rotations."""
    if not names:
        return set()
    of_line = Q(lineage__in=names) | Q(key_id__in=names, lineage="")
    live = ApiKey.objects.filter(of_line, _unended(now_us), revoked_at=None)
    return {lineage or key_id for key_id, lineage in live.values_list("key_id", "lineage")}


def _read(api_keys: QuerySet[ApiKey], tokens: QuerySet[ApiToken]) -> Iterator[CredentialRow]:
    return chain(_keys(api_keys), _tokens(tokens))


def _keys(found: QuerySet[ApiKey]) -> Iterator[CredentialRow]:
    of_key = ("key_id", "secret_hash", "next_hash", "scopes", "revoked_at", "lineage", "expires_at")
    rows = found.order_by().values_list(*of_key, "tenant__number", "tenant__name")
    for key_id, first, newer, scopes, revoked_at, lineage, expires_at, number, tenant in rows.iterator():
        hashes, ends_ms = _hashes(first, newer), _ms(expires_at)
        yield CredentialRow(key_id, hashes, scopes, number, tenant, revoked_at is not None, lineage or key_id, ends_ms)


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - BEGINNING) // timedelta(milliseconds=1)


def _tokens(found: QuerySet[ApiToken]) -> Iterator[CredentialRow]:
    fields = ("key_id", "secret_hash", "next_hash", "scopes", "tenant__name", "revoked_at")
    for key_id, first, newer, scopes, tenant, revoked_at in found.order_by().values_list(*fields).iterator():
        hashes = _hashes(first, newer)
        yield CredentialRow(key_id, hashes, scopes, None, tenant or EVERY_TENANT, is_revoked=revoked_at is not None)


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
