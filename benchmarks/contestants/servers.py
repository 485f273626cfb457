"""Servers on one core; Valkey and the client share another. Processor time is the server's own, with its workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import redis

from config.data_folders import ROOT
from config.embedded import end_with_parent, stop_process
from headroom_edge import keys
from quotas.usage.batch_format import COUNT_MASK, LIMIT, OUTCOME
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import publish_world
from tests.valkeys import SpareValkey

CORES = os.sched_getaffinity(0)
SERVER_CORE, CLIENT_CORE = 0, 1
START_SECONDS = 60.0
PLENTY = 1_000_000_000
TENANT = "acme"
ENDPOINTS = {1: "rides:get", 4: "rides:list"}  # by how many limits they have
ONE = (limit("second", "token_bucket", "key", rate=1_000_000, per="1s", burst=1_000_000),)
FOUR = (
    limit("second", "sliding_counter", "key", limit=10_000_000, window="1s"),
    limit("minute", "sliding_counter", "key", limit=10_000_000, window="1m"),
    limit("hour", "token_bucket", "key", rate=10_000_000, per="1h", burst=10_000_000),
    limit("day", "token_bucket", "key", rate=10_000_000, per="1d", burst=10_000_000),
)


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """What is started here runs on that core, if the machine has it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core} & CORES or CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class Store:
    """A Valkey with the limits above, which never deny."""

    valkey: SpareValkey
    client: redis.Redis

    @property
    def url(self) -> str:
        return self.valkey.url

    def increments(self) -> int:
        """Commands INCRBY since the start, which is how Go's ratelimit counts."""
        return int(self.client.info("commandstats").get("cmdstat_incrby", {}).get("calls", 0))

    def allowed(self) -> int:
        """Requests of the tenant that Headroom has counted as allowed; what was decided without the store is not."""
        fields = self.client.hgetall(keys.usage(keys.shard_of(TENANT)))
        return sum(int(value) & COUNT_MASK for field, value in fields.items() if field[OUTCOME:LIMIT] == b"a")


@contextmanager
def store() -> Iterator[Store]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hr-bench-"))
        with on_core(CLIENT_CORE):
            valkey = stack.enter_context(SpareValkey(Path(folder) / "valkey"))
        client = stack.enter_context(valkey.client())
        publish_world(client, endpoints={ENDPOINTS[1]: ONE, ENDPOINTS[4]: FOUR})
        yield Store(valkey, client)


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    process: psutil.Process

    def processor_s(self) -> float:
        own = [self.process, *self.process.children(recursive=True)]
        return sum(times.user + times.system for times in (process.cpu_times() for process in own))


@contextmanager
def started(command: Sequence[str], port: int, environment: Mapping[str, str]) -> Iterator[Server]:
    """Ends with this process, however that ends."""
    with tempfile.TemporaryFile() as output:
        with on_core(SERVER_CORE):
            process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                cwd=ROOT,
                stdout=output,
                stderr=output,
                preexec_fn=end_with_parent(signal.SIGTERM),  # noqa: PLW1509 - no threads here
            )
        try:
            if not listens(port, process):
                output.seek(0)
                raise SystemExit(f"headroom: {command[0]} did not start: {output.read()[-500:].decode()}")
            yield Server(port, psutil.Process(process.pid))
        finally:
            stop_process(process, signal.SIGTERM)


def listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False
