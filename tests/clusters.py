"""A real cluster, and a primary that real Sentinels watch, which a test may hurt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, cast

import redis
from redis.cluster import RedisCluster

from config.embedded import ServerProcess
from config.embedded_cluster import NODES, form_cluster, node_options, start_sentinel, wait_until
from headroom_edge.store.slots import slot_of
from tests.valkeys import SpareValkey, free_port

# Short, because tests wait for failovers; long enough for a machine with more tests than cores.
NODE_TIMEOUT_MS = 1_500
# For tests that want no failover: a primary that the machine stalls keeps its place.
STEADY_MS = 300_000


class SpareCluster:
    """Three primaries and three replicas. Each node is a SpareValkey: kill, pause and start it as one."""

    def __init__(self, folder: Path, nodes: int = NODES) -> None:
        extra = node_options(0, durable=False, timeout_ms=NODE_TIMEOUT_MS).extra
        # By default the nodes talk on a port that the system may have given to a connection.
        self.nodes: list[SpareValkey] = []
        for number in range(nodes):
            bus = ("--cluster-port", str(free_port()))
            self.nodes.append(SpareValkey(folder / f"node-{number}", extra=(*extra, *bus)))
        self._folder = folder
        form_cluster([node.port for node in self.nodes])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.close()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def client(self) -> RedisCluster:
        """Gives bytes."""
        return RedisCluster(host="127.0.0.1", port=self._living()[0].port, socket_timeout=120)

    def keep_roles(self) -> None:
        """From now on a node may be silent for minutes before another one takes its place."""
        for node in self.nodes:
            self.on(node, "CONFIG", "SET", "cluster-node-timeout", STEADY_MS)

    def _living(self) -> list[SpareValkey]:
        return [node for node in self.nodes if node.is_running]

    def on(self, node: SpareValkey, *words: object) -> object:
        with node.client() as client:
            return client.execute_command(*words)

    def id_of(self, node: SpareValkey) -> str:
        return cast("bytes", self.on(node, "CLUSTER", "MYID")).decode()

    def primaries(self) -> list[SpareValkey]:
        """Those that are alive and own slots, in the order of their slots."""
        owners = {port: start for start, _, port in self._ranges()}
        return sorted((node for node in self._living() if node.port in owners), key=lambda node: owners[node.port])

    def _ranges(self) -> list[tuple[int, int, int]]:
        """First slot, last slot and port of the primary, as the first living node tells."""
        told = cast("Sequence[Sequence[object]]", self.on(self._living()[0], "CLUSTER", "SLOTS"))
        return [(cast("int", row[0]), cast("int", row[1]), cast("list[int]", row[2])[1]) for row in told]

    def owner_of(self, key: str) -> SpareValkey:
        slot = slot_of(key)
        port = next(port for first, last, port in self._ranges() if first <= slot <= last)
        return next(node for node in self.nodes if node.port == port)

    def replicas_of(self, primary: SpareValkey) -> list[SpareValkey]:
        """By CLUSTER NODES: CLUSTER SLOTS leaves out replicas that have not copied anything yet."""
        told = cast("bytes", self.on(primary, "CLUSTER", "NODES")).decode()
        rows = [line.split() for line in told.splitlines()]
        ports = {int(row[1].partition("@")[0].rpartition(":")[2]) for row in rows if row[3] == self.id_of(primary)}
        return [node for node in self.nodes if node.port in ports]

    @contextmanager
    def without_failover(self, primary: SpareValkey) -> Iterator[None]:
        """Its replica takes over afterwards at the earliest, however old its copy is by then."""
        (replica,) = self.replicas_of(primary)
        self.on(replica, "CONFIG", "SET", "cluster-replica-no-failover", "yes", "cluster-replica-validity-factor", 0)
        yield
        self.on(replica, "CONFIG", "SET", "cluster-replica-no-failover", "no")

    def wait_for(self, is_so: Callable[[], bool], what: str) -> None:
        wait_until(is_so, what, 120)

    def begin_move(self, slot: int, source: SpareValkey, target: SpareValkey) -> None:
        """From now on the slot is half moved; `move_keys` and `end_move` complete it."""
        self.on(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        self.on(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))

    def move_keys(self, source: SpareValkey, target: SpareValkey, *names: str) -> None:
        self.on(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *names)

    def keys_in(self, slot: int, node: SpareValkey) -> list[str]:
        found = cast("list[bytes]", self.on(node, "CLUSTER", "GETKEYSINSLOT", slot, 1_000_000))
        return [name.decode() for name in found]

    def end_move(self, slot: int, source: SpareValkey, target: SpareValkey) -> None:
        owner = self.id_of(target)
        nodes = (target, source, *(each for each in self.primaries() if each not in (source, target)))
        for node in nodes:
            self.on(node, "CLUSTER", "SETSLOT", slot, "NODE", owner)
        with ExitStack() as stack:
            wait_for_epoch(owner, [stack.enter_context(node.client()) for node in nodes])

    def give_up_move(self, slot: int, source: SpareValkey, target: SpareValkey) -> None:
        for node in (source, target):
            self.on(node, "CLUSTER", "SETSLOT", slot, "STABLE")

    def move_slot(self, slot: int, source: SpareValkey, target: SpareValkey) -> None:
        """Key by key."""
        self.begin_move(slot, source, target)
        while names := self.keys_in(slot, source):
            self.move_keys(source, target, *names[:100])
        self.end_move(slot, source, target)

    def move_atomically(self, slots: Sequence[tuple[int, int]], source: SpareValkey, target: SpareValkey) -> None:
        """Valkey 9 and later."""
        ranges = [word for first, last in slots for word in ("SLOTSRANGE", first, last)]
        self.on(source, "CLUSTER", "MIGRATESLOTS", *ranges, "NODE", self.id_of(target))
        self.wait_for(lambda: self.owner_has(slots, target), "the slots have moved")

    def owner_has(self, slots: Sequence[tuple[int, int]], target: SpareValkey) -> bool:
        ranges = self._ranges()
        return all(
            any(a <= first and last <= b for a, b, port in ranges if port == target.port) for first, last in slots
        )


def wait_for_epoch(owner: str, clients: Sequence[redis.Redis]) -> None:
    """Until all know the owner's new epoch. `clients` begins with the owner's own.

    A node that takes a slot back raises its epoch above those it knows. If it has not heard of the last owner's yet, an
    older message of that one wins, and in the end neither of the two has the slot.
    """

    def is_known() -> bool:
        return len({_epoch_of(owner, client) for client in clients}) == 1

    wait_until(is_known, f"every node knows the epoch of {owner}", 120, pause=0.001)


def _epoch_of(owner: str, client: redis.Redis) -> str:
    told = cast("bytes", cast("Any", client).execute_command("CLUSTER", "NODES")).decode()
    return next(row[6] for row in map(str.split, told.splitlines()) if row[0] == owner)


class SpareSentinels:
    """A primary, a replica, and three Sentinels that watch them as `main`."""

    def __init__(self, folder: Path) -> None:
        sync = ("--repl-diskless-sync-delay", "0")
        self.primary = SpareValkey(folder / "primary", extra=sync)
        self.replica = SpareValkey(folder / "replica", extra=(*sync, "--replicaof", f"127.0.0.1 {self.primary.port}"))
        self.ports = [free_port() for _ in range(3)]
        self.sentinels: list[ServerProcess] = [
            start_sentinel(folder / f"sentinel-{port}", port, "main", self.primary.port) for port in self.ports
        ]
        wait_until(self._is_ready, "the Sentinels know the replica and each other", 120)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for sentinel in self.sentinels:
            sentinel.stop()
        for server in (self.primary, self.replica):
            server.close()

    @property
    def url(self) -> str:
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in self.ports) + "/main/0"

    def _is_ready(self) -> bool:
        with self.replica.client() as client:
            is_synced = cast("dict[str, str]", client.info("replication")).get("master_link_status") == "up"
        return is_synced and all(self._knows_all(port) for port in self.ports)

    def _knows_all(self, port: int) -> bool:
        with redis.Redis(port=port, decode_responses=True) as sentinel:
            facts = cast("dict[str, str]", sentinel.sentinel_master("main"))
        return int(facts["num-slaves"]) == 1 and int(facts["num-other-sentinels"]) == 2

    def is_promoted(self) -> bool:
        with self.replica.client() as client:
            return cast("dict[str, str]", client.info("replication"))["role"] == "master"

    def fail_over(self) -> None:
        """On command only: a primary that the machine stalls is not taken for dead."""
        for port in self.ports:
            self._tell(port, "SET", "main", "down-after-milliseconds", 60_000)
        wait_until(self._accepts_failover, "a Sentinel accepts the failover", 120)

    def _accepts_failover(self) -> bool:
        try:
            self._tell(self.ports[0], "FAILOVER", "main")
        except redis.ResponseError:  # it has not heard of the replica for a while
            return False
        return True

    def _tell(self, port: int, *words: object) -> None:
        with redis.Redis(port=port) as sentinel:
            cast("Any", sentinel).execute_command("SENTINEL", *words)

    def wait_for_promotion(self) -> None:
        wait_until(self.is_promoted, "the replica is the primary", 120)
