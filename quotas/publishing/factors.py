"""The factors of limits that adapt: which loops hr_observe runs, and their results on the way to every shard.

The loops are part of the compiled image. hr_observe keeps their states at `hr:{all}`; once a second the publisher
copies the factors to all shards, with the time at which they end. Without a publisher they end, too.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Self, cast

import redis

from headroom_edge import keys
from quotas import metrics
from quotas.policies.shard_image import Image, canonical
from quotas.publishing import store

logger = logging.getLogger(__name__)

LOOP = "a:"  # of the image's fields
COPY_SECONDS: Final = 1.0
DIGEST: Final = ""  # no endpoint has this name
MODES: Final = ("free", "drain", "cruise")


def loops_of(image: Image) -> dict[str, str]:
    """Endpoint → its loops, as hr_observe reads them."""
    found = {name: text for shard in image.numbered.values() for name, text in shard.config.items() if _is_loop(name)}
    by_endpoint: dict[str, list[list[Any]]] = defaultdict(list)
    for name, text in sorted(found.items()):
        endpoint, *numbers = json.loads(text)
        by_endpoint[endpoint].append([name.removeprefix(LOOP), *numbers])
    return {endpoint: canonical(rows) for endpoint, rows in by_endpoint.items()}


def touches_loops(fields: Iterable[str]) -> bool:
    return any(map(_is_loop, fields))


def _is_loop(name: str) -> bool:
    return name.startswith(LOOP)


@dataclass(frozen=True, slots=True)
class LoopState:
    """What a loop found, and the factor that it wants, in 1/1000."""

    loop: str
    factor: int
    mode: str  # free, drain or cruise
    estimate: float | None  # what the backend can answer, as a share of the limit
    answers: float  # per second, in the last judged second
    bad: float  # the share of those
    until_us: int

    @classmethod
    def parse(cls, loop: str, text: str) -> Self:
        state = json.loads(text)
        factor, mode = round(state["f"] * 1_000), str(state["mode"])
        until_us = int(state.get("until_us", 0))
        return cls(loop, factor, mode, state.get("estimate"), state["answers"], state["bad"], until_us)


def states_read(client: redis.Redis) -> dict[str, LoopState]:
    """Of the loops that are alive, by loop."""
    texts = cast("dict[str, str]", client.hgetall(keys.loop_states()))
    if not texts:
        return {}
    now_us = store.now_us(client)
    states = (LoopState.parse(loop, text) for loop, text in texts.items())
    return {state.loop: state for state in states if state.until_us > now_us}


def factor_text(states: Iterable[LoopState]) -> str:
    """As lua/scaled_bucket.lua reads it."""
    return "".join(f"{s.loop} {s.factor} {s.until_us // 1_000} {s.mode};" for s in states if s.factor < 1_000)


def write_loops(client: redis.Redis, loops: Mapping[str, str]) -> None:
    """Does nothing if Redis has them already."""
    digest = blake2b(canonical(loops).encode(), digest_size=8).hexdigest() if loops else None
    if client.hget(keys.loops(), DIGEST) == digest:
        return
    stored = cast("list[str]", client.hkeys(keys.loops()))
    if gone := [endpoint for endpoint in stored if endpoint not in loops]:
        client.hdel(keys.loops(), *gone)
    if loops:
        client.hset(keys.loops(), mapping=dict[Any, Any]({**loops, DIGEST: digest}))
    kept = {row[0] for text in loops.values() for row in json.loads(text)}
    states = cast("list[str]", client.hkeys(keys.loop_states()))
    if ended := [loop for loop in states if loop not in kept]:
        client.hdel(keys.loop_states(), *ended)


def copy_factors(client: redis.Redis, shards: int) -> None:
    """Also writes empty texts: a key that exists can be read while a cluster moves its slot."""
    text = factor_text(states_read(client).values())
    calls = {shard: ("SET", keys.factors(shard), text) for shard in store.shard_numbers(client, shards)}
    _, errors = store.ask_each(client, calls)
    if errors:
        raise store.PartialError(errors, shards)


class FactorCopier(threading.Thread):
    """A thread with a connection of its own: a large compilation must not let the factors end."""

    def __init__(self, url: str, shards: int) -> None:
        super().__init__(name="factors", daemon=True)
        self.loops: Mapping[str, str] | None = None  # None: not known yet
        self._url = url
        self._shards = shards
        self._stopped = threading.Event()
        self._last_failure = ""

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                with store.connect(self._url) as client:
                    self._copy_for_ever(client)
            except (redis.RedisError, OSError) as error:
                self._failed(error)
                self._stopped.wait(COPY_SECONDS)

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _copy_for_ever(self, client: redis.Redis) -> None:
        while not self._stopped.wait(COPY_SECONDS):
            self.copy(client)
            self._last_failure = ""

    def copy(self, client: redis.Redis) -> None:
        if self.loops is None:
            return
        write_loops(client, self.loops)
        if self.loops:
            copy_factors(client, self._shards)

    def _failed(self, error: Exception) -> None:
        if str(error) != self._last_failure:
            logger.error("copying the factors of adapting limits failed and will be retried: %s", error)
        self._last_failure = str(error)
        metrics.PUBLISH_FAILURES.labels(cause=type(error).__name__).inc()
