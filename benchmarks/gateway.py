"""Enforcement over HTTP: the gateway compared with a bare application on uvicorn, and what a middleware adds.

Servers run on one core; Valkey and the client share another. Contestants take turns, so that a busy moment affects all
of them; results are medians over rounds of the ratio within a round. Requests/s are per second of the server's
processor time, which stays valid if other processes use its core too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import redis.asyncio
import uvloop

from benchmarks.contestants.servers import CLIENT_CORE, SERVER_CORE, listens, on_core
from benchmarks.report import BenchmarkRow
from benchmarks.web.client import CONNECTIONS, LoadResult, as_fast_as_it_goes, at_a_rate, request
from config.data_folders import ROOT
from headroom_edge import keys
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, MACHINE, publish_world
from tests.valkeys import SpareValkey, free_port

ROUNDS = 7
REQUESTS = 6_400  # per contestant and round
CALM_SECONDS = 2.0
ALONE = 400  # sequential requests per round
PLENTY = 1_000_000_000

HELLO = request("GET", "/")
GUARDED = request("GET", "/v1/rides/7", x_api_key=ACME)
AUTHZ = request(
    "GET",
    "/v1/authz?proxy=nginx",
    x_api_key=ACME,
    x_original_uri="/v1/rides/7",
    x_original_method="GET",
    x_forwarded_for="203.0.113.9",
)
CHECK = request(
    "POST",
    "/v1/check",
    b'{"tenant":"acme","endpoint":"rides:get","subject":{"key":"k_81f","ip":"203.0.113.9"}}',
    authorization=f"Bearer {MACHINE}",
)


def run() -> list[BenchmarkRow]:
    with ExitStack() as stack:
        before = os.sched_getaffinity(0)
        stack.callback(os.sched_setaffinity, 0, before)
        url = stack.enter_context(store(before))
        bare, gateway, guarded = (stack.enter_context(server(name, url)) for name in ("hello", "gateway", "guarded"))
        os.sched_setaffinity(0, {CLIENT_CORE} & before or before)
        throughput, peak = measure_throughput(bare, gateway)
        return [*throughput, *measure_calm(bare, gateway, peak), *measure_middleware(bare, guarded, url)]


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    process: psutil.Process

    def processor_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def store(cores: set[int]) -> Iterator[str]:
    """A store with two limits, per key and per tenant, that never deny."""
    with tempfile.TemporaryDirectory(prefix="hr-bench-") as folder, SpareValkey(Path(folder) / "valkey") as valkey:
        os.sched_setaffinity(valkey.pid, {CLIENT_CORE} & cores or cores)
        with valkey.client() as client:
            publish_world(
                client,
                limit("burst", "token_bucket", "key", rate=1_000_000, per="1s", burst=1_000_000),
                limit("daily", "fixed_window", limit=PLENTY, window="1d"),
            )
        yield valkey.url


@contextmanager
def server(name: str, url: str) -> Iterator[Server]:
    """The gateway as it is run, or one of benchmarks/web/apps.py."""
    port = free_port()
    environment = {**os.environ, "REDIS_URL": url, "HEADROOM_BUDGET_MS": "10000", "HEADROOM_FAIL": "closed"}
    environment["HEADROOM_TRUSTED_PROXIES"] = "127.0.0.1"
    gateway, app = ["headroom_edge.gateway", "--port", str(port)], ["benchmarks.web.apps", name, str(port)]
    with on_core(SERVER_CORE):
        command = [sys.executable, "-m", *(gateway if name == "gateway" else app)]
        process = subprocess.Popen(command, env=environment, cwd=ROOT)
    try:
        wait_for(port, process)
        yield Server(port, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    if not listens(port, process):
        raise SystemExit("headroom: a server did not start; see its output above.")


def on_loop(work: Awaitable[LoadResult]) -> LoadResult:
    async def wait() -> LoadResult:
        return await work

    return uvloop.run(wait())


def measure_throughput(bare: Server, gateway: Server) -> tuple[list[BenchmarkRow], float]:
    checks, authz, ours, clocked = [], [], [], []
    for _ in range(ROUNDS + 1):
        other, _ = served_per_s(bare, CHECK)
        own, measured = served_per_s(gateway, CHECK)
        asked, _ = served_per_s(gateway, AUTHZ)
        checks.append(own / other)
        authz.append(asked / other)
        ours.append(own)
        clocked.append(measured.rate)
    # The first round opens connections and fills caches, so it does not count.
    against = f"requests/s over {CONNECTIONS} connections, against a bare application on uvicorn"
    rows = [
        BenchmarkRow(f"POST /v1/check {against}", median(checks[1:]), "×", must=0.7, aim=1.0, more_is_better=True),
        BenchmarkRow(f"/v1/authz {against}", median(authz[1:]), "×", must=0.5, aim=0.8, more_is_better=True),
        BenchmarkRow(f"POST /v1/check on one core with {CONNECTIONS} connections", median(ours[1:]), "/s"),
    ]
    return rows, median(clocked[1:])


def served_per_s(server: Server, sent: bytes) -> tuple[float, LoadResult]:
    before = server.processor_s()
    measured = on_loop(as_fast_as_it_goes(server.port, sent, REQUESTS))
    return len(measured.latencies_s) / (server.processor_s() - before), measured


def measure_calm(bare: Server, gateway: Server, peak: float) -> list[BenchmarkRow]:
    """The bare application at the same rate shows what the client and the machine add."""
    ours, other = [], []
    for _ in range(ROUNDS):
        ours.append(spread(gateway, peak / 2))
        other.append(spread(bare, peak / 2))
    # A machine whose bare application has a longer tail than this says nothing about the check.
    must = round(max(3.0, median(other)), 1)
    return [
        BenchmarkRow("POST /v1/check at half of its peak: p99 against p50", median(ours), "×", must=must, aim=2),
        BenchmarkRow("the bare application at that rate: p99 against p50", median(other), "×"),
    ]


def spread(server: Server, rate: float) -> float:
    calm = on_loop(at_a_rate(server.port, CHECK, rate, CALM_SECONDS))
    return calm.quantile(0.99) / calm.quantile(0.5)


def measure_middleware(bare: Server, guarded: Server, url: str) -> list[BenchmarkRow]:
    added, trips = [], []
    for _ in range(ROUNDS + 1):
        without = on_loop(as_fast_as_it_goes(bare.port, HELLO, ALONE, 1)).quantile(0.5)
        added.append(on_loop(as_fast_as_it_goes(guarded.port, GUARDED, ALONE, 1)).quantile(0.5) - without)
        trips.append(on_loop(round_trips(url)).quantile(0.5))
    ratio = median(more / trip for more, trip in zip(added[1:], trips[1:], strict=True))
    return [
        BenchmarkRow("added latency of the ASGI middleware, against one Redis round trip", ratio, "×", must=1.5, aim=1),
        BenchmarkRow("added latency of the ASGI middleware", median(added[1:]) * 1e6, "µs"),
    ]


async def round_trips(url: str) -> LoadResult:
    """The same check by plain redis-py on an event loop, on the servers' core."""
    client_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {SERVER_CORE})
    measured = LoadResult(1.0)
    words = ("FCALL", "hr_check", 1, keys.tenant_prefix("acme"), "acme", "rides:get", "*", "ALL", "key", "k", "ip", "i")
    try:
        async with redis.asyncio.Redis.from_url(url) as client:
            execute: Callable[..., Awaitable[object]] = client.execute_command
            for _ in range(ALONE):
                start = time.perf_counter()
                await execute(*words)
                measured.latencies_s.append(time.perf_counter() - start)
    finally:
        os.sched_setaffinity(0, client_cores)
    return measured


if __name__ == "__main__":
    from benchmarks.report import show

    print(show(run()))
