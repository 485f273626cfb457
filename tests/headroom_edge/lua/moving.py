"""A slot of a real cluster that moves key by key, and what each of its two nodes answers meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import redis
from redis.exceptions import ResponseError

from headroom_edge import lua_library
from headroom_edge.store.slots import slot_of
from tests.clusters import SpareCluster
from tests.headroom_edge.lua.world import NOW_US

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = ("source", "target")
NOTHING = b"0" * 40  # the digest of a key that does not exist
State = Mapping[str, str]  # key → digest of its value, and of whether it has a TTL


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    words: tuple[Any, ...]
    now_us: int = NOW_US


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call answered, or why it was refused."""

    reply: Any
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    value: bytes
    ttl_ms: int  # 0: none


class Slot:
    """The slot of `prefix`. It belongs to `source` at first, and after `complete` to `target`."""

    def __init__(self, cluster: SpareCluster, prefix: str) -> None:
        self.cluster = cluster
        self.prefix = prefix
        self.number = slot_of(prefix)
        self._owner = cluster.owner_of(prefix)
        self._other = next(node for node in cluster.primaries() if node is not self._owner)
        self.source, self.target = self._owner.client(), self._other.client()
        for side in SIDES:
            self.forget_plans(side)
        self._ids = [cluster.id_of(node) for node in (self._owner, self._other)]

    def close(self) -> None:
        for client in (self.source, self.target):
            client.close()

    # Asking

    def _client(self, side: Side) -> redis.Redis:
        return self.source if side == "source" else self.target

    def ask(self, side: Side, call: Call) -> Outcome:
        return self.ask_and_look(side, call, [])[0]

    def ask_and_look(self, side: Side, call: Call, names: Sequence[str]) -> tuple[Outcome, dict[str, str]]:
        """Also what the asked node holds then, in the same round trip unless it has keys beside `names`."""
        client = self._client(side)
        with client.pipeline(transaction=False) as pipe:
            if side == "target":
                pipe.execute_command("ASKING")
            pipe.execute_command("FCALL", f"hs_{call.function}", 1, self.prefix, call.now_us, *call.words)
            pipe.execute_command("CLUSTER", "COUNTKEYSINSLOT", self.number)
            pipe.execute_command("DEBUG", "DIGEST-VALUE", *names)
            reply, count, found = pipe.execute(raise_on_error=False)[-3:]
        held = {name: digest.decode() for name, digest in zip(names, found, strict=True) if digest != NOTHING}
        if names and len(held) != count:
            held = self._digests(client)
        if isinstance(reply, ResponseError):
            return Outcome(None, f"{type(reply).__name__}: {reply}"), held
        return Outcome(reply), held

    def forget_plans(self, side: Side) -> None:
        """As if this node had never had the slot."""
        self._client(side).function_load(lua_library.simulation_source(), replace=True)

    # What the two nodes hold

    def names(self, client: redis.Redis) -> list[str]:
        found = cast("list[bytes]", client.execute_command("CLUSTER", "GETKEYSINSLOT", self.number, 10_000))
        return sorted(name.decode() for name in found)

    def _digests(self, client: redis.Redis) -> dict[str, str]:
        names = self.names(client)
        if not names:
            return {}
        found = cast("list[bytes]", client.execute_command("DEBUG", "DIGEST-VALUE", *names))
        return {name: digest.decode() for name, digest in zip(names, found, strict=True)}

    def state(self) -> State:
        """Of both nodes. No key may be on both: the move would stop there."""
        here, there = self._digests(self.source), self._digests(self.target)
        assert not here.keys() & there.keys(), f"on both nodes: {here.keys() & there.keys()}"
        return here | there

    def read(self) -> dict[str, Stored]:
        """All keys, while they are on the source."""
        names = self.names(self.source)
        with self.source.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.dump(name)
                pipe.pttl(name)
            replies = iter(pipe.execute())
        return {name: Stored(next(replies), max(0, next(replies))) for name in names}

    def repair(self, before: State, kept: Mapping[str, Stored], moved: Sequence[str], *, is_moving: bool = True) -> None:
        """Puts back what a call has changed: `moved` on the target, the others on the source."""
        if is_moving:
            self.source.execute_command("CLUSTER", "SETSLOT", self.number, "STABLE")
        for client, is_ours in ((self.source, lambda n: n not in moved), (self.target, lambda n: n in moved)):
            held = self._digests(client)
            with client.pipeline(transaction=False) as pipe:
                for name in {*held, *kept}:
                    if held.get(name) == (before.get(name) if is_ours(name) else None):
                        continue
                    if client is self.target:
                        pipe.execute_command("ASKING")
                    if is_ours(name) and name in kept:
                        pipe.restore(name, kept[name].ttl_ms, kept[name].value, replace=True)
                    else:
                        pipe.delete(name)
                pipe.execute()
        if is_moving:
            self.source.execute_command("CLUSTER", "SETSLOT", self.number, "MIGRATING", self._ids[1])
        assert self.state() == before

    # Moving

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Half moved; at the end everything is on the source again, whatever happened."""
        self.cluster.begin_move(self.number, self._owner, self._other)
        try:
            yield
        finally:
            self.return_all()

    def move(self, names: Sequence[str]) -> None:
        if names:
            self.source.execute_command("MIGRATE", "127.0.0.1", self._other.port, "", 0, 5_000, "KEYS", *names)

    def complete(self) -> None:
        self.move(self.names(self.source))
        self.cluster.end_move(self.number, self._owner, self._other)

    def return_all(self) -> None:
        """The move goes on to its end, and then back."""
        if self.cluster.owner_of(self.prefix) is not self._other:
            self.complete()
        self.cluster.begin_move(self.number, self._other, self._owner)
        names = self.names(self.target)
        if names:
            self.target.execute_command("MIGRATE", "127.0.0.1", self._owner.port, "", 0, 5_000, "KEYS", *names)
        self.cluster.end_move(self.number, self._other, self._owner)
