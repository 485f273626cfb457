"""The indexes of API keys, published apart, without a revision: a key works, and stops working, at once.

S:k, on the tenant's shard: which key ids are registered (headroom_edge.lua). S:i, on the shard of the secret's hash:
whose a key is and what it may do (headroom_edge.directory); there too stand the tokens of machines, with their scopes:
a gateway says what a token lacks, instead of taking it for unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import NamedTuple

import redis
from django.db.models import QuerySet

from headroom_edge import keys
from headroom_edge.directory import EVERY_TENANT, MARKER, Credential
from quotas.publishing.sheets import Sheet
from tenants.models import ApiKey, ApiToken


class Row(NamedTuple):
    key_id: str
    secret_hash: str
    scopes: list[str]
    number: int | None  # of the tenant; None: not a tenant's key
    tenant: str
    is_valid: bool

    @property
    def entry(self) -> str:
        return str(Credential(self.key_id, self.tenant, frozenset(self.scopes)))


class ApiKeyIndex:
    """What the sheets must hold: read whole once, then followed."""

    def __init__(self, client: redis.Redis, shards: int) -> None:
        self._client = client
        self._shards = shards
        self.registered = Sheet(client, shards, keys.registered)
        self.credentials = Sheet(client, shards, keys.credentials, {MARKER: "1"})
        self._is_loaded = False

    @property
    def sheets(self) -> tuple[Sheet, Sheet]:
        return self.registered, self.credentials

    def publish(self, changed: Collection[str]) -> None:
        if not self._is_loaded:
            self._load()
            for sheet in self.sheets:
                sheet.restore(sheet.drifted())
        if changed:
            self._follow(changed)

    def _load(self) -> None:
        rows = list(_read(ApiKey.objects.filter(revoked_at=None), ApiToken.objects.filter(revoked_at=None)))
        self.registered.load(
            (self._of_tenant(row), row.key_id, keys.tenant_number(row.number)) for row in rows if row.number is not None
        )
        self.credentials.load((self._of_secret(row), row.secret_hash, row.entry) for row in rows)
        self._is_loaded = True

    def _follow(self, changed: Collection[str]) -> None:
        named = ApiKey.objects.filter(key_id__in=changed), ApiToken.objects.filter(key_id__in=changed)
        with self._client.pipeline(transaction=False) as pipe:
            for row in _read(*named):
                if row.is_valid:
                    if row.number is not None:
                        self.registered.put(pipe, self._of_tenant(row), row.key_id, keys.tenant_number(row.number))
                    self.credentials.put(pipe, self._of_secret(row), row.secret_hash, row.entry)
                else:
                    self.credentials.remove(pipe, self._of_secret(row), row.secret_hash)
                    self.registered.remove(pipe, self._of_tenant(row), row.key_id)
            pipe.execute()

    def _of_tenant(self, row: Row) -> int:
        return keys.shard_of(row.tenant, self._shards)

    def _of_secret(self, row: Row) -> int:
        return keys.shard_of(row.secret_hash, self._shards)


def _read(api_keys: QuerySet[ApiKey], tokens: QuerySet[ApiToken]) -> Iterator[Row]:
    return chain(_keys(api_keys), _tokens(tokens))


def _keys(found: QuerySet[ApiKey]) -> Iterator[Row]:
    fields = ("key_id", "secret_hash", "scopes", "tenant__number", "tenant__name", "revoked_at")
    for key_id, secret_hash, scopes, number, tenant, revoked_at in found.order_by().values_list(*fields).iterator():
        yield Row(key_id, secret_hash, scopes, number, tenant, is_valid=revoked_at is None)


def _tokens(found: QuerySet[ApiToken]) -> Iterator[Row]:
    fields = ("key_id", "secret_hash", "scopes", "tenant__name", "revoked_at")
    for key_id, secret_hash, scopes, tenant, revoked_at in found.order_by().values_list(*fields).iterator():
        yield Row(key_id, secret_hash, scopes, None, tenant or EVERY_TENANT, is_valid=revoked_at is None)
