from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from config.data_folders import ROOT
from headroom_edge.admin.command import main
from quotas.tokens import token_issue
from tests.processes import environment
from tests.quotas.world import make_world

PATIENCE_S = 300  # of a start on a busy machine


@dataclass(frozen=True, slots=True)
class Run:
    status: int
    out: str
    err: str


Admin = Callable[..., Run]


@pytest.fixture(scope="session")
def web_port(django_db_setup: None, valkey_url: str) -> Iterator[int]:
    """The real web process, on the database of the tests."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor, port = listening.fileno(), listening.getsockname()[1]
        web = subprocess.Popen(
            [sys.executable, "-m", "config.web", "--fd", str(descriptor)],
            env=environment(valkey_url, HEADROOM_HTTPS="0"),
            pass_fds=[descriptor],
            cwd=ROOT,
        )
    try:
        _wait(web, port)
        yield port
    finally:
        web.terminate()
        web.wait(60)


def _wait(web: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        assert web.poll() is None
        assert time.monotonic() < end
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", "/v1/schema")
            connection.getresponse().read()
        except OSError:
            time.sleep(0.1)
        else:
            return


@pytest.fixture
def world(transactional_db: None, web_port: int) -> None:
    make_world()


@pytest.fixture
def token(world: None) -> str:
    issued = token_issue(
        label="pipeline", role="operator", scopes=("read", "write"), author="ann", reason="for the pipeline"
    )
    return str(issued.text)


@pytest.fixture
def admin(web_port: int, token: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Admin:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HEADROOM_TOKEN", token)

    def run(*arguments: object, url: str = f"http://127.0.0.1:{web_port}") -> Run:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["--url", url, *map(str, arguments)])
        said = capsys.readouterr()
        return Run(int(ended.value.code or 0), said.out, said.err)

    return run
