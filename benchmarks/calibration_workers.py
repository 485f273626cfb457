"""A calibration fanned out over one worker process and over two: 40 tenants × 20 endpoints × 28 days.

Real Celery workers, started before the clock; the time is from the message to the last result. The runs alternate, and
the best of each counts. A machine with two idle cores is needed: the second process has to have a core of its own, and
Postgres works for both.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from benchmarks import calibration as fleet
from benchmarks.isolated_process import run_isolated
from benchmarks.report import BenchmarkRow

TENANTS = 40
ROUNDS = 2
LONGEST_S = 1_800


def run() -> list[BenchmarkRow]:
    return run_isolated(__name__)


def measure() -> list[BenchmarkRow]:
    fleet.make_world(TENANTS)
    fleet.record()
    whole = min(_unsliced() for _ in range(ROUNDS))
    best: dict[int, tuple[float, float]] = {}
    for _ in range(ROUNDS):
        for processes in (1, 2):
            with _worker(processes) as worker:
                took = _sliced(worker)
            best[processes] = min(took, best.get(processes, took))
    name = f"calibration of {TENANTS} tenants × {fleet.ENDPOINTS} endpoints × {fleet.DAYS} days"
    (one, own), (two, own_of_two) = best[1], best[2]
    return [
        BenchmarkRow(f"{name}: two worker processes against one", round(two / one, 2), "×", 0.6, 0.55),
        BenchmarkRow("one worker process, from the message to the result", round(one, 1), "s"),
        BenchmarkRow("two worker processes", round(two, 1), "s"),
        BenchmarkRow("processor time in slices against one piece, without Postgres", round(own / whole, 2), "×"),
        BenchmarkRow("the same with two worker processes", round(own_of_two / whole, 2), "×"),
    ]


def _unsliced() -> float:
    """Processor seconds of a run in this process, in one slice."""
    from quotas import slices
    from quotas.recommendations.runs import calibration_now

    _forget()
    most, slices.MOST_SLICES = slices.MOST_SLICES, 1
    clock = time.process_time()
    calibration_now(author="benchmark")
    slices.MOST_SLICES = most
    return time.process_time() - clock


def _sliced(worker: psutil.Process) -> tuple[float, float]:
    """Seconds until the task is over, and processor seconds of the worker's processes."""
    from quotas.models import Task
    from quotas.recommendations.runs import calibration_ask
    from quotas.tasks import run_task

    _forget()
    before, begin = _processor(worker), time.monotonic()
    task = calibration_ask(author="benchmark")
    run_task.delay(task.pk, task.kind)
    while not Task.objects.get(pk=task.pk).is_over:
        time.sleep(0.05)
        if time.monotonic() - begin > LONGEST_S:
            raise TimeoutError("the calibration did not end")
    took = time.monotonic() - begin
    task.refresh_from_db()
    if task.problem:
        raise RuntimeError(task.problem)
    return took, _processor(worker) - before


def _forget() -> None:
    from quotas.models import Recommendation

    Recommendation.objects.all().delete()


@contextmanager
def _worker(processes: int) -> Iterator[psutil.Process]:
    from config.celery import app

    words = ["-m", "celery", "--app", "config", "--quiet", "worker", "--loglevel", "ERROR", "-c", str(processes)]
    started = subprocess.Popen([sys.executable, *words, "--without-gossip", "--without-mingle"])
    try:
        while not app.control.ping(timeout=1):
            if started.poll() is not None:
                raise RuntimeError("the worker ended")
        yield psutil.Process(started.pid)
    finally:
        started.terminate()
        started.wait()


def _processor(worker: psutil.Process) -> float:
    times = [one.cpu_times() for one in (worker, *worker.children(recursive=True))]
    return sum(one.user + one.system for one in times)
