"""Publishers in a process of their own: `python -m tests.quotas.publishing.publishers ACTION ...`.

serve [URL]      what `manage.py publisher` does, on this store
serve-deaf       the same without hearing a wake-up, as if NOTIFY were lost
die              for each line of input (`first STEP TIMES` or `next STEP TIMES`) forks a publisher that kills
                 itself with SIGKILL when it comes to that step for the last of these times in its first pass, or
                 in its second, after an edit of a tier and one of a tenant
"""

from __future__ import annotations

import os
import signal
import sys

import django

django.setup()

from django.conf import settings  # noqa: E402 - the models need the set-up above

from quotas import outbox  # noqa: E402
from quotas.publishing import publisher_process, store  # noqa: E402
from quotas.publishing.publisher import Publisher, PublishStep  # noqa: E402
from tests.quotas.publishing.worlds import tenant_edit, tier_edit  # noqa: E402


class Doom:
    """Kills its process at a step, once it is armed."""

    def __init__(self, step: PublishStep, times: int) -> None:
        self._step = step
        self._times = times
        self.is_armed = False

    def __call__(self, step: PublishStep) -> None:
        self._times -= self.is_armed and step == self._step
        if self._times == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def die(which: str, step: PublishStep, times: int) -> None:
    doom = Doom(step, times)
    client = store.connect(settings.REDIS_URL)
    store.prepare(client)
    publisher = Publisher(client, settings.HEADROOM_SHARDS, doom)
    if which == "next":
        publisher.publish()
        tier_edit(100 + step)
        tenant_edit(200 + step)
    doom.is_armed = True
    publisher.publish()


def fork(which: str, step: PublishStep, times: int) -> str:
    child = os.fork()
    if child == 0:
        die(which, step, times)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return "killed" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else "lived"


def main(action: str, url: str = settings.REDIS_URL) -> None:
    if action == "serve-deaf":
        outbox.CHANNEL = "nobody_speaks_here"
    if action.startswith("serve"):
        publisher_process.PublisherProcess(url, settings.HEADROOM_SHARDS).run()
    for line in sys.stdin:
        which, name, times = line.split()
        print(name, fork(which, PublishStep[name], int(times)), flush=True)  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(*sys.argv[1:])
