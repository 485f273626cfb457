"""Hashes that lie beside the published configuration, one a shard, followed entry by entry without a revision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import cast

import redis

from quotas.publishing.shards import CHUNK, batches

Pipeline = redis.client.Pipeline


class Sheet:
    def __init__(
        self, client: redis.Redis, shards: int, key_of: Callable[[int], str], always: Mapping[str, str] | None = None
    ) -> None:
        """`always`: what every shard's hash has."""
        self._client = client
        self._always = dict(always or {})
        self.key_of = key_of
        self.wanted: list[dict[str, str]] = [dict(self._always) for _ in range(shards)]

    def load(self, entries: Iterable[tuple[int, str, str]]) -> None:
        """Shard, field and value of each."""
        for fields in self.wanted:
            fields.clear()
            fields.update(self._always)
        for shard, field, value in entries:
            self.wanted[shard][field] = value

    def drifted(self) -> set[int]:
        """By their number of fields; the contents are compared slice by slice."""
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
