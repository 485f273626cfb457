"""A Valkey Cluster of three primaries and three replicas, or a primary with a replica and three Sentinels.

For `make up CLUSTER=1` and for tests. All nodes run on this machine, so they do not survive its loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from config.embedded import ServerError, ServerProcess, ValkeyOptions, start_valkey

SLOTS: Final = 16_384
PRIMARIES: Final = 3
NODES: Final = 2 * PRIMARIES
FORM_SECONDS: Final = 60.0
# A node that is silent for this long is failed over. Long enough for a machine that is busy with something else.
NODE_TIMEOUT_MS: Final = 2_000


def node_options(port: int, *, bus: int = 0, durable: bool = True, timeout_ms: int = NODE_TIMEOUT_MS) -> ValkeyOptions:
    extra = (
        *("--cluster-enabled", "yes"),
        *("--cluster-node-timeout", str(timeout_ms)),
        # Without this, the death of one primary stops the others too, until its replica has taken over.
        *("--cluster-require-full-coverage", "no"),
        # A replica that has just started waits for others before it synchronizes; here there are none.
        *("--repl-diskless-sync-delay", "0"),
    )
    return ValkeyOptions(port=port, bus=bus, durable=durable, extra=extra)


def start_node(folder: Path, port: int, *, bus: int = 0) -> ServerProcess:
    return start_valkey(folder, node_options(port, bus=bus))


def form_cluster(ports: Sequence[int], primaries: int = PRIMARIES) -> None:
    """Joins fresh nodes to one cluster: the first ones are primaries. Nodes that form one already are left alone."""
    nodes = [_client(port) for port in ports]
    try:
        if len(_known(nodes[0])) == 1:
            _introduce(nodes, ports)
            _share_slots(nodes[:primaries])
            _appoint_replicas(nodes, primaries)
        wait_until(lambda: _is_whole(nodes, primaries), "the cluster is whole")
    finally:
        for node in nodes:
            node.close()


def _client(port: int) -> redis.Redis:
    return redis.Redis(port=port, decode_responses=True, socket_timeout=5, retry=Retry(NoBackoff(), 0))


def _ask(node: redis.Redis, *words: object) -> Any:
    return node.execute_command("CLUSTER", *words)  # type: ignore[no-untyped-call]


def _known(node: redis.Redis) -> set[int]:
    """The ports of the nodes that it has met, and its own."""
    rows = (line.split() for line in str(_ask(node, "NODES")).splitlines())
    return {int(row[1].partition("@")[0].rpartition(":")[2]) for row in rows if "handshake" not in row[2]}


def _introduce(nodes: Sequence[redis.Redis], ports: Sequence[int]) -> None:
    for number, node in enumerate(nodes, 1):
        # Two nodes with the same epoch would have to settle which of them counts first.
        _ask(node, "SET-CONFIG-EPOCH", number)
    wait_until(lambda: _have_met(nodes, ports), "all nodes know each other")


def _have_met(nodes: Sequence[redis.Redis], ports: Sequence[int]) -> bool:
    """Lets the first node meet those for whom something is missing: a handshake that takes too long is given up."""
    known = [_known(node) for node in nodes]
    missing = [n for n in range(1, len(nodes)) if ports[n] not in known[0] or len(known[n]) < len(nodes)]
    for n in missing:
        # The nodes talk to each other on another port, 10,000 higher unless it is set.
        talk = int(nodes[n].config_get("cluster-port")["cluster-port"] or 0) or ports[n] + 10_000
        _ask(nodes[0], "MEET", "127.0.0.1", ports[n], talk)
    return not missing


def _share_slots(primaries: Sequence[redis.Redis]) -> None:
    for index, node in enumerate(primaries):
        first, after = (SLOTS * each // len(primaries) for each in (index, index + 1))
        _ask(node, "ADDSLOTSRANGE", first, after - 1)


def _appoint_replicas(nodes: Sequence[redis.Redis], primaries: int) -> None:
    for index, node in enumerate(nodes[primaries:]):
        primary = _ask(nodes[index % primaries], "MYID")

        def appoint(node: redis.Redis = node, primary: str = primary) -> bool:
            try:
                return bool(_ask(node, "REPLICATE", primary))
            except redis.ResponseError:  # the node has not heard of the primary yet
                return False

        wait_until(appoint, "the replicas know their primaries")


def _is_whole(nodes: Sequence[redis.Redis], primaries: int) -> bool:
    infos = [_info(node) for node in nodes]
    is_agreed = all(info["cluster_state"] == "ok" and info["cluster_size"] == str(primaries) for info in infos)
    is_agreed &= all(str(_ask(node, "NODES")).count("slave ") == len(nodes) - primaries for node in nodes)
    replicas = (node.info("replication") for node in nodes)
    return is_agreed and all(told["role"] == "master" or told["master_link_status"] == "up" for told in replicas)


def _info(node: redis.Redis) -> dict[str, str]:
    return dict(line.split(":", 1) for line in str(_ask(node, "INFO")).splitlines() if ":" in line)


def start_sentinel(folder: Path, port: int, name: str, primary: int, *, down_after_ms: int = 1_000) -> ServerProcess:
    """A Sentinel that watches the primary on that port as `name`. Two of three Sentinels must agree."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "sentinel.conf"
    lines = (
        f"sentinel monitor {name} 127.0.0.1 {primary} 2",
        f"sentinel down-after-milliseconds {name} {down_after_ms}",
        f"sentinel failover-timeout {name} 5000",
    )
    file.write_text("\n".join((f"port {port}", "bind 127.0.0.1", *lines, "")))
    return start_valkey(folder, ValkeyOptions(port=port, sentinel=file))


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = FORM_SECONDS, *, pause: float = 0.05) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if is_so():
                return
        except (redis.ConnectionError, redis.TimeoutError):
            pass
        time.sleep(pause)
    raise ServerError(f"It took longer than {seconds:.0f} seconds until {what}; try again on a less busy machine.")
