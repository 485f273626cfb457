"""The index of registered API keys (S:k): published apart, without a revision, so a key works at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, cast

import redis

from quotas.limiter import keys
from quotas.publishing.shards import CHUNK, batches
from tenants.models import ApiKey


class Registered(NamedTuple):
    shard: int
    key_id: str
    number: str  # the tenant's, as in its entry


class ApiKeyIndex:
    """What S:k of every shard must hold: read whole once, then followed."""

    def __init__(self, client: redis.Redis, shards: int) -> None:
        self._client = client
        self.wanted: list[dict[str, str]] = [{} for _ in range(shards)]
        self._is_loaded = False

    def publish(self, changed: Collection[str]) -> None:
        if not self._is_loaded:
            self._load()
            self.restore(self.drifted())
        if changed:
            self._follow(changed)

    def drifted(self) -> set[int]:
        """By their number of keys; the contents are compared slice by slice."""
        with self._client.pipeline(transaction=False) as pipe:
            for shard in range(len(self.wanted)):
                pipe.hlen(keys.registered(shard))
            found = cast("list[int]", pipe.execute())
        return {shard for shard, count in enumerate(found) if count != len(self.wanted[shard])}

    def restore(self, shards: Collection[int]) -> None:
        for shard in shards:
            with self._client.pipeline(transaction=True) as pipe:
                pipe.delete(keys.registered(shard))
                for chunk in batches(self.wanted[shard].items(), CHUNK):
                    pipe.hset(keys.registered(shard), mapping=dict(chunk))
                pipe.execute()

    def _load(self) -> None:
        for index in self.wanted:
            index.clear()
        for key in self._read(None):
            self.wanted[key.shard][key.key_id] = key.number
        self._is_loaded = True

    def _follow(self, changed: Collection[str]) -> None:
        """Those that are valid are set; whatever else changed is removed, wherever it was."""
        valid = list(self._read(changed))
        gone = sorted(set(changed) - {key.key_id for key in valid})
        with self._client.pipeline(transaction=False) as pipe:
            for shard, index in enumerate(self.wanted if gone else ()):
                pipe.hdel(keys.registered(shard), *gone)
                for key_id in gone:
                    index.pop(key_id, None)
            for key in valid:
                self.wanted[key.shard][key.key_id] = key.number
                pipe.hset(keys.registered(key.shard), key.key_id, key.number)
            pipe.execute()

    def _read(self, only: Collection[str] | None) -> Iterator[Registered]:
        valid = ApiKey.objects.filter(revoked_at=None).order_by()
        if only is not None:
            valid = valid.filter(key_id__in=only)
        for key_id, number, name in valid.values_list("key_id", "tenant__number", "tenant__name").iterator():
            yield Registered(keys.shard_of(name, len(self.wanted)), key_id, keys.tenant_number(number))
