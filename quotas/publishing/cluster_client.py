"""A cluster's client for the control plane: a node that is away costs its own keys only.

redis-py's own pipeline gives up as a whole if one node cannot be reached. Here the commands of a pipeline are sent to
all nodes at the same time, and each command has its own reply or error. As on a single server, a command may be sent
twice if a connection breaks, so every command of the control plane can be repeated.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

import redis
from redis.client import Pipeline
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    RedisClusterException,
    SlotNotCoveredError,
    TryAgainError,
)

from headroom_edge.store.slots import slot_of

ATTEMPTS: Final = 4
PAUSE_SECONDS: Final = 0.02  # before a command is sent again while a slot moves
# A node that did not answer in time is left alone for this long, so that it does not delay the others at each step.
AWAY_SECONDS: Final = 1.0
OURS: Final = "hr:"  # every key of ours begins so
NON_LOCAL: Final = "non local key"  # from a function, while the keys of a slot are on two nodes
NOT_A_CLUSTER: Final = "Cluster mode is not enabled"

Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]  # words and redis-py's options


def is_moving(error: object) -> bool:
    """Whether the error only says that a slot is on its way to another node."""
    if isinstance(error, AskError | TryAgainError | ClusterDownError):  # MovedError is an AskError
        return True
    return isinstance(error, redis.ResponseError) and NON_LOCAL in str(error)


class Cluster(RedisCluster):
    """Raises RedisError only, as the client of a single server does."""

    _away: dict[str, tuple[float, redis.RedisError]]  # node → until when, and why

    def __init__(self, **options: Any) -> None:
        self._away = {}
        super().__init__(**options)

    def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        if "target_nodes" not in kwargs and key_of(args) is not None:
            (reply,) = self.send([(args, kwargs)])
            if isinstance(reply, Exception):
                raise reply
            return reply
        with cluster_errors():
            return super().execute_command(*args, **kwargs)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> Any:
        """A transaction must have keys of one slot only."""
        return ClusterPipeline(self, bool(transaction))

    def at(self, key: str, *words: Any) -> Any:
        """Asks the node that owns the key."""
        (reply,) = self.send([(words, {})], at=key)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def owner_of(self, key: str | bytes) -> ClusterNode:
        try:
            return self.nodes_manager.get_node_from_slot(slot_of(key))
        except SlotNotCoveredError as error:
            raise ClusterDownError(f"no node owns slot {slot_of(key)}") from error

    def refresh(self, failed: str | None = None) -> None:
        """Asks who owns which slot; `failed`: the node that is asked last. If nobody tells, the old map stays."""
        with suppress(redis.RedisError, OSError), cluster_errors():
            self.nodes_manager.initialize(last_failed_node_name=failed)

    def send(self, calls: Sequence[Call], at: str | None = None) -> list[Any]:
        """The reply to each call, or its error. `at`: a key whose owner gets all of them."""
        replies: list[Any] = [None] * len(calls)
        waiting = list(range(len(calls)))
        for attempt in range(ATTEMPTS):
            if attempt:
                self._before_next(replies[place] for place in waiting)
            for place, reply in self._attempt(calls, waiting, at):
                replies[place] = reply
            waiting = [place for place in waiting if _is_worth_another(replies[place], attempt)]
            if not waiting:
                break
        return replies

    def _before_next(self, replies: Iterator[Any]) -> None:
        errors = list(replies)
        if all(isinstance(error, TryAgainError) or NON_LOCAL in str(error) for error in errors):
            time.sleep(PAUSE_SECONDS)
            return
        self.refresh(next((name for name, (_, why) in self._away.items() if why in errors), None))

    def _attempt(self, calls: Sequence[Call], places: Sequence[int], at: str | None) -> Iterator[tuple[int, Any]]:
        by_node: dict[str, tuple[ClusterNode, list[int]]] = {}
        for place in places:
            words, options = calls[place]
            key = at or key_of(words)
            target = options.get("target_nodes")
            if isinstance(target, list):  # redis-py names the owner of a group of keys like this
                (target,) = target
            if key is None and target is None:
                raise redis.RedisError(f"{words[0]} has no key; ask it of a node")
            try:
                node = target or self.owner_of(key or "")
            except redis.RedisError as error:
                yield place, error
                continue
            by_node.setdefault(node.name, (node, []))[1].append(place)
        for _, (found, replies) in self._ask_all(calls, list(by_node.values())):
            yield from zip(found, replies, strict=True)

    def _ask_all(
        self, calls: Sequence[Call], parts: list[tuple[ClusterNode, list[int]]]
    ) -> Iterator[tuple[ClusterNode, tuple[list[int], list[Any]]]]:
        def ask(part: tuple[ClusterNode, list[int]]) -> list[Any]:
            return self._ask(part[0], [calls[place] for place in part[1]])

        if len(parts) == 1:
            found = [ask(parts[0])]
        else:
            with ThreadPoolExecutor(max(1, len(parts))) as pool:
                found = list(pool.map(ask, parts))
        for (node, places), replies in zip(parts, found, strict=True):
            yield node, (places, replies)

    def _ask(self, node: ClusterNode, calls: Sequence[Call]) -> list[Any]:
        until, why = self._away.get(node.name, (0.0, redis.RedisError()))
        if time.monotonic() < until:
            return [why] * len(calls)
        try:
            replies = _pipelined(self.get_redis_connection(node), calls)
        except redis.TimeoutError as error:
            self._away[node.name] = (time.monotonic() + AWAY_SECONDS, error)
            return [error] * len(calls)
        except (redis.RedisError, OSError) as error:
            return [error if isinstance(error, redis.RedisError) else redis.ConnectionError(str(error))] * len(calls)
        return [self._asked(call, reply) for call, reply in zip(calls, replies, strict=True)]

    def _asked(self, call: Call, reply: Any) -> Any:
        """Follows ASK: the key is at the node that the slot moves to."""
        if not isinstance(reply, AskError) or isinstance(reply, MovedError):
            return reply
        target = self.get_node(host=reply.host, port=reply.port)  # type: ignore[no-untyped-call]
        if target is None:
            return reply
        try:
            _, found = _pipelined(self.get_redis_connection(target), [(("ASKING",), {}), call])
        except redis.RedisError as error:
            return error
        return found


def _is_worth_another(reply: Any, attempt: int) -> bool:
    if isinstance(reply, redis.TimeoutError):
        # Another node may own the slot by now. If not, the node counts as away and is not asked.
        return attempt == 0
    if isinstance(reply, redis.ConnectionError):
        return attempt < 2
    return is_moving(reply)


def _pipelined(node: redis.Redis, calls: Sequence[Call]) -> list[Any]:
    pipe = node.pipeline(transaction=False)
    for words, options in calls:
        named = {name: value for name, value in options.items() if name != "target_nodes"}
        pipe.execute_command(*words, **named)  # type: ignore[no-untyped-call]
    return pipe.execute(raise_on_error=False)


def key_of(words: Sequence[Any]) -> Any:
    """The first key of a command; None if it has none of ours."""
    at = 3 if str(words[0]).upper().startswith("FCALL") else 1
    name = words[at] if len(words) > at else None
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    return name if text.startswith(OURS) else None


class ClusterPipeline(Pipeline):
    def __init__(self, cluster: Cluster, transaction: bool) -> None:
        anyone = cluster.get_redis_connection(cluster.get_default_node())  # type: ignore[no-untyped-call]
        super().__init__(anyone.connection_pool, anyone.response_callbacks, transaction, None)
        self._cluster = cluster
        self._is_transaction = transaction

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        calls: list[Call] = list(self.command_stack)
        self.reset()
        if not calls:
            return []
        replies = self._transact(calls) if self._is_transaction else self._cluster.send(calls)
        if raise_on_error:
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
        return replies

    def _transact(self, calls: Sequence[Call]) -> list[Any]:
        slots: dict[int, list[Any]] = defaultdict(list)
        for words, _ in calls:
            slots[slot_of(key_of(words))].append(key_of(words))
        if len(slots) > 1:
            raise redis.RedisError("the keys of a transaction must be in one slot")
        ((key, *_),) = slots.values()
        error: Exception | None = None
        for _ in range(ATTEMPTS):
            pipe = self._cluster.get_redis_connection(self._cluster.owner_of(key)).pipeline(transaction=True)
            for words, options in calls:
                pipe.execute_command(*words, **options)  # type: ignore[no-untyped-call]
            try:
                return pipe.execute()
            except (redis.ConnectionError, MovedError, ClusterDownError) as failure:
                error = failure
            self._cluster.refresh()
        raise error or redis.ConnectionError("the cluster did not answer")


@contextmanager
def cluster_errors() -> Iterator[None]:
    try:
        yield
    except RedisClusterException as error:
        raise redis.ConnectionError(str(error)) from error
