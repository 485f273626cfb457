"""The cluster of `make up CLUSTER=1`: six nodes under the home folder, on ports that it keeps.

`python -m config.up_cluster` joins the nodes once they run, and waits until they form one cluster.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import redis

from config.data_folders import Places, places
from config.embedded import ServerError, ServerProcess, TakenPortError, is_free, make_folder
from config.embedded_cluster import NODES, form_cluster, start_node
from config.supervisor import EmbeddedServer

# Below the ports that systems give to connections: one of them may be taken before the node has it.
CANDIDATES: Final = range(20_000, 32_000)


@dataclass(frozen=True)
class UpCluster:
    places: Places

    @property
    def _ports(self) -> list[int]:
        return self.places.cluster_ports()

    def choose_ports(self) -> None:
        """On the first start. They stay: each node looks for the others where it has seen them last."""
        if self.places.cluster_ports_file.exists():
            return
        make_folder(self.places.cluster, 0o700)
        # At random, so that the clusters of two folders can run at the same time.
        free = (port for port in random.sample(CANDIDATES, len(CANDIDATES)) if is_free(port))
        chosen = [next(free) for _ in range(2 * NODES)]
        self.places.cluster_ports_file.write_text(" ".join(map(str, chosen)) + "\n")

    def adopt(self) -> None:
        """Use it as the store. It starts empty unless it was the store before: its counters would be out of date."""
        if not self.places.cluster_in_use.exists():
            for number in range(NODES):
                (self._folder(number) / "nodes.conf").unlink(missing_ok=True)
                shutil.rmtree(self._folder(number) / "appendonlydir", ignore_errors=True)
        _outdated(self.places).touch()

    def nodes(self) -> Iterator[EmbeddedServer]:
        for number in range(NODES):
            yield EmbeddedServer(f"node-{number + 1}", lambda number=number: self._start(number))  # type: ignore[misc]

    def _folder(self, number: int) -> Path:
        return self.places.cluster / f"node-{number + 1}"

    def _start(self, number: int) -> ServerProcess:
        port, bus = self._ports[number], self._ports[NODES + number]
        try:
            return start_node(self._folder(number), port, bus=bus)
        except TakenPortError as error:
            way = f"free it, or remove {self.places.cluster} to begin with a new cluster on other ports"
            raise ServerError(f"Port {error.port} of the cluster cannot be used ({error.trouble}); {way}.") from None

    def form(self) -> None:
        form_cluster(self._ports[:NODES])
        self.places.cluster_in_use.touch()


def leave_cluster(home: Places) -> None:
    """From now on, the embedded Valkey is the store."""
    home.cluster_in_use.unlink(missing_ok=True)


def forget_outdated(home: Places) -> None:
    """Empties the Valkey that just started, if a cluster was the store since its last use. The broker's tasks stay.

    Its counters would be out of date: those of calendar quotas come back from PostgreSQL, but only into an empty store.
    """
    if _outdated(home).exists():
        with redis.Redis.from_url(home.valkey_url) as client:
            client.flushdb()
        _outdated(home).unlink()


def _outdated(home: Places) -> Path:
    return home.home / "valkey_outdated"


def main() -> int:
    try:
        UpCluster(places()).form()
    except ServerError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
