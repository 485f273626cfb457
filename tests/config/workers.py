"""Celery workers and beats of the canary application, for tests that kill them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from kombu import Connection

from config.celery import app
from config.data_folders import ROOT
from quotas.models import Task
from tests.processes import environment

PATIENCE_SECONDS = 400.0
BROKER_DATABASE = 5


class Workers:
    """Starts workers and beats of the canary application on the servers of a test."""

    def __init__(self, stack: ExitStack, folder: Path, valkey_port: int) -> None:
        self.stack, self.folder, self.port = stack, folder, valkey_port
        self.file = folder / "canary"

    def environment(self, broker_port: int) -> dict[str, str]:
        return environment(
            f"redis://127.0.0.1:{self.port}/0",
            BROKER_URL=f"redis://127.0.0.1:{broker_port}/{BROKER_DATABASE}",
            CANARY_FILE=str(self.file),
        )

    def start(self, *words: str, broker_port: int = 0) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "celery", "--app", "tests.config.canary", "--quiet", *words]
        own = self.environment(broker_port or self.port)
        process = subprocess.Popen(command, env=own, cwd=ROOT, stderr=subprocess.DEVNULL, process_group=0)
        self.stack.callback(end, process)
        return process

    def worker(self, broker_port: int = 0, processes: int = 1) -> subprocess.Popen[bytes]:
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "CRITICAL")
        return self.start("worker", "--concurrency", str(processes), *quiet, broker_port=broker_port)

    def beat(self, name: str) -> subprocess.Popen[bytes]:
        return self.start("beat", "--schedule", str(self.folder / name), "--pidfile", str(self.folder / f"{name}.pid"))

    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def send(self, name: str, *arguments: object) -> None:
        with Connection(f"redis://127.0.0.1:{self.port}/{BROKER_DATABASE}") as broker:
            app.send_task(name, [str(self.file), *arguments], connection=broker)

    def ask(self, task: Task) -> None:
        """As the API does when somebody has asked for a long task."""
        with Connection(f"redis://127.0.0.1:{self.port}/{BROKER_DATABASE}") as broker:
            app.send_task("quotas.run_task", [task.pk, task.kind], connection=broker)


def end(process: subprocess.Popen[bytes]) -> None:
    """With its children, which may be stopped."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def eventually(condition: Callable[[], object]) -> float:
    """How long it took, in seconds."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < PATIENCE_SECONDS
        time.sleep(0.05)
    return time.monotonic() - begin
