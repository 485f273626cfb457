"""The published configuration in Redis: reads what each shard holds, and changes it by compare-and-set.

A shard's token names its content. A delta is applied only if the shard still has the token the delta was computed
from, and a whole shard is staged beside the live one and then flipped; so two publishers can never mix their content.
All commands of a step are sent together, so a step costs one round trip, however many shards it concerns. A shard whose
server fails at one step is left out of the next ones (`away`); the others go on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import redis
from redis.exceptions import ResponseError

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded
from quotas.policies.shard_image import Delta, ShardImage
from quotas.publishing import store

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
        on_lost: Callable[[list[int], str], Mapping[int, Exception]] = lambda shards, version: {},
    ) -> None:
        """`on_lost` restores the counters of shards without token, before they are flipped to that version. It returns
        the shards for which it failed."""
        self.client = client
        self.count = count
        self.numbers = store.shard_numbers(client, count)
        self.away: dict[int, Exception] = {}
        self._on_batch = on_batch
        self._on_lost = on_lost

    def begin(self) -> None:
        """Asks all shards again, those too that were away."""
        self.away.clear()

    def refuse_away(self) -> None:
        """Raises PartialError if any shard was away since `begin`."""
        if self.away:
            raise store.PartialError(dict(self.away), self.count)

    def read_contents(self) -> list[ShardContent]:
        """Raises PartialError unless every shard answers."""
        self.begin()
        found = self.read_reachable()
        self.refuse_away()
        return [found[shard] for shard in range(self.count)]

    def read_reachable(self) -> dict[int, ShardContent]:
        calls: dict[tuple[int, str], tuple[str, str]] = {}
        for shard in self._present(self.numbers):
            calls[shard, "token"] = ("GET", keys.shard_prefix(shard))
            calls[shard, "entries"] = ("HLEN", keys.tenants(shard))
            calls[shard, "fields"] = ("HLEN", keys.config(shard))
        found, errors = store.ask_each(self.client, calls)
        self.away |= {shard: error for (shard, _), error in errors.items()}
        return {
            shard: ShardContent(
                str(found[shard, "token"] or "").partition("+")[0],
                int(found[shard, "entries"]),
                int(found[shard, "fields"]),
            )
            for shard in self._present(self.numbers)
        }

    def apply(self, deltas: Mapping[int, Delta]) -> set[int]:
        """Applies the deltas; returns the shards that did not have the base of their delta and must be replaced."""
        replies = self._publish([_delta_call(shard, deltas[shard]) for shard in self._present(deltas)])
        return self._refused(deltas, replies)

    def change_together(self, deltas: Mapping[int, Delta], images: Mapping[int, ShardImage]) -> set[int]:
        """Applies deltas and replaces whole shards at one moment, because they share records. On a single server.

        Returns the shards that did not have the base of their delta.
        """
        version = secrets.token_hex(8)
        for batch in batches(images, SHARDS_AT_ONCE):
            self._stage(batch, images, version)
        self._restore_lost(self._present(images), version)
        calls = [_delta_call(shard, deltas[shard]) for shard in self._present(deltas)]
        calls += [_flip_call(shard, images[shard], version) for shard in self._present(images)]
        replies = self._publish(calls, together=True)
        self._check_flips(images, replies)
        return self._refused(deltas, replies)

    def _refused(self, deltas: Mapping[int, Delta], replies: Mapping[int, list[Any]]) -> set[int]:
        return {
            shard for shard in self._present(deltas) if not _is_done(*replies[shard][0], wanted=deltas[shard].token)
        }

    def unready(self, shards: Iterable[int]) -> None:
        """Deletes their tokens, so that a lower revision can be written."""
        calls = {shard: ("DEL", keys.shard_prefix(shard)) for shard in self._present(shards)}
        self.away |= store.ask_each(self.client, calls)[1]

    def replace(self, images: Mapping[int, ShardImage]) -> None:
        """Replaces whole shards: stages them beside the live ones, restores lost counters, then flips."""
        for batch in batches(images, SHARDS_AT_ONCE):
            # A random version, so that no other publisher writes to the same staging keys.
            version = secrets.token_hex(8)
            self._stage(batch, images, version)
            self._restore_lost(self._present(batch), version)
            shards = self._present(batch)
            self._check_flips(images, self._publish([_flip_call(shard, images[shard], version) for shard in shards]))

    def _stage(self, shards: Iterable[int], images: Mapping[int, ShardImage], version: str) -> None:
        present = self._present(shards)
        self._publish([call for shard in present for call in _stage_calls(shard, images[shard], version)])
        self._on_batch()

    def _check_flips(self, images: Mapping[int, ShardImage], replies: Mapping[int, list[Any]]) -> None:
        for shard in self._present(images.keys() & replies.keys()):
            ((status, token),) = replies[shard]
            if not _is_done(status, token, wanted=images[shard].token):
                self.away[shard] = redis.RedisError(f"shard {shard} could not be flipped: {status}")

    def _restore_lost(self, shards: list[int], version: str) -> None:
        """Sets the marks first: a flip without token requires the mark, so a flush after this point is noticed."""
        begin = {shard: ("FCALL", "hr_calendars", 1, keys.shard_prefix(shard), "BEGIN", version) for shard in shards}
        self.away |= store.ask_each(self.client, begin)[1]
        tokens = {shard: ("EXISTS", keys.shard_prefix(shard)) for shard in self._present(shards)}
        found, errors = store.ask_each(self.client, tokens)
        self.away |= errors
        lost = [shard for shard, is_there in found.items() if not is_there]
        if lost:
            self.away |= self._on_lost(lost, version)

    def _present(self, shards: Iterable[int]) -> list[int]:
        return [shard for shard in shards if shard not in self.away]

    def _publish(self, calls: list[tuple[Any, ...]], *, together: bool = False) -> dict[int, list[Any]]:
        """The replies of each shard. A shard with an error is away from now on."""
        replies = self._send(calls, together)
        unknown = [place for place, reply in enumerate(replies) if _lacks_function(reply)]
        if unknown:
            # The functions were flushed; a call without its function had no effect, so it can be repeated.
            self._load_library({calls[place][0] for place in unknown})
            for place, reply in zip(unknown, self._send([calls[place] for place in unknown], together), strict=True):
                replies[place] = reply
        found: dict[int, list[Any]] = {}
        for (shard, *_), reply in zip(calls, replies, strict=True):
            if isinstance(reply, Exception):
                self.away.setdefault(shard, reply)
            found.setdefault(shard, []).append(reply)
        return found

    def _load_library(self, shards: Iterable[int]) -> None:
        for server, _ in store.by_node(self.client, shards):
            # Its shards tell about a server that is gone meanwhile.
            with suppress(redis.RedisError):
                ensure_loaded(server)

    def _send(self, calls: list[tuple[Any, ...]], together: bool) -> list[Any]:
        with self.client.pipeline(transaction=together) as pipe:
            for shard, *arguments in calls:
                pipe.fcall("hr_publish", 1, keys.shard_prefix(shard), *arguments)
            return pipe.execute(raise_on_error=False)


def _lacks_function(reply: object) -> bool:
    return isinstance(reply, ResponseError) and "function not found" in str(reply).lower()


def _is_done(status: str, token: str, *, wanted: str) -> bool:
    """True also if it was done before: the reply to the first attempt may have been lost."""
    if status == "stale":
        raise SupersededError(f"Redis holds revision {revision_of(token)}, newer than {revision_of(wanted)}")
    return status == "applied" or token == wanted


def _delta_call(shard: int, delta: Delta) -> tuple[Any, ...]:
    return (shard, "DELTA", *_delta_arguments(delta))


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
