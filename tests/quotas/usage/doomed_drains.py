"""Runs drains that die: `python -m tests.quotas.usage.doomed_drains [STEP...]`, one drain per step, `-` lets it live.

Without steps, each line of input is one. DRAINED_URL names another Redis than that of the settings, such as a cluster.

Each drain is a forked process that kills itself with SIGKILL as soon as it hears of its step.
"""

from __future__ import annotations

import os
import signal
import sys

import django
import pytest

django.setup()

from django.conf import settings  # noqa: E402 - the set-up above comes first

from quotas.publishing import store  # noqa: E402
from quotas.usage import store_nodes  # noqa: E402
from quotas.usage.drain import drain  # noqa: E402
from tests.quotas.usage.counters import REPLICAS_MS  # noqa: E402


def die_at(step: str) -> None:
    def observe(reached: str) -> None:
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    url = os.environ.get("DRAINED_URL", settings.REDIS_URL)
    with pytest.MonkeyPatch.context() as patch, store.connect(url, as_text=False, patience_seconds=120) as server:
        patch.setattr(store_nodes, "REPLICAS_MS", REPLICAS_MS)
        drain(server, on_step=observe)


def run(step: str) -> int:
    child = os.fork()
    if child == 0:
        die_at(step)
        os._exit(0)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    for step in sys.argv[1:] or map(str.strip, sys.stdin):
        status = run(step)
        died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if not died and status != 0:
            sys.exit(f"the drain that was to die at {step} failed by itself")
        print(step, "killed" if died else "lived", flush=True)  # noqa: T201 - read by the test
