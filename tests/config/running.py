"""The product as `make up` starts it, for the tests that need all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from config.data_folders import ROOT
from tests.valkeys import free_port

# Two busy cores are shared with whatever else runs.
PATIENCE_SECONDS = 300.0


class Up:
    """`python -m config.up` on a home and a port of its own."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.port = int(variables.pop("PORT", 0)) or free_port()
        self.log = home / "up.log"
        self.gateway_port = int(variables.pop("GATEWAY_PORT", 0)) or free_port()
        self.rls_port = int(variables.pop("RLS_PORT", 0)) or free_port()
        ports = {"PORT": str(self.port), "GATEWAY_PORT": str(self.gateway_port), "RLS_PORT": str(self.rls_port)}
        environment = {**os.environ, "HEADROOM_HOME": str(home), **ports, **variables}
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "config.up"], cwd=ROOT, env=environment, stdout=output, stderr=output
            )

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def health(self) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, {}

    def said(self) -> str:
        return self.log.read_text()

    def wait_for(self, done: Callable[[], bool], patience_s: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + patience_s
        while not done():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, f"{self.health()} {self.said()}"
            time.sleep(0.1)

    def wait_until_ready(self, patience_s: float = PATIENCE_SECONDS) -> None:
        self.wait_for(lambda: "ready at http://127.0.0.1" in self.said(), patience_s)

    def end(self, number: signal.Signals) -> int:
        family = self.family()
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        _gone, alive = psutil.wait_procs(family, timeout=120)
        assert not alive
        return code
