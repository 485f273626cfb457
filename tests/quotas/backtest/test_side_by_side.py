"""Work is spread over processes: in order, bounded, and a process that is killed ends it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from quotas.backtest import side_by_side
from quotas.backtest.side_by_side import AHEAD, ProcessLostError, in_order

HERE = os.getpid()


ROOT = Path(__file__).parents[3]
needs_cores = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="it runs in one process here"
)


@pytest.fixture(autouse=True)
def small_pieces_on_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "FEWEST", 1)
    monkeypatch.setattr(side_by_side, "AT_ONCE", 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def die_at_55(number: int) -> int:
    if number == 55 and os.getpid() != HERE:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_results_come_in_order_from_other_processes() -> None:
    found = list(in_order(lambda number: (number, os.getpid()), 95))
    assert [number for number, _ in found] == list(range(95))
    assert HERE not in {process for _, process in found}


def test_a_killed_process_ends_the_work_with_a_sentence() -> None:
    with pytest.raises(ProcessLostError, match="memory ran out"):
        list(in_order(die_at_55, 200))
    assert not multiprocessing.active_children()


def test_few_pieces_are_asked_for_ahead_of_the_reader(tmp_path: Path) -> None:
    done = tmp_path / "done"

    def note(number: int) -> None:
        with done.open("a") as file:
            file.write(f"{number}\n")

    with closing(cast("Generator[None]", in_order(note, 10_000))) as results:
        next(results)
    assert len(done.read_text().splitlines()) <= (2 * AHEAD + 1) * 10
    assert not multiprocessing.active_children()


@needs_cores
def test_the_command_says_it_and_leaves_no_files(tmp_path: Path) -> None:
    trace, scratch = tmp_path / "trace.csv", tmp_path / "scratch"
    scratch.mkdir()
    rows = [f"{1_728_000_000 + 3_600 * hour},t{tenant}\n" for hour in range(0, 96, 12) for tenant in range(6_000)]
    trace.write_text("timestamp,tenant\n" + "".join(rows))
    command = [sys.executable, "manage.py", "backtest", "--trace", str(trace), "--scratch", str(scratch)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        os.kill(first_child(process), signal.SIGKILL)
        _, said = process.communicate(timeout=120)
    assert "a process of this backtest was killed" in said
    assert (process.returncode, list(scratch.iterdir())) == (1, [])


def first_child(process: subprocess.Popen[str]) -> int:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        if children := listed.read_text().split():
            return int(children[0])
    raise AssertionError("it has ended without starting a process")
