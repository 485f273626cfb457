"""The dead-man's switch: tells the alert targets when nothing evaluates the alerts.

Runs in the publisher's process. The watch runs in a worker and is started by beat; if one of them is dead, or the watch
fails or waits for its lock, it cannot tell. While PostgreSQL is away, the targets are told from memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import Error, close_old_connections, connection, transaction
from django.utils import timezone

from quotas.alerts.delivery import Message, Recipient, deliver
from quotas.alerts.findings import Finding
from quotas.alerts.messages import body_of
from quotas.alerts.rules import WATCH_SILENT
from quotas.alerts.sending import alerts_send
from quotas.alerts.settings import RuleRow, alert_rules
from quotas.alerts.watch import AlertWatch, enqueue
from quotas.locks import Lock, take_lock
from quotas.models import AlertState, AlertTarget
from quotas.models.jobs import watched_at
from tenants.keyring import KeyringError
from tenants.secrets import sealer

log = logging.getLogger(__name__)

EVERY_S: Final = 10.0
PATIENCE_MS: Final = 2_000  # for each statement, so that a lock somebody holds cannot keep the guard
LEAST_AWAY_S: Final = 60.0  # more than one round of sending takes, during which the guard does not read
# What each message has as its number that is not stored, because PostgreSQL is away.
NOT_STORED: Final = 0


@dataclass(frozen=True, slots=True)
class GuardMemory:
    """What the guard knew when it last reached PostgreSQL."""

    read_s: float  # on the monotonic clock
    rule: RuleRow
    recipients: tuple[Recipient, ...]


@dataclass(slots=True)
class WatchGuard:
    # When it first reached PostgreSQL, by its clock. A platform that starts gives the watch its time to start too.
    first: datetime | None = None
    memory: GuardMemory | None = None
    told: frozenset[int] = frozenset()  # targets that were told while PostgreSQL was away

    def start(self) -> None:
        """Two threads, so that a query that never returns does not keep the targets from being told."""
        for check in (self.check_watch, self.check_database):
            threading.Thread(target=_repeat, args=(check,), daemon=True).start()

    def check_watch(self) -> None:
        """Fires the alert while the watch is silent, and sends what waits: no worker may be there to do it."""
        rules = alert_rules()
        rule = rules[WATCH_SILENT.name]
        now, since = self._read(rule)
        is_silent = rule.is_on and now - since >= timedelta(seconds=rule.threshold)
        # Whoever was told from memory is to be told that it is over, which the watch does if the alert is stored.
        told = self.told
        if is_silent or told:
            seconds = (now - since).total_seconds()
            text = (
                f"no alert has been evaluated for {seconds:.0f} s" if is_silent else "PostgreSQL was away for a while"
            )
            self._fire(Finding(WATCH_SILENT.name, "", seconds, text), now, rules, told)
            self.told -= told
        if is_silent:
            alerts_send()

    def _read(self, rule: RuleRow) -> tuple[datetime, datetime]:
        """The time, and since when no alert was evaluated."""
        with transaction.atomic():
            now = _be_brief()
            last = watched_at()
            targets = [row for row in AlertTarget.objects.filter(is_on=True) if row.wants(WATCH_SILENT.name)]
            opener = sealer()
        recipients = tuple(Recipient.of(target, opener) for target in targets)
        self.memory = GuardMemory(time.monotonic(), rule, recipients)
        self.first = self.first or now
        return now, max(last or self.first, self.first)

    def _fire(self, finding: Finding, now: datetime, rules: dict[str, RuleRow], told: frozenset[int]) -> None:
        """`told`: the targets that know it."""
        with transaction.atomic():
            _be_brief()
            # Not the lock of the watch: the watch may be what holds it.
            take_lock(Lock.WATCH_GUARD)
            row = AlertState.objects.filter(name=finding.name, about=finding.about, resolved_at=None).first()
            event = AlertWatch(now, rules).seen(finding, row)
            if event is not None:
                enqueue([event], now, told)
                log.error("%s", finding.text)

    def check_database(self, moment_s: float | None = None) -> None:
        """Tells the targets from memory once PostgreSQL has been away for as long as the watch may be silent."""
        memory = self.memory
        if memory is None or not memory.rule.is_on:
            return
        away_s = (moment_s or time.monotonic()) - memory.read_s
        if away_s < max(memory.rule.threshold, LEAST_AWAY_S):
            return
        now = timezone.now()
        text = f"PostgreSQL has not answered for {away_s:.0f} s, so no alert is evaluated"
        finding = Finding(WATCH_SILENT.name, "", away_s, text)
        event = AlertWatch(now, {WATCH_SILENT.name: memory.rule}).event(finding, now - timedelta(seconds=away_s))
        message = Message(NOT_STORED, now, body_of([event]))
        turns = {each: [message] for each in memory.recipients if each.number not in self.told}
        for outcome in deliver(turns, now):
            if outcome.message is None:
                continue
            if outcome.problem:
                log.warning("%s; target %d was not told: %s", text, outcome.recipient, outcome.problem)
            else:
                self.told |= {outcome.recipient}


def _be_brief() -> datetime:
    """Limits the statements of this transaction; returns the database's time."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {PATIENCE_MS}")
        cursor.execute("SELECT now()")
        now: datetime = cursor.fetchone()[0]
    return now


def _repeat(check: Callable[[], None]) -> None:
    while True:
        close_old_connections()
        try:
            check()
        except (Error, KeyringError, OSError) as error:
            log.warning("the watch cannot be watched: %s", str(error).strip().partition("\n")[0])
            connection.close()
        except Exception:
            log.exception("the watch cannot be watched")
            connection.close()
        time.sleep(EVERY_S)
