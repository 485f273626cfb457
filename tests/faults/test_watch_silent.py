"""The dead-man's switch on the running product: whatever stops the evaluation of alerts, the targets are told.

The short form is tests/quotas/alerts/test_guard.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from config.data_folders import ROOT
from tests.config.running import Up
from tests.headroom_edge.world import Client
from tests.quotas.alerts.receivers import Receiver, receiving

# What is stopped, by words of its command line.
ROUNDS = {"beat": ("celery", "beat"), "worker": ("celery", "worker"), "PostgreSQL": ("postgres",)}


@contextmanager
def running() -> Iterator[Up]:
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        up = Up(Path(folder), HEADROOM_DEMO="0", HEADROOM_ALERT_NETWORKS="127.0.0.0/8")
        try:
            up.wait_until_ready()
            yield up
        finally:
            if up.process.poll() is None:
                up.end(signal.SIGTERM)


@contextmanager
def stopped(up: Up, words: tuple[str, ...]) -> Iterator[None]:
    """With SIGSTOP: the connections stay open and nobody answers, which is worse than a crash."""
    held = [process for process in up.family() if all(word in " ".join(process.cmdline()) for word in words)]
    assert held, words
    try:
        for process in held:
            process.suspend()
        yield
    finally:
        for process in held:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def add_target(up: Up, url: str) -> None:
    command = [sys.executable, "manage.py", "token", "create", "a test", "--role", "operator", "--scope", "write"]
    environment = {**os.environ, "HEADROOM_HOME": str(up.log.parent)}
    token = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    fields = {"kind": "webhook", "address": url, "alerts": ["watch-silent"], "reason": "a test"}
    headers = {"authorization": f"Bearer {token.strip()}", "content-type": "application/json"}
    answer = Client(up.port, headers).post("/v1/alert-targets", fields)
    assert answer.status == 201, answer


def states(server: Receiver) -> list[str]:
    return [event["state"] for _, _, data in list(server.got) for event in json.loads(data)["events"]]


@pytest.mark.faults_long
def test_whatever_stops_the_watch_is_told_and_so_is_its_end(figures: Callable[[str], None]) -> None:
    texts = []
    with receiving() as server, running() as up:
        add_target(up, server.url)
        for name, words in ROUNDS.items():
            server.got.clear()
            with stopped(up, words):
                up.wait_for(lambda: "firing" in states(server))
            texts.append(f"{name}: {json.loads(server.got[0][2])['events'][0]['text']}")
            up.wait_for(lambda: states(server)[-1] == "resolved")
            assert states(server) == ["firing", "resolved"], name
            up.wait_for(lambda: up.health()[0] == 200)
    assert "PostgreSQL has not answered" in texts[-1]
    figures(f"{len(texts)} rounds, each told once and resolved once; {'; '.join(texts)}")
