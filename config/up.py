"""`make up`: all of Headroom on one machine, under one supervisor."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
import redis
from django.conf import settings
from kombu import Connection

from config import env
from config.data_folders import ROOT, Places, places
from config.embedded import ServerError, end_with_parent, sole_owner, start_embedded_valkey, start_postgres
from config.gate import Gate
from config.prepare import MODULES as STEP_MODULES
from config.prepare import needed_steps
from config.startup_page import StartupPage
from config.supervisor import EmbeddedServer, Printer, Program, Supervisor
from config.up_cluster import UpCluster, forget_outdated, leave_cluster
from headroom_edge.store.address import is_clustered
from quotas.publishing import store

HOST: Final = "127.0.0.1"
# After a kill -9 of the supervisor, the old web process needs a moment to release its port.
PORT_PATIENCE_SECONDS: Final = 5.0
REACH_SECONDS: Final = 3
HEALTH_EVERY_SECONDS: Final = 0.5
# Short, because the supervisor does nothing else while it waits.
HEALTH_PATIENCE_SECONDS: Final = 2.0
BACKLOG: Final = 2048
COMPLAIN_AFTER_SECONDS: Final = 60.0
# Pages, jobs and the demo leave the processor to checks and to the publisher.
NICE: Final = 5
FIRST: Final = ("gateway", "rls", "publisher")
HISTORY: Final = "history"
TRIAL_ENDPOINT: Final = "rider:track"
# What each program loads before it waits. The gateway and the RLS work without Django, and start at once.
MODULES: Final[Mapping[str, Sequence[str]]] = {
    "web": ("config.asgi", "config.urls"),
    "publisher": ("config.loaded", "quotas.management.commands.publisher"),
    "worker": ("config.loaded", "config.celery", "quotas.tasks"),
    "slices": ("config.loaded", "config.celery", "quotas.tasks"),
    "beat": ("config.loaded", "config.celery", "quotas.tasks"),
    "traffic": ("config.loaded", "quotas.management.commands.traffic"),
    HISTORY: ("config.loaded", "quotas.management.commands.seed"),
}


def main() -> int:
    os.chdir(ROOT)
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    home = places()
    if "--end-with-parent" in sys.argv:
        _end_with_parent()
    try:
        cluster = _read_environment(home)
        with sole_owner(home) as cut_short:
            _run(home, cluster, port_patience=PORT_PATIENCE_SECONDS if cut_short else 0)
    except ServerError as error:
        sys.stderr.write(f"headroom: {error}\n")
        return 1
    return 0


def _read_environment(home: Places) -> UpCluster | None:
    """Completes it for the programs, and reads every variable before anything starts."""
    with env.one_line_errors():
        os.environ["HEADROOM_HOME"] = str(home.home)
        os.environ["SECRET_KEY"] = env.text("SECRET_KEY", "") or home.secret()
        os.environ.setdefault("HEADROOM_HTTPS", "0")
        # An external database gets no demo data unless somebody asks for it.
        os.environ.setdefault("HEADROOM_DEMO", "0" if env.text("DATABASE_URL", "") else "1")
        cluster = _wanted_cluster(home)
        settings.SECRET_KEY  # noqa: B018 - reads the settings
    return cluster


def _end_with_parent() -> None:
    # make forwards the signals that it catches, but cannot forward a kill -9.
    parent = os.getppid()
    end_with_parent(signal.SIGTERM, parent)()


def _wanted_cluster(home: Places) -> UpCluster | None:
    wanted = env.flag("HEADROOM_CLUSTER", default=False)
    # For the programs: until the cluster has started, its folder does not tell that it is in use.
    os.environ["HEADROOM_CLUSTER"] = "1" if wanted else "0"
    if not wanted:
        return None
    if env.text("REDIS_URL", ""):
        raise env.SettingError("CLUSTER=1 starts a cluster of its own; unset REDIS_URL, which names another store.")
    cluster = UpCluster(home)
    cluster.choose_ports()
    return cluster


def _run(home: Places, cluster: UpCluster | None, port_patience: float) -> None:
    supervisor = Supervisor(Printer())
    try:
        with _listen(settings.PORT, port_patience) as web, _listen(settings.GATEWAY_PORT, port_patience) as gateway:
            # gRPC cannot inherit a port. It is tried here, so that a busy one is told at once and in one line.
            _listen(settings.RLS_PORT, port_patience).close()
            started, prepared = Gate(), Gate()
            with ExitStack() as startup:
                for listener in (web, gateway):
                    page = StartupPage(listener, lambda: supervisor.printer.last)
                    startup.enter_context(supervisor.attending(listener, page.answer))
                given = _reach_servers()
                preparing = _parked("prepare", ["-m", "config.prepare", *needed_steps()], started, STEP_MODULES)
                supervisor.start(preparing, once=True)
                forming = _start_cluster(supervisor, cluster) if cluster else None
                _start_servers(supervisor, home, given, cluster)
                if forming and not supervisor.wait_for(forming) and not supervisor.should_stop:
                    raise ServerError("The cluster could not be formed; see its message above.")
                started.open()
                _start_programs(supervisor, {"web": web.fileno(), "gateway": gateway.fileno()}, prepared)
                if not supervisor.wait_for(preparing) and not supervisor.should_stop:
                    raise ServerError("The preparation failed; see its messages above.")
            prepared.open()
            supervisor.run(Announcer(supervisor, settings.PORT).tick)
    finally:
        supervisor.stop_all()
        if supervisor.children:
            supervisor.say("stopped; your data is kept for the next start")


def _listen(port: int, patience: float) -> socket.socket:
    """Open the port now; the process that serves it inherits it. Early connections are answered, never refused."""
    deadline = time.monotonic() + patience
    while True:
        try:
            listener = socket.create_server((HOST, port), backlog=BACKLOG)
        except OSError as error:
            if time.monotonic() >= deadline:
                trouble = os.strerror(error.errno or 0).lower()
                raise ServerError(f"Port {port} cannot be used ({trouble}); free it, or {_another(port)}.") from None
            time.sleep(0.1)
        else:
            listener.setblocking(False)
            return listener


def _another(port: int) -> str:
    if port == settings.GATEWAY_PORT:
        return "choose another for the gateway with make up GATEWAY_PORT=8011"
    if port == settings.RLS_PORT:
        return "choose another for Envoy's rate limit service with make up RLS_PORT=8012"
    return "choose another with make up PORT=8010"


def _reach_servers() -> set[str]:
    """The variables that name servers of one's own."""
    given = {name for name in ("DATABASE_URL", "REDIS_URL", "BROKER_URL") if env.text(name, "")}
    if "DATABASE_URL" in given:
        _reach_database(settings.DATABASE_URL)
    if "REDIS_URL" in given:
        _reach_redis(settings.REDIS_URL)
    if "BROKER_URL" in given:
        _reach_broker(settings.BROKER_URL)
    return given


def _start_cluster(supervisor: Supervisor, cluster: UpCluster) -> Program:
    """Its nodes run when this returns; they are one cluster when the returned program ends."""
    supervisor.say(f"a cluster of Valkeys in {cluster.places.cluster}")
    cluster.adopt()
    for node in cluster.nodes():
        supervisor.start(node)
    forming = _program("cluster", ["-m", "config.up_cluster"])
    supervisor.start(forming, once=True)
    return forming


def _start_servers(
    supervisor: Supervisor, home: Places, given: Collection[str], cluster: UpCluster | None = None
) -> None:
    if "DATABASE_URL" not in given:
        supervisor.say(f"PostgreSQL in {home.postgres}")
        supervisor.start(EmbeddedServer("postgres", lambda: start_postgres(home)))
    # Beside a cluster it is the broker only.
    if ("BROKER_URL" if cluster else "REDIS_URL") not in given:
        supervisor.say(f"Valkey in {home.valkey}")
        supervisor.start(EmbeddedServer("valkey", lambda: start_embedded_valkey(home)))
    if cluster is None:
        leave_cluster(home)
        if "REDIS_URL" not in given:
            forget_outdated(home)


def _reach_database(url: str) -> None:
    try:
        psycopg.connect(url, connect_timeout=REACH_SECONDS).close()
    except (psycopg.Error, UnicodeError) as error:
        raise ServerError(f"The database in DATABASE_URL cannot be reached: {_first_line(error)}") from None


def _reach_redis(url: str) -> None:
    try:
        with store.connect(url, patience_seconds=REACH_SECONDS) as client:
            client.ping()
            is_node = not is_clustered(url) and store.is_clustered(client)
    except (redis.RedisError, OSError) as error:
        raise ServerError(f"The server in REDIS_URL cannot be reached: {_first_line(error)}") from None
    if is_node:
        # It would answer for its own shards only.
        raise ServerError("REDIS_URL names one node of a cluster; write it like redis+cluster://host1:6379,host2:6379.")


def _reach_broker(url: str) -> None:
    try:
        with Connection(url, connect_timeout=REACH_SECONDS, transport_options=dict(settings.BROKER_OPTIONS)) as broker:
            broker.ensure_connection(max_retries=1, timeout=REACH_SECONDS)
    except Exception as error:  # noqa: BLE001 - every transport has its own errors
        raise ServerError(f"The broker in BROKER_URL cannot be reached: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def programs(listeners: Mapping[str, int]) -> Mapping[str, list[str]]:
    """`listeners`: the file descriptors of the ports, by the program that inherits each."""
    celery = ["-m", "celery", "--app", "config", "--quiet"]
    quiet = ["--without-gossip", "--without-mingle", "--heartbeat-interval", "5"]
    programs = {
        "web": ["-m", "config.web", "--fd", str(listeners["web"])],
        "gateway": ["-m", "headroom_edge.gateway", "--fd", str(listeners["gateway"])],
        "rls": ["-m", "headroom_edge.gateway.rls", "--host", HOST, "--port", str(settings.RLS_PORT)],
        "publisher": ["manage.py", "publisher"],
        "worker": [*celery, "worker", "-Q", "celery", "--loglevel", "WARNING", "--concurrency", "2", *quiet],
        # Slices of a calibration may take both processes for minutes, and the drain cannot wait that long.
        "slices": [*celery, "worker", "-Q", "slices", "-n", "slices@%h", "--loglevel", "WARNING", "-c", "2", *quiet],
        "beat": [*celery, "beat", "--loglevel", "WARNING", "--schedule", str(settings.HEADROOM_HOME / "beat-schedule")],
    }
    if settings.HEADROOM_DEMO:
        programs["traffic"] = ["manage.py", "traffic"]
        programs[HISTORY] = ["manage.py", "seed", "--older"]
    return programs


def _start_programs(supervisor: Supervisor, listeners: Mapping[str, int], prepared: Gate) -> None:
    """They load their modules while the database is prepared, and wait for it."""
    for name, arguments in programs(listeners).items():
        inherits = [listeners[name]] if name in listeners else []
        nice = 0 if name in FIRST else NICE
        if name in MODULES:
            program = _parked(name, arguments, prepared, MODULES[name], inherits, nice)
        else:
            program = _program(name, arguments, inherits, nice)
        supervisor.start(program, once=name == HISTORY)


def _parked(
    name: str, arguments: list[str], gate: Gate, modules: Sequence[str], inherits: Sequence[int] = (), nice: int = 0
) -> Program:
    waiting = ["-m", "config.parked", str(gate.fd), ",".join(modules)]
    return _program(name, [*waiting, *arguments], [*inherits, gate.fd], nice)


def _program(name: str, arguments: list[str], inherits: Sequence[int] = (), nice: int = 0) -> Program:
    environment = {
        **os.environ,
        "REDIS_URL": settings.REDIS_URL,
        "GATEWAY_URL": _gateway_url(),
        "RLS_URL": f"http://{HOST}:{settings.RLS_PORT}",
        "PYTHONUNBUFFERED": "1",
    }
    return Program(name, [sys.executable, *arguments], environment, inherits, nice)


def _gateway_url() -> str:
    return f"http://{HOST}:{settings.GATEWAY_PORT}"


@dataclass
class Announcer:
    """Announces once that everything is ready, or every minute why it is not."""

    supervisor: Supervisor
    port: int
    ready: bool = False

    def __post_init__(self) -> None:
        self._next = time.monotonic()
        self._complain = time.monotonic() + COMPLAIN_AFTER_SECONDS

    def tick(self) -> None:
        if self.ready or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + HEALTH_EVERY_SECONDS
        trouble = self._trouble()
        if trouble is None:
            self.ready = True
            for line in self._directions():
                self.supervisor.say(line)
        elif time.monotonic() > self._complain:
            self._complain = time.monotonic() + COMPLAIN_AFTER_SECONDS
            self.supervisor.say(f"not ready yet: {trouble}")

    def _directions(self) -> Iterator[str]:
        # A secret is shown on a terminal, and not written to the log of a service.
        shows = sys.stdout.isatty()
        yield f"ready at http://{HOST}:{self.port}/ (API: /v1/docs, health: /healthz); press Ctrl-C to stop"
        has_owner = "owner" in needed_steps()
        yield how_to_sign_in(settings.HEADROOM_OWNER_PASSWORD, has_owner=has_owner, shows=shows)
        yield f"checks over HTTP: {_gateway_url()}/v1/check; Envoy's rate limit service: {HOST}:{settings.RLS_PORT}"
        yield from how_to_try(settings.HEADROOM_TRIAL_KEY, shows=shows)
        if not env.text("REDIS_URL", ""):
            yield f"services that enforce need: export REDIS_URL={shlex.quote(settings.REDIS_URL)}"

    def _trouble(self) -> str | None:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.port}/healthz", timeout=HEALTH_PATIENCE_SECONDS):
                return None
        except urllib.error.HTTPError as error:
            return _reason(error)
        except OSError as error:
            return f"the web process does not answer ({_first_line(error)})"


def how_to_sign_in(password: Path, *, has_owner: bool, shows: bool) -> str:
    """`has_owner`: a step has seen to it, and has said who it is. `shows`: the password itself, not just its file."""
    if password.exists():
        if shows:
            return f"sign in as owner with the password {password.read_text()} (stored in {password})"
        return f"sign in as owner with the password in {password}"
    if has_owner:
        return "sign in with your account"
    return "sign in with your account; `manage.py createsuperuser` creates the first one, an owner"


def how_to_try(key: Path, *, shows: bool) -> Iterator[str]:
    """A command to copy, with a key of the demo."""
    if key.exists():
        bearer = key.read_text() if shows else f"$(cat {shlex.quote(str(key))})"
        asked = json.dumps({"endpoint": TRIAL_ENDPOINT})
        yield f"try one: curl -s {_gateway_url()}/v1/check -H \"Authorization: Bearer {bearer}\" -d '{asked}'"


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["reason"])
    except (ValueError, KeyError, TypeError):
        return f"/healthz responds with {error.code}"


if __name__ == "__main__":
    sys.exit(main())
