"""The published configuration in Redis: reads what each shard holds, and changes it by compare-and-set.

A shard's token names its content. A delta is applied only if the shard still has the token the delta was computed
from, and a whole shard is staged beside the live one and then flipped; so two publishers can never mix their content.
All commands of a step are sent together, so a step costs one round trip, however many shards it concerns.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import redis
from redis.exceptions import ResponseError

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded
from quotas.policies.shard_image import Delta, ShardImage

# Fields per call; takes Redis about 0.5 ms. A whole shard in one call would delay checks.
CHUNK = 500
# Shards staged in one round trip; bounds the client's buffers with 1,000,000 tenants.
SHARDS_AT_ONCE = 16

Item = TypeVar("Item")


class SupersededError(RuntimeError):
    """Redis holds a higher revision than the one that was to be published."""


@dataclass(frozen=True, slots=True)
class ShardContent:
    """The token of a shard and its number of fields."""

    token: str  # without the suffix of a bypass; empty: the shard is not ready
    entries: int
    fields: int

    @property
    def revision(self) -> int:
        return revision_of(self.token)

    @property
    def digest(self) -> str:
        return digest_of(self.token)


def revision_of(token: str) -> int:
    number = token.partition(".")[0]
    return int(number) if number.isdigit() else -1


def digest_of(token: str) -> str:
    return token.partition(".")[2]


class Shards:
    def __init__(
        self,
        client: redis.Redis,
        count: int,
        on_batch: Callable[[], None] = lambda: None,
        on_lost: Callable[[list[int], str], None] = lambda shards, version: None,
    ) -> None:
        """`on_lost` restores the counters of shards without token, before they are flipped to that version."""
        self.client = client
        self.count = count
        self._on_batch = on_batch
        self._on_lost = on_lost

    def read_contents(self) -> list[ShardContent]:
        with self.client.pipeline(transaction=False) as pipe:
            for shard in range(self.count):
                pipe.get(keys.shard_prefix(shard))
                pipe.hlen(keys.tenants(shard))
                pipe.hlen(keys.config(shard))
            replies = iter(pipe.execute())
        return [
            ShardContent(str(token or "").partition("+")[0], int(entries), int(fields))
            for token, entries, fields in zip(replies, replies, replies, strict=True)
        ]

    def apply(self, deltas: Mapping[int, Delta]) -> set[int]:
        """Applies the deltas; returns the shards that did not have the base of their delta and must be replaced."""
        calls = [(shard, "DELTA", *_delta_arguments(delta)) for shard, delta in deltas.items()]
        replies = dict(zip(deltas, self._publish(calls), strict=True))
        return {shard for shard, (status, token) in replies.items() if not _is_done(status, token, deltas[shard].token)}

    def unready(self, shards: Iterable[int]) -> None:
        """Deletes their tokens, so that a lower revision can be written."""
        self.client.delete(*(keys.shard_prefix(shard) for shard in shards))

    def replace(self, images: Mapping[int, ShardImage]) -> None:
        """Replaces whole shards: stages them beside the live ones, restores lost counters, then flips."""
        for batch in batches(images.items(), SHARDS_AT_ONCE):
            # A random version, so that no other publisher writes to the same staging keys.
            version = secrets.token_hex(8)
            self._publish([call for shard, image in batch for call in _stage_calls(shard, image, version)])
            self._on_batch()
            self._restore_lost([shard for shard, _ in batch], version)
            replies = self._publish([_flip_call(shard, image, version) for shard, image in batch])
            for (shard, image), (status, token) in zip(batch, replies, strict=True):
                if not _is_done(status, token, image.token):
                    raise redis.RedisError(f"shard {shard} could not be flipped: {status}")

    def _restore_lost(self, shards: list[int], version: str) -> None:
        """Sets the marks first: a flip without token requires the mark, so a flush after this point is noticed."""
        with self.client.pipeline(transaction=False) as pipe:
            for shard in shards:
                pipe.fcall("hr_calendars", 1, keys.shard_prefix(shard), "BEGIN", version)
            for shard in shards:
                pipe.exists(keys.shard_prefix(shard))
            found = pipe.execute()[len(shards) :]
        lost = [shard for shard, is_there in zip(shards, found, strict=True) if not is_there]
        if lost:
            self._on_lost(lost, version)

    def _publish(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        try:
            return self._send(calls)
        except ResponseError as error:
            if "function not found" not in str(error).lower():
                raise
        # The functions were flushed; a call without its function had no effect, so it can be repeated.
        ensure_loaded(self.client)
        return self._send(calls)

    def _send(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            for shard, *arguments in calls:
                pipe.fcall("hr_publish", 1, keys.shard_prefix(shard), *arguments)
            return pipe.execute()


def _is_done(status: str, token: str, wanted: str) -> bool:
    """True also if it was done before: the reply to the first attempt may have been lost."""
    if status == "stale":
        raise SupersededError(f"Redis holds revision {revision_of(token)}, newer than {revision_of(wanted)}")
    return status == "applied" or token == wanted


def _delta_arguments(delta: Delta) -> Iterator[str]:
    yield from (delta.base, delta.token)
    for changes in (delta.entries, delta.config):
        kept = [(name, value) for name, value in changes.items() if value is not None]
        gone = [name for name, value in changes.items() if value is None]
        yield str(len(kept))
        for pair in kept:
            yield from pair
        yield str(len(gone))
        yield from gone


def _stage_calls(shard: int, image: ShardImage, version: str) -> Iterator[tuple[Any, ...]]:
    for part, fields in (("t", image.entries), ("c", image.config)):
        for chunk in batches(fields.items(), CHUNK):
            yield (shard, "STAGE", version, part, *(text for pair in chunk for text in pair))


def _flip_call(shard: int, image: ShardImage, version: str) -> tuple[Any, ...]:
    return (shard, "FLIP", version, image.token, len(image.entries), len(image.config))


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
