from __future__ import annotations

import json
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from config.up import how_to_sign_in, how_to_try
from tests.config.running import PATIENCE_SECONDS, Up
from tests.headroom_edge.gateway.rls.asking import OVER_LIMIT, RlsClient
from tests.headroom_edge.world import Client
from tests.sweeps import first_of

PROGRAMS = {"gateway": "headroom_edge.gateway", "rls": "headroom_edge.gateway.rls"}
NOBODYS = {"endpoint": "rider:track"}  # names no tenant, and is refused by whoever has a configuration


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        yield Path(folder)


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def launch(**variables: str) -> Up:
        started.append(Up(home, **variables))
        return started[-1]

    yield launch
    for up in started:
        if up.process.poll() is None:
            up.end(signal.SIGTERM)


@pytest.mark.timeout(900)
def test_it_comes_up_survives_blows_and_leaves_nothing_behind(start: Callable[..., Up]) -> None:
    up = start()
    up.wait_for(lambda: up.health()[1].get("status") == "starting")
    up.wait_until_ready()
    status, body = up.health()
    assert status == 200
    assert body["status"] == "ok"
    assert body["published_revision"] > 0
    # Its output is a file, so that no secret may be in it.
    password = up.log.parent / "owner_password"
    assert f"sign in as owner with the password in {password}" in up.said()
    assert password.read_text() not in up.said()
    assert f"export REDIS_URL='unix://{up.log.parent}/valkey/valkey.sock?db=0'" in up.said()
    assert "counts are missing" not in up.said()

    checks = Client(up.gateway_port)
    assert f"checks over HTTP: http://127.0.0.1:{up.gateway_port}/v1/check" in up.said()
    assert (body["gateway"], checks.post("/v1/check", {}).status) == ("ok", 401)
    assert json.loads(subprocess.check_output(["sh", "-c", command_to_try(up)]))["allowed"] is True
    envoy = RlsClient(up.rls_port)
    assert f"Envoy's rate limit service: 127.0.0.1:{up.rls_port}" in up.said()
    assert (body["rls"], envoy.ask(NOBODYS).overall_code) == ("ok", OVER_LIMIT)
    # Stopped first: a killed one may be back before /healthz looks.
    for name in ("gateway", "rls"):
        one_of(up, PROGRAMS[name]).suspend()
        up.wait_for(lambda: f"{name}: " in up.health()[1].get("reason", ""))  # noqa: B023 - it is called at once

    for name in (*PROGRAMS.values(), "config.web", "valkey", "postgres"):
        one_of(up, name).kill()
    up.wait_for(lambda: up.health()[0] == 200)
    assert "web ended (signal SIGKILL); restarting it in 0.5 s" in up.said()
    assert "gateway ended (signal SIGKILL); restarting it in 0.5 s" in up.said()
    assert "rls ended (signal SIGKILL); restarting it in 0.5 s" in up.said()
    assert checks.post("/v1/check", {}).status == 401
    assert envoy.ask(NOBODYS).overall_code == OVER_LIMIT

    assert up.end(signal.SIGINT) == 0
    assert "Traceback" not in up.said(), up.said()

    again = start()
    again.wait_until_ready()
    assert again.end(signal.SIGKILL) == -signal.SIGKILL


def test_it_offers_to_create_the_first_owner_only_where_there_may_be_none(home: Path) -> None:
    """After a restore there are owners, and no file with a password."""
    file = home / "password"
    assert how_to_sign_in(file, has_owner=True, shows=True) == "sign in with your account"
    assert "`manage.py createsuperuser` creates the first one" in how_to_sign_in(file, has_owner=False, shows=True)


def test_a_secret_is_shown_on_a_terminal_and_named_elsewhere(home: Path) -> None:
    file = home / "secret file"
    assert list(how_to_try(file, shows=True)) == []
    file.write_text("a-secret")
    for shows in (True, False):
        said = [how_to_sign_in(file, has_owner=True, shows=shows), *how_to_try(file, shows=shows)]
        assert ["a-secret" in line for line in said] == [shows, shows]
        assert [str(file) in line for line in said] == [True, not shows]
        assert said[1].startswith("try one: curl -s http://127.0.0.1:")


def command_to_try(up: Up) -> str:
    (command,) = (line.partition("try one: ")[2] for line in up.said().splitlines() if "try one: " in line)
    return command


def command_of(process: psutil.Process) -> list[str]:
    """None if it has ended meanwhile, as servers' workers do."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def one_of(up: Up, word: str) -> psutil.Process:
    """By a module that it runs, or by its program."""
    family = [(process, command_of(process)) for process in up.family()]
    return next(process for process, command in family if word in command or word in "".join(command[:1]))


def refusal(home: Path, **variables: str) -> tuple[int, str]:
    up = Up(home, **variables)
    code = up.process.wait(PATIENCE_SECONDS)
    return code, up.said()


def test_a_busy_port_is_one_line(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code, said = refusal(home, PORT=str(port))
    assert code == 1
    assert said == (
        f"headroom: Port {port} cannot be used (address already in use); "
        "free it, or choose another with make up PORT=8010.\n"
    )


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("GATEWAY_PORT", "for the gateway with make up GATEWAY_PORT=8011"),
        pytest.param("RLS_PORT", "for Envoy's rate limit service with make up RLS_PORT=8012", marks=pytest.mark.sweep),
    ],
)
def test_a_busy_port_beside_it_is_one_line(home: Path, name: str, advice: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code, said = refusal(home, **{name: str(port)})
    assert code == 1
    assert said == (
        f"headroom: Port {port} cannot be used (address already in use); free it, or choose another {advice}.\n"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "postgresql://u@127.0.0.1:1/x"),
        ("REDIS_URL", "redis://127.0.0.1:1/0"),
        ("BROKER_URL", "redis://127.0.0.1:1/0"),
        pytest.param("BROKER_URL", "redis+sentinel://127.0.0.1:1,127.0.0.1:2/main/1", marks=pytest.mark.sweep),
    ],
)
def test_a_server_that_is_not_there_is_one_line(home: Path, name: str, value: str) -> None:
    code, said = refusal(home, **{name: value})
    assert code == 1
    assert said.startswith("headroom: ")
    assert f"in {name} cannot be reached" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "url", first_of(["redis+cluster://127.0.0.1:1,127.0.0.1:2", "redis+sentinel://127.0.0.1:1/main/0"])
)
def test_a_store_of_several_servers_that_are_not_there_is_one_line(home: Path, url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        code, said = refusal(home, REDIS_URL=url, BROKER_URL=broker)
    assert code == 1
    assert said.startswith("headroom: The server in REDIS_URL cannot be reached: ")
    assert said.count("\n") == 1
