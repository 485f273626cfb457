"""The application with a few tasks more, for tests of how tasks survive: `celery --app tests.config.canary worker`.

What a task does is a line in the file that it is given.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from celery.signals import worker_process_init

from config.celery import app

VISIBILITY_SECONDS = 3
app.conf.broker_transport_options = {
    "visibility_timeout": VISIBILITY_SECONDS,
    # Kombu looks for overdue messages every 100 s unless told otherwise.
    "unacked_restore_interval": int(os.environ.get("CANARY_RESTORE_SECONDS", "1")),
    "unacked_restore_throttle": 1,
}
app.conf.beat_schedule = {
    "tick": {
        "task": "canary.tick",
        "schedule": timedelta(seconds=1),
        "args": [os.environ.get("CANARY_FILE", "")],
        "options": {"expires": 30},
    }
}


@worker_process_init.connect
def watch_slices(**_: Any) -> None:
    """Notes when a slice of a calibration begins and ends. CANARY_KILL: the slice whose first worker dies in it."""
    from quotas import tasks
    from quotas.models import Task

    path, doomed = os.environ.get("CANARY_FILE", ""), os.environ.get("CANARY_KILL")
    work = tasks.SLICED[Task.Kind.CALIBRATE]

    def do(asked: Mapping[str, Any], part: Mapping[str, Any], progress: Any) -> dict[str, Any]:
        begins = f"{part['what']} begins"
        is_first = begins not in Path(path).read_text().splitlines() if Path(path).exists() else True
        write(path, begins)

        def report(*step: Any) -> None:
            if part["what"] == doomed and is_first:
                os.kill(os.getpid(), signal.SIGKILL)
            progress(*step)

        result = work.do(asked, part, report)
        write(path, f"{part['what']} ends")
        return result

    tasks.SLICED[Task.Kind.CALIBRATE] = replace(work, do=do)


@worker_process_init.connect
def watch_documents(**_: Any) -> None:
    """CANARY_KILL `document`: the first worker dies when all of it is written and nothing is committed."""
    from quotas.whole_tasks import Run

    path, end = os.environ.get("CANARY_FILE", ""), Run.end

    def ended(self: Run, result: dict[str, Any], problem: str = "") -> None:
        end(self, result, problem)
        write(path, f"document {self.asked['tries']}")
        if os.environ.get("CANARY_KILL") == "document" and self.asked["tries"] == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    Run.end = ended  # type: ignore[method-assign]


def write(path: str, line: str) -> None:
    with Path(path).open("a") as file:
        file.write(line + "\n")


@app.task(name="canary.mark")
def mark(path: str, line: str) -> None:
    write(path, line)


@app.task(name="canary.hold")
def hold(path: str, until: str) -> None:
    """Ends when somebody else has written the line `until`."""
    write(path, "held")
    while until not in Path(path).read_text().splitlines():
        time.sleep(0.02)


@app.task(name="canary.tick", bind=True)
def tick(self, path: str) -> None:  # type: ignore[no-untyped-def]
    write(path, f"slot {(self.request.headers or {}).get('headroom_slot')}")


@app.task(name="canary.die")
def die(path: str) -> None:
    write(path, "died")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="canary.drain", bind=True)
def drain_and(self, path: str, signal_name: str, step: str) -> None:  # type: ignore[no-untyped-def]
    """A drain that at a step, the first time, gets this signal."""
    from quotas.usage.drain import connect, drain

    is_first = not self.request.delivery_info.get("redelivered")

    def observe(reached: str) -> None:
        if reached == step and is_first:
            write(path, f"{os.getpid()} {os.getppid()}")
            os.kill(os.getpid(), getattr(signal, signal_name))

    with connect() as server:
        drain(server, on_step=observe)
    write(path, "drained")
