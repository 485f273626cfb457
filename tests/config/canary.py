"""The application with a few tasks more, for tests of how tasks survive: `celery --app tests.config.canary worker`.

What a task does is a line in the file that it is given.
"""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

from config.celery import app

VISIBILITY_SECONDS = 3
app.conf.broker_transport_options = {
    "visibility_timeout": VISIBILITY_SECONDS,
    # Kombu looks for overdue messages every 100 s unless told otherwise.
    "unacked_restore_interval": 1,
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


def write(path: str, line: str) -> None:
    with Path(path).open("a") as file:
        file.write(line + "\n")


@app.task(name="canary.mark")
def mark(path: str, line: str) -> None:
    write(path, line)


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
