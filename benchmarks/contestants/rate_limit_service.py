"""ShouldRateLimit over gRPC: Envoy's own rate limit service in Go, and ours. h2load asks both."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from benchmarks.contestants import builds
from benchmarks.contestants.servers import (
    CLIENT_CORE,
    ENDPOINTS,
    PLENTY,
    START_SECONDS,
    TENANT,
    Server,
    Store,
    on_core,
    started,
)
from benchmarks.contestants.turns import Comparison, Contestant, take_turns
from headroom_edge.gateway.rls.messages_pb2 import RateLimitRequest, RateLimitResponse
from headroom_edge.gateway.rls.service import METHOD, SERVICE
from tests.valkeys import free_port

REQUESTS = 3_000  # per turn
CONNECTIONS, STREAMS = 4, 32
LOAD_SECONDS = 300
UNITS = ("second", "minute", "hour", "day")
LACKS = (
    "usage per tenant (statistics per descriptor, off here); windows are fixed, so twice the limit passes around a "
    "boundary; by default a request that one limit denies still counts in the others; refunds, shaping, failure modes"
)


def compare(store: Store) -> Comparison:
    """Raises LeftOutError if the peer or h2load is missing: alone, ours says nothing here."""
    program, load = builds.ratelimit(), h2load()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hr-bench-")))
        go = stack.enter_context(ratelimit(program, store, folder))
        theirs = {
            limits: Load(load, go, write(folder / f"go-{limits}", peer_request(limits)), store.increments, limits)
            for limits in (1, 4)
        }
        refuse_other_work(go, peer_request(4), 4)
        name = f"envoyproxy/ratelimit {builds.RATELIMIT[:6]} (Go)"
        return take_turns(
            "ShouldRateLimit over gRPC",
            [
                Contestant(name, {limits: turn.measure for limits, turn in theirs.items()}, LACKS),
                *ours(stack, store, folder, load),
            ],
        )


def compare_ours(store: Store) -> Comparison:
    """Our own HTTP/2 against grpcio's, with the same service behind both. Raises LeftOutError without h2load."""
    load = h2load()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hr-bench-")))
        own, grpcio = ours(stack, store, folder, load)
        return take_turns("ShouldRateLimit, our own HTTP/2 against grpcio", [grpcio, own])


def ours(stack: ExitStack, store: Store, folder: Path, load: str) -> tuple[Contestant, Contestant]:
    own, grpcio = (stack.enter_context(headroom(store, *options)) for options in ((), ("--grpcio",)))
    found = []
    for name, server in (("Headroom, its own HTTP/2", own), ("Headroom, grpc.aio (`--grpcio`)", grpcio)):
        refuse_other_work(server, our_request(4), 1)
        turns = {
            limits: Load(load, server, write(folder / f"own-{limits}", our_request(limits)), store.allowed).measure
            for limits in (1, 4)
        }
        found.append(Contestant(name, turns))
    return found[0], found[1]


def h2load() -> str:
    found = shutil.which("h2load")
    if found is None:
        raise builds.LeftOutError("h2load is not installed: apt-get install nghttp2-client.")
    return found


@dataclass(frozen=True, slots=True)
class Load:
    program: str
    server: Server
    body: Path
    counted: Callable[[], int]  # in the store
    times: int = 1  # that a request is counted

    def measure(self) -> float:
        counted, processor_s = self.counted(), self.server.processor_s()
        said = self._send()
        processor_s = self.server.processor_s() - processor_s
        counted = self.counted() - counted
        # h2load does not read grpc-status. What failed or was decided without the store is not counted there.
        if f" {REQUESTS} succeeded" not in said or counted != REQUESTS * self.times:
            raise SystemExit(
                f"headroom: {counted} requests were counted in the store instead of {REQUESTS * self.times}, "
                f"so the results are invalid. h2load says:\n{said}"
            )
        return REQUESTS / processor_s

    def _send(self) -> str:
        address = f"http://127.0.0.1:{self.server.port}/{SERVICE}/{METHOD}"
        fields = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        size = ["-n", str(REQUESTS), "-c", str(CONNECTIONS), "-m", str(STREAMS)]
        with on_core(CLIENT_CORE):
            return subprocess.run(
                [self.program, *size, "-d", str(self.body), *fields, address],
                capture_output=True,
                text=True,
                timeout=LOAD_SECONDS,
                check=True,
            ).stdout


@contextmanager
def ratelimit(program: Path, store: Store, folder: Path) -> Iterator[Server]:
    """With one processor, and without statistics and a local cache."""
    configured = folder / "runtime" / "ratelimit" / "config"
    configured.mkdir(parents=True)
    (configured / "limits.yaml").write_text(limits_in_yaml())
    port = free_port()
    environment = {
        "GOMAXPROCS": "1",
        "HOST": "127.0.0.1",
        "PORT": str(free_port()),
        "GRPC_HOST": "127.0.0.1",
        "GRPC_PORT": str(port),
        "DEBUG_HOST": "127.0.0.1",
        "DEBUG_PORT": str(free_port()),
        "USE_STATSD": "false",
        "DISABLE_STATS": "true",
        "LOG_LEVEL": "error",
        "REDIS_SOCKET_TYPE": "tcp",
        "REDIS_URL": f"127.0.0.1:{store.valkey.port}",
        "RUNTIME_ROOT": str(folder / "runtime"),
        "RUNTIME_SUBDIRECTORY": "ratelimit",
        "RUNTIME_WATCH_ROOT": "false",
    }
    with started([str(program)], port, environment) as server:
        yield server


def limits_in_yaml() -> str:
    lines = ["domain: headroom", "descriptors:"]
    for unit in UNITS:
        lines += [f"  - key: {unit}", f"    rate_limit: {{unit: {unit}, requests_per_unit: {PLENTY}}}"]
    return "\n".join(lines) + "\n"


@contextmanager
def headroom(store: Store, *options: str) -> Iterator[Server]:
    port = free_port()
    environment = {"REDIS_URL": store.url, "HEADROOM_BUDGET_MS": "10000", "HEADROOM_FAIL": "closed"}
    command = [sys.executable, "-m", "headroom_edge.gateway.rls", "--port", str(port), *options]
    with started(command, port, environment) as server:
        yield server


def peer_request(limits: int) -> RateLimitRequest:
    """One descriptor for each limit: a peer decides a request against all of its descriptors."""
    request = RateLimitRequest(domain="headroom")
    for unit in UNITS[:limits]:
        request.descriptors.add().entries.add(key=unit, value=b"acme_rides:get_k_81f")
    return request


def our_request(limits: int) -> RateLimitRequest:
    """One descriptor: the plan knows how many limits there are."""
    request = RateLimitRequest(domain="headroom")
    descriptor = request.descriptors.add()
    for key, value in (("tenant", TENANT), ("endpoint", ENDPOINTS[limits]), ("key", "k_81f")):
        descriptor.entries.add(key=key, value=value.encode())
    return request


def write(file: Path, request: RateLimitRequest) -> Path:
    """As gRPC frames a message."""
    message = request.SerializeToString()
    file.write_bytes(b"\0" + struct.pack(">I", len(message)) + message)
    return file


def refuse_other_work(server: Server, request: RateLimitRequest, statuses: int) -> None:
    """A descriptor that no limit matches is answered fast, with OK."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/{METHOD}")
            try:
                answer = RateLimitResponse.FromString(call(request.SerializeToString(), timeout=10))
            except grpc.RpcError:
                if time.monotonic() > deadline:
                    raise
                continue
        limited = [status for status in answer.statuses if status.HasField("current_limit")]
        if answer.overall_code != RateLimitResponse.OK or len(limited) != statuses:
            raise SystemExit(f"headroom: the rate limit service does other work than expected: {answer}")
        return
