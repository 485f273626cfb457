"""A slot of a real cluster that moves key by key, and what each of its two nodes answers meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from redis.exceptions import ResponseError

from headroom_edge import lua_library
from headroom_edge.store.slots import slot_of
from tests.clusters import SpareCluster, wait_for_epoch
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


Client = Any  # redis-py does not type the commands for which it has no method


class Slot:
    """The slot of `prefix`. It belongs to `source` at first, and after `complete` to `target`."""

    def __init__(self, cluster: SpareCluster, prefix: str) -> None:
        self.prefix = prefix
        self.number = slot_of(prefix)
        owner = cluster.owner_of(prefix)
        nodes = [owner, *(node for node in cluster.primaries() if node is not owner)]
        # The same connections for all moves: there are many of them.
        self._primaries: list[Client] = [node.client() for node in nodes]
        self._ports = [node.port for node in nodes]
        self._ids = [cluster.id_of(node) for node in nodes]
        self.source, self.target, *_ = self._primaries
        self._is_moving = self._is_at_target = False
        for side in SIDES:
            self.forget_plans(side)

    def close(self) -> None:
        for client in self._primaries:
            client.close()

    # Asking

    def _client(self, side: Side) -> Client:
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

    def names(self, client: Client) -> list[str]:
        found: list[bytes] = client.execute_command("CLUSTER", "GETKEYSINSLOT", self.number, 10_000)
        return sorted(name.decode() for name in found)

    def _digests(self, client: Client) -> dict[str, str]:
        names = self.names(client)
        if not names:
            return {}
        found: list[bytes] = client.execute_command("DEBUG", "DIGEST-VALUE", *names)
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

    def restore(self, before: State, kept: Mapping[str, Stored]) -> None:
        """All keys as they were, on the source, to which the slot belongs."""
        self.put_back("source", self._digests(self.source), before, kept)
        assert self.state() == before

    def put_back(self, side: Side, held: State, before: State, kept: Mapping[str, Stored]) -> None:
        """Makes what this node holds, `held`, exactly `kept` again. One round trip."""
        with self._client(side).pipeline(transaction=False) as pipe:
            # A slot that leaves takes no new keys.
            is_leaving = side == "source" and self._is_moving and not kept.keys() <= held.keys()
            if is_leaving:
                pipe.execute_command("CLUSTER", "SETSLOT", self.number, "STABLE")
            for name in {*held, *kept}:
                if name in kept and held.get(name) == before[name]:
                    continue
                if side == "target":
                    pipe.execute_command("ASKING")
                if name in kept:
                    pipe.restore(name, kept[name].ttl_ms, kept[name].value, replace=True)
                else:
                    pipe.delete(name)
            if is_leaving:
                pipe.execute_command("CLUSTER", "SETSLOT", self.number, "MIGRATING", self._ids[1])
            pipe.execute()

    # Moving

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Half moved; at the end everything is on the source again, whatever happened."""
        self._begin(0, 1)
        self._is_moving = True
        try:
            yield
        finally:
            # A key that is on both nodes stops a move; after a failure it must not stop the next test.
            if not self._is_at_target:
                self._move(0, 1, self.names(self.source), "REPLACE")
                self._end(1)
            self._begin(1, 0)
            self._move(1, 0, self.names(self.target), "REPLACE")
            self._end(0)
            self._is_moving = self._is_at_target = False

    def move(self, names: Sequence[str]) -> None:
        self._move(0, 1, names)

    def complete(self) -> None:
        self.move(self.names(self.source))
        self._end(1)
        self._is_at_target = True

    def _begin(self, here: int, there: int) -> None:
        self._set_slot(there, "IMPORTING", self._ids[here])
        self._set_slot(here, "MIGRATING", self._ids[there])

    def _move(self, here: int, there: int, names: Sequence[str], *options: str) -> None:
        if names:
            words = ("MIGRATE", "127.0.0.1", self._ports[there], "", 0, 5_000, *options, "KEYS", *names)
            self._primaries[here].execute_command(*words)

    def _end(self, owner: int) -> None:
        """The new owner is told first: otherwise the old one sends its clients to a node that does not know yet."""
        order = sorted(range(len(self._primaries)), key=lambda number: number != owner)
        for number in order:
            self._set_slot(number, "NODE", self._ids[owner])
        wait_for_epoch(self._ids[owner], [self._primaries[number] for number in order])

    def _set_slot(self, number: int, *words: str) -> None:
        self._primaries[number].execute_command("CLUSTER", "SETSLOT", self.number, *words)
