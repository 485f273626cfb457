"""What an enforcer exchanges with the store outside of requests. No I/O.

Every few seconds: a heartbeat (its reply is the number of live enforcers), unreported degraded decisions, releases that
failed, new or changed plans of `local` limits, and response times.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from hiredis import ReplyError

from headroom_edge.check import pack
from headroom_edge.failure import DegradedReport, FailureModes
from headroom_edge.keys import ALL, tenant_prefix
from headroom_edge.observations import Observations

HEARTBEAT_S: Final = 5.0
JITTER: Final = 0.2  # spreads the heartbeats of processes that were started together
TICK_S: Final = 1.0  # how often to look for due chores
PLANS_AT_ONCE: Final = 256
RELEASES_KEPT: Final = 1_000
HOST_CHARACTERS: Final = 64
COUNT_MAX: Final = 2**24 - 1
COST_MAX: Final = 2**39 - 1  # the store adds cost × 2^24 into 63 bits


@dataclass(frozen=True, slots=True)
class Chore:
    command: bytes
    done: Callable[[Any], None]  # called with the reply
    undone: Callable[[], None]  # called if the store did not answer


def nothing(*_: object) -> None:
    pass


class Chores:
    def __init__(
        self, failures: FailureModes, shards: int, heartbeat_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._failures = failures
        self._shards = shards
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._next_heartbeat_s = float("-inf")
        self._releases: deque[bytes] = deque(maxlen=RELEASES_KEPT)
        self._token = secrets.token_hex(8)
        self.observations = Observations()

    @property
    def enforcer(self) -> str:
        """The id of this process. A forked child has its own."""
        return f"{self._token}-{os.getpid()}"

    def release_later(self, command: bytes) -> None:
        self._releases.append(command)

    def take(self) -> list[Chore]:
        """Return the due chores. The caller must pass them to `settle`."""
        return [*self._heartbeat(), *self._late_releases(), *self._reports(), *self._plans(), *self._observed()]

    def settle(self, chores: list[Chore], replies: list[Any] | None) -> None:
        """`replies` is None if the store did not answer."""
        if replies is None:
            for chore in chores:
                chore.undone()
            return
        for chore, reply in zip(chores, replies, strict=True):
            # Errors are not retried: the tenant is gone, or the library does not have the function.
            if not isinstance(reply, ReplyError):
                chore.done(reply)

    def _heartbeat(self) -> list[Chore]:
        now = self._clock()
        if now < self._next_heartbeat_s:
            return []
        self._next_heartbeat_s = now + self._heartbeat_s * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
        about = {
            "host": socket.gethostname()[:HOST_CHARACTERS],
            "pid": os.getpid(),
            "degraded": self._failures.degraded,
        }
        command = pack(("FCALL", "hr_heartbeat", "1", ALL, self.enforcer, json.dumps(about)))
        return [Chore(command, self._learn_share, nothing)]

    def _learn_share(self, alive: Any) -> None:
        if isinstance(alive, int):
            self._failures.share = max(1, alive)

    def _late_releases(self) -> list[Chore]:
        releases = [self._releases.popleft() for _ in range(len(self._releases))]
        return [Chore(command, nothing, partial(self._releases.append, command)) for command in releases]

    def _reports(self) -> list[Chore]:
        return [self._report(report) for report in self._failures.take_reports()]

    def _report(self, report: DegradedReport) -> Chore:
        prefix = tenant_prefix(report.tenant, self._shards)
        count, cost = str(min(report.count, COUNT_MAX)), str(min(report.cost, COST_MAX))
        words = ("FCALL", "hr_report", "1", prefix, report.tenant, report.endpoint, report.outcome, count, cost)
        return Chore(pack(words), nothing, partial(self._failures.put_back, report))

    def _plans(self) -> list[Chore]:
        return [self._plan(*wanted) for wanted in self._failures.take_wanted(PLANS_AT_ONCE)]

    def _plan(self, key: tuple[str, str], revision: int) -> Chore:
        tenant, endpoint = key
        words = ("FCALL_RO", "hr_profile", "1", tenant_prefix(tenant, self._shards), tenant, endpoint)

        def learn(text: Any) -> None:
            if text and isinstance(text, bytes):
                self._failures.learn_plan(key, revision, text.decode())

        return Chore(pack(words), learn, nothing)

    def _observed(self) -> list[Chore]:
        # Not repeated if no reply comes: the store may have counted the observations already.
        calls = self.observations.take()
        return [Chore(pack(("FCALL", "hr_observe", "1", ALL, *words)), nothing, nothing) for words in calls]
