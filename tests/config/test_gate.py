"""Programs load their modules early and wait until what they need is there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from config.data_folders import ROOT
from config.gate import Gate

PATIENCE_SECONDS = 120.0


def parked(gate: Gate, folder: Path) -> subprocess.Popen[bytes]:
    (folder / "early.py").write_text(f"open({str(folder / 'loaded')!r}, 'w')")
    script = folder / "script.py"
    script.write_text(f"import sys; open({str(folder / 'ran')!r}, 'w').write(' '.join(sys.argv[1:]))")
    command = [sys.executable, "-m", "config.parked", str(gate.fd), "early", str(script), "--fast"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[gate.fd])


def test_a_program_waits_with_its_modules_loaded_until_the_gate_opens(tmp_path: Path) -> None:
    gate = Gate()
    program = parked(gate, tmp_path)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (tmp_path / "loaded").exists():
        assert program.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not (tmp_path / "ran").exists()
    gate.open()
    assert program.wait(PATIENCE_SECONDS) == 0
    assert (tmp_path / "ran").read_text() == "--fast"
    # Whoever is started again does not wait.
    assert parked(gate, tmp_path).wait(PATIENCE_SECONDS) == 0
    os.close(gate.fd)
