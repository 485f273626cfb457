from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from config.data_folders import ROOT, Places
from config.embedded import ServerError, ServerProcess, sole_owner, start_embedded_valkey, start_postgres
from tests.sweeps import first_of

LAUNCH = """
import os, signal
from config.embedded import start_embedded_valkey, start_postgres
from config.data_folders import places
pids = start_postgres(places()).process.pid, start_embedded_valkey(places()).process.pid
print(*pids, flush=True)
"""


@pytest.fixture
def here() -> Iterator[Places]:
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        yield Places(Path(folder))


@pytest.fixture
def running() -> Iterator[list[ServerProcess]]:
    servers: list[ServerProcess] = []
    yield servers
    for server in servers:
        server.stop()


def start_both(places: Places, running: list[ServerProcess]) -> None:
    running.append(start_postgres(places))
    running.append(start_embedded_valkey(places))


def stop_both(running: list[ServerProcess]) -> None:
    while running:
        running.pop().stop()


def write(places: Places) -> None:
    with psycopg.connect(places.migration_database_url) as db:
        db.execute("CREATE TABLE kept AS SELECT 7 AS n")
    with redis.Redis.from_url(places.redis_url) as client:
        client.set("kept", 7)


def read(places: Places) -> tuple[object, object]:
    with psycopg.connect(places.migration_database_url) as db, redis.Redis.from_url(places.redis_url) as client:
        return db.execute("SELECT n FROM kept").fetchone(), client.get("kept")


def test_the_data_is_there_after_a_stop_and_a_start(here: Places, running: list[ServerProcess]) -> None:
    start_both(here, running)
    write(here)
    pids = [server.process.pid for server in running]
    stop_both(running)
    assert not any(psutil.pid_exists(pid) for pid in pids)
    start_both(here, running)
    assert read(here) == ((7,), b"7")


def test_the_data_is_there_after_kill_9_of_both_servers(here: Places, running: list[ServerProcess]) -> None:
    start_both(here, running)
    write(here)
    for server in running:
        server.process.kill()
        server.process.wait()
    start_both(here, running)
    assert read(here) == ((7,), b"7")


def test_servers_end_with_the_process_that_started_them(here: Places, running: list[ServerProcess]) -> None:
    environment = {**os.environ, "HEADROOM_HOME": str(here.home)}
    command = [sys.executable, "-c", LAUNCH + "os.kill(os.getpid(), signal.SIGKILL)"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == -signal.SIGKILL
    orphans = [psutil.Process(int(pid)) for pid in result.stdout.split() if psutil.pid_exists(int(pid))]
    _gone, alive = psutil.wait_procs(orphans, timeout=120)
    assert not alive
    start_both(here, running)


def test_a_server_left_running_is_ended_and_its_data_taken_over(here: Places, running: list[ServerProcess]) -> None:
    start_both(here, running)
    write(here)
    start_both(here, running)
    assert read(here) == ((7,), b"7")
    assert running[0].process.wait(120) == 0
    assert running[1].process.wait(120) == 0


def test_a_server_whose_owner_lives_is_left_alone(here: Places, running: list[ServerProcess]) -> None:
    environment = {**os.environ, "HEADROOM_HOME": str(here.home)}
    command = [sys.executable, "-c", LAUNCH + "input()"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        for start in (start_postgres, start_embedded_valkey):
            with pytest.raises(ServerError, match=rf"is in use by process {owner.pid}; stop it, or use another\.$"):
                start(here)
        assert all(psutil.pid_exists(pid) for pid in pids)
        owner.kill()
    start_both(here, running)


def test_a_pid_file_that_now_names_a_stranger_is_ignored(here: Places, running: list[ServerProcess]) -> None:
    start_both(here, running)
    stop_both(running)
    lines = [str(os.getpid()), str(here.postgres / "data"), "0", "5432", "", "", "1 1", "ready"]
    (here.postgres / "data" / "postmaster.pid").write_text("\n".join(lines))
    (here.valkey / "pid").write_text(str(os.getpid()))
    start_both(here, running)


def test_a_half_made_cluster_is_made_again(here: Places, running: list[ServerProcess]) -> None:
    (here.postgres / "data.new" / "base").mkdir(parents=True)
    running.append(start_postgres(here, durable=False))


@pytest.mark.parametrize("name", first_of(["with space and 'quote' and ü", "d" * 150]))
def test_any_home_works(here: Places, running: list[ServerProcess], name: str) -> None:
    places = Places(here.home / name)
    start_both(places, running)
    write(places)
    assert read(places) == ((7,), b"7")
    stop_both(running)
    if places.sockets != places.home:
        shutil.rmtree(places.sockets)


def test_both_listen_on_no_network(here: Places, running: list[ServerProcess]) -> None:
    start_both(here, running)
    for server in running:
        assert psutil.Process(server.process.pid).net_connections(kind="inet") == []


def test_valkey_keeps_an_append_only_file_and_never_evicts(here: Places, running: list[ServerProcess]) -> None:
    running.append(start_embedded_valkey(here))
    with redis.Redis.from_url(here.redis_url, decode_responses=True) as client:
        assert client.config_get("appendonly", "maxmemory-policy") == {
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
        }


def test_a_server_that_cannot_start_gives_one_line_with_its_reason(here: Places, running: list[ServerProcess]) -> None:
    start_both(here, running)
    stop_both(running)
    (here.postgres / "data" / "global" / "pg_control").unlink()
    with pytest.raises(ServerError, match=r"^PostgreSQL stopped during its start: .*pg_control"):
        start_postgres(here)
    (here.valkey / "appendonlydir" / "appendonly.aof.manifest").write_text("garbage")
    with pytest.raises(ServerError, match=r"^Valkey stopped during its start: .*"):
        start_embedded_valkey(here)


def test_a_home_has_one_owner(here: Places) -> None:
    with ExitStack() as stack:
        stack.enter_context(sole_owner(here))
        with pytest.raises(ServerError, match=rf"already runs in .*\(process {os.getpid()}\).*set HEADROOM_HOME"):
            stack.enter_context(sole_owner(here))


def test_a_home_knows_whether_its_last_owner_was_cut_short(here: Places) -> None:
    with sole_owner(here) as cut_short:
        assert not cut_short
        left_by_kill_9 = (here.home / "lock").read_text()
    with sole_owner(here) as cut_short:
        assert not cut_short
    (here.home / "lock").write_text(left_by_kill_9)
    with sole_owner(here) as cut_short:
        assert cut_short


def test_a_home_that_cannot_be_made_is_one_line(here: Places) -> None:
    (here.home / "file").write_text("")
    with pytest.raises(ServerError, match="cannot be created"):
        start_postgres(Places(here.home / "file" / "home"))
