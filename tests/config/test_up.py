from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from config.places import ROOT
from tests.valkeys import free_port

# Two busy cores are shared with whatever else runs.
PATIENCE_SECONDS = 120.0


class Up:
    """`python -m config.up` on a home and a port of its own."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.port = int(variables.pop("PORT", 0)) or free_port()
        self.log = home / "up.log"
        environment = {**os.environ, "HEADROOM_HOME": str(home), "PORT": str(self.port), **variables}
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "config.up"], cwd=ROOT, env=environment, stdout=output, stderr=output
            )

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def health(self) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, {}

    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, f"{self.health()} {self.said()}"
            time.sleep(0.1)

    def wait_until_ready(self) -> None:
        self.wait_for(lambda: "ready at http://127.0.0.1" in self.said())

    def end(self, number: signal.Signals) -> int:
        family = self.family()
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        _gone, alive = psutil.wait_procs(family, timeout=10)
        assert not alive
        return code


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


@pytest.mark.timeout(400)
def test_it_comes_up_survives_blows_and_leaves_nothing_behind(start: Callable[..., Up]) -> None:
    up = start()
    up.wait_until_ready()
    status, body = up.health()
    assert status == 200
    assert body["status"] == "ok"
    assert body["published_revision"] > 0
    assert "sign in as owner with the password " in up.said()

    for name in ("uvicorn", "valkey", "postgres"):
        kill_one(up, name)
    up.wait_for(lambda: up.health()[0] == 200)
    assert "web ended (signal SIGKILL); starting it again in 0.5 s" in up.said()

    assert up.end(signal.SIGINT) == 0
    assert "Traceback" not in up.said(), up.said()

    again = start()
    again.wait_until_ready()
    assert again.end(signal.SIGKILL) == -signal.SIGKILL


def kill_one(up: Up, word: str) -> None:
    victim = next(process for process in up.family() if any(word in part for part in process.cmdline()[:3]))
    victim.kill()


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
        f"headroom: Port {port} cannot be used (address already in use): "
        "free it, or choose another: make up PORT=8001.\n"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "postgresql://u@127.0.0.1:1/x"),
        ("REDIS_URL", "redis://127.0.0.1:1/0"),
        ("REDIS_URL", "redis://127.0.0.1:1/0?nonsense=1"),
        ("BROKER_URL", "redis://127.0.0.1:1/0"),
    ],
)
def test_a_server_that_is_not_there_is_one_line(home: Path, name: str, value: str) -> None:
    code, said = refusal(home, **{name: value})
    assert code == 1
    assert said.startswith("headroom: ")
    assert f"of {name} cannot be reached" in said
    assert said.count("\n") == 1
