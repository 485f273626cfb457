"""What an enforcer exchanges with the store outside of requests. No I/O.

Every few seconds: a heartbeat (its reply is the number of live enforcers), unreported degraded decisions, releases that
failed, new or changed plans of `local` limits, response times, uses of API keys, and ended leases.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from hiredis import ReplyError

from headroom_edge.check import encode_profile, pack
from headroom_edge.errors import StoreError
from headroom_edge.failure import DegradedReport, FailureModes
from headroom_edge.global_limits import GlobalLimits
from headroom_edge.heartbeat import Heartbeat
from headroom_edge.key_uses import KeyUses
from headroom_edge.keys import ALL, tenant_prefix
from headroom_edge.leases.book import LeaseBook
from headroom_edge.leases.dues import Due
from headroom_edge.observations import Observations

TICK_S: Final = 1.0  # how often to look for due chores
LEASES_TICK: Final = 0.25  # of TICK_S, with leases: units that nobody spends should not be missed for long
PLANS_AT_ONCE: Final = 256
RELEASES_KEPT: Final = 1_000
DUES_AT_ONCE: Final = 1_000
COUNT_MAX: Final = 2**24 - 1
COST_MAX: Final = 2**39 - 1  # the store adds cost × 2^24 into 63 bits


def nothing(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Chore:
    command: bytes
    done: Callable[[Any], None]  # called with the reply
    undone: Callable[[], None]  # called if the store did not answer
    refused: Callable[[Any], None] = nothing  # called with an error that the store replied


class Chores:
    def __init__(
        self,
        failures: FailureModes,
        shards: int,
        heartbeat_s: float,
        clock: Callable[[], float] = time.monotonic,
        leases: LeaseBook | None = None,
        elsewhere: GlobalLimits | None = None,
    ) -> None:
        self._failures = failures
        self._shards = shards
        self._books = [] if leases is None else [leases]
        if elsewhere is not None:
            self._books.append(elsewhere.book)
        self._elsewhere = elsewhere
        self._releases: deque[bytes] = deque(maxlen=RELEASES_KEPT)
        self.heartbeat = Heartbeat(failures, shards, heartbeat_s, clock, leases)
        self.observations = Observations()
        self.key_uses = KeyUses(clock)

    def release_later(self, command: bytes) -> None:
        self._releases.append(command)

    def take(self) -> list[Chore]:
        """Return the due chores. The caller must pass them to `settle`."""
        regular = [*self._heartbeat(), *self._late_releases(), *self._reports(), *self._plans()]
        return [*regular, *self._observed(), *self._key_uses(), *self._global_denials(), *self.take_leases()]

    def settle(self, chores: list[Chore], replies: list[Any]) -> None:
        """A StoreError instead of a reply: the store did not answer."""
        for chore, reply in zip(chores, replies, strict=True):
            if isinstance(reply, StoreError):
                chore.undone()
            # Most errors are not retried: the tenant is gone, or the library does not have the function.
            elif isinstance(reply, ReplyError):
                chore.refused(reply)
            else:
                chore.done(reply)

    def _heartbeat(self) -> list[Chore]:
        command = self.heartbeat.due()
        return [] if command is None else [Chore(command, self.heartbeat.learn_share, nothing)]

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

        def learn(text: Any) -> None:
            if text and isinstance(text, bytes):
                self._failures.learn_plan(key, revision, text.decode())

        return Chore(encode_profile(tenant, endpoint, self._shards), learn, nothing)

    def _observed(self) -> list[Chore]:
        # Not repeated if no reply comes: the store may have counted the observations already.
        calls = self.observations.take()
        return [Chore(pack(("FCALL", "hr_observe", "1", ALL, *words)), nothing, nothing) for words in calls]

    def _key_uses(self) -> list[Chore]:
        # Not repeated either, for the same reason.
        return [Chore(command, nothing, nothing) for command in self.key_uses.take()]

    def _global_denials(self) -> list[Chore]:
        limits = self._elsewhere
        if limits is None:
            return []
        reports = limits.take_reports()
        return [Chore(report.command(self._shards), nothing, partial(limits.put_back, report)) for report in reports]

    def take_leases(self, *, everything: bool = False) -> list[Chore]:
        """Ended leases, or `everything`: all of them. The caller must pass them to `settle`, unless it is the end."""
        return [
            self._due(book, due) for book in self._books for due in book.take_dues(DUES_AT_ONCE, everything=everything)
        ]

    def _due(self, book: LeaseBook, due: Due) -> Chore:
        put_back = partial(book.put_back, due)

        def refused(error: ReplyError) -> None:
            # Anything else passes: the server is loading, or lacks the library until the next check loads it.
            if not str(error).startswith("HRARGS"):
                put_back()

        return Chore(due.command(self._shards), nothing, put_back, refused)
