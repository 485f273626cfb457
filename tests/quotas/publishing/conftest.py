from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import redis

from config.data_folders import ROOT
from quotas.publishing import store
from tests.processes import environment
from tests.quotas.publishing.worlds import world_create
from tests.valkeys import SpareValkey

Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def client(valkey: redis.Redis, valkey_server: SpareValkey) -> Iterator[redis.Redis]:
    """As the publisher has it, on a server with nothing but the library."""
    with store.connect(valkey_server.url) as text_client:
        store.prepare(text_client)
        yield text_client


@pytest.fixture
def world(db: None) -> None:
    """Committed only in tests that ask for `run` too: other processes must see it."""
    world_create()


@pytest.fixture
def run(transactional_db: None, valkey_url: str) -> Iterator[Run]:
    """Starts `python -m tests.quotas.publishing.publishers ARGUMENTS` on the servers of this test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.quotas.publishing.publishers", *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment(valkey_url), text=True, stdin=pipe, stdout=pipe, cwd=ROOT)
        started.append(process)
        return process

    yield begin
    for process in started:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.communicate()
