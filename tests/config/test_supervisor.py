from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from config.supervisor import Printer, Program, Supervisor

PATIENCE_SECONDS = 120.0


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    made = Supervisor(Printer())
    yield made
    made.stop_all()
    for number, handler in before.items():
        signal.signal(number, handler)


def python(name: str, code: str) -> Program:
    return Program(name, [sys.executable, "-u", "-c", code], os.environ)


def run_once(supervisor: Supervisor, program: Program) -> bool:
    supervisor.start(program, once=True)
    return supervisor.wait_for(program)


def run_until(supervisor: Supervisor, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS

    def tick() -> None:
        if done():
            os.kill(os.getpid(), signal.SIGTERM)
        assert time.monotonic() < deadline

    supervisor.run(tick)


def test_lines_carry_the_name_of_their_process(supervisor: Supervisor, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_once(supervisor, python("one", "print('hello'); print('no end', end='')"))
    assert not run_once(supervisor, python("two", "raise SystemExit('sad')"))
    assert capfd.readouterr().out.splitlines() == ["one       | hello", "one       | no end", "two       | sad"]


def test_a_dead_process_is_started_again_more_and_more_slowly(
    supervisor: Supervisor, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lives = tmp_path / "lives"
    supervisor.start(python("frail", f"open({str(lives)!r}, 'a').write('x'); raise SystemExit(3)"))
    run_until(supervisor, lambda: lives.exists() and len(lives.read_text()) >= 3)
    said = [line for line in capfd.readouterr().out.splitlines() if line.startswith("headroom")]
    assert said[0] == "headroom  | frail ended (exit code 3); restarting it in 0.5 s"
    assert said[1] == "headroom  | frail ended (exit code 3); restarting it in 1 s"


def test_a_program_that_has_an_end_is_started_again_only_if_it_fails(
    supervisor: Supervisor, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lives = tmp_path / "lives"
    code = f"f = open({str(lives)!r}, 'a'); f.write('x'); n = f.tell(); print('life', n); raise SystemExit(n < 2)"
    supervisor.start(python("task", code), once=True)
    run_until(supervisor, lambda: not supervisor.children)
    said = capfd.readouterr().out.splitlines()
    again = "headroom  | task ended (exit code 1); restarting it in 0.5 s"
    assert said == ["task      | life 1", again, "task      | life 2"]


def test_a_program_gives_way_to_others_as_it_was_told(
    supervisor: Supervisor, capfd: pytest.CaptureFixture[str]
) -> None:
    program = python("meek", "import os; print(os.getpriority(os.PRIO_PROCESS, 0))")
    program.nice = 5
    assert run_once(supervisor, program)
    assert capfd.readouterr().out == f"meek      | {os.getpriority(os.PRIO_PROCESS, 0) + 5}\n"


def test_a_killed_process_is_named_by_its_signal(
    supervisor: Supervisor, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lives = tmp_path / "lives"
    supervisor.start(python("hit", f"import os; open({str(lives)!r}, 'a').write('x'); os.kill(os.getpid(), 9)"))
    run_until(supervisor, lambda: lives.exists() and lives.stat().st_size >= 2)
    assert "headroom  | hit ended (signal SIGKILL); restarting it in 0.5 s" in capfd.readouterr().out


def test_a_process_that_ignores_the_stop_is_killed_with_its_children(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("config.supervisor.STOP_SECONDS", 0.5)
    pids = tmp_path / "pids"
    code = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(pids)!r} + ".new", "w").write(f"{{os.getpid()}} {{child.pid}}")
os.rename({str(pids)!r} + ".new", {str(pids)!r})
time.sleep(60)
"""
    supervisor.start(python("deaf", code))
    run_until(supervisor, pids.exists)
    family = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    supervisor.stop_all()
    _gone, alive = psutil.wait_procs(family, timeout=120)
    assert not alive
