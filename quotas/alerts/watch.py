"""Decides which alerts fire, are repeated as a reminder, or are resolved, and queues messages for their targets.

An alert fires once its condition has lasted for the rule's hold time, and is resolved once it was gone for a while, so
that a flickering condition is reported once. Events of one run become one message per target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.utils import timezone

from quotas.alerts.findings import Finding, findings
from quotas.alerts.messages import AlertEvent, EventState, body_of
from quotas.alerts.quiet_hours import quiet_until
from quotas.alerts.rules import QUOTAS
from quotas.alerts.settings import RuleRow, alert_rules
from quotas.locks import Lock, take_lock
from quotas.models import AlertDelivery, AlertState, AlertTarget
from quotas.models.jobs import WATCH, record_heartbeat

CLEAR: Final = timedelta(minutes=2)  # resolved once the condition was gone for this long
FLICKER: Final = timedelta(minutes=15)  # a condition that returns sooner is told again only if it lasts
LASTS: Final = timedelta(minutes=5)
REMIND: Final = timedelta(hours=24)
KEPT: Final = timedelta(days=7)
# Alerts of which one replaces another: the thresholds of a quota.
_STEPS: Final = frozenset(rule.name for rule in QUOTAS)


@dataclass(slots=True)
class AlertWatch:
    now: datetime
    rules: dict[str, RuleRow]

    def run(self, found: Iterable[Finding]) -> list[AlertEvent]:
        states = {(row.name, row.about): row for row in AlertState.objects.all()}
        seen = {(finding.name, finding.about): finding for finding in found}
        events = [self.seen(finding, states.get(key)) for key, finding in seen.items()]
        higher = {finding.about for finding in seen.values() if finding.name in _STEPS}
        events += [
            self._gone(row, row.name in _STEPS and row.about in higher)
            for key, row in states.items()
            if key not in seen
        ]
        return [event for event in events if event is not None]

    def seen(self, finding: Finding, row: AlertState | None) -> AlertEvent | None:
        """Stores that the condition holds; returns what to tell. `row`: what is known of it, if anything."""
        if row is None or (row.resolved_at is not None and self.now - row.resolved_at > FLICKER):
            since, told_at = self.now, None
        else:
            is_back = row.resolved_at is not None and row.told_at is not None and row.name not in _STEPS
            since, told_at = self.now if is_back else row.since, row.told_at
        state: EventState | None = None
        if told_at is None:
            is_due = self.now - since >= self.rules[finding.name].rule.hold
        else:
            # Told before it came back: its end was told since.
            is_due = told_at < since and self.now - since >= LASTS
        if is_due:
            state, told_at = "firing", self.now
        elif told_at is not None and self.now - told_at >= REMIND:
            state, told_at = "reminder", self.now
        AlertState.objects.update_or_create(
            name=finding.name,
            about=finding.about,
            defaults={
                "value": finding.value,
                "text": finding.text,
                "since": since,
                "seen_at": self.now,
                "told_at": told_at,
                "resolved_at": None,
            },
        )
        return self.event(finding, since, state) if state else None

    def _gone(self, row: AlertState, is_higher: bool) -> AlertEvent | None:
        """`is_higher`: another threshold of the same quota fires now and is reported instead."""
        if row.resolved_at is not None or not (is_higher or self.now - row.seen_at >= CLEAR):
            return None
        AlertState.objects.filter(name=row.name, about=row.about).update(resolved_at=self.now)
        is_told = row.told_at is not None and row.told_at >= row.since
        if not is_told or is_higher or row.name not in self.rules:
            return None
        return self.event(Finding(row.name, row.about, row.value, row.text), row.since, "resolved")

    def event(self, finding: Finding, since: datetime, state: EventState = "firing") -> AlertEvent:
        held = self.rules[finding.name]
        rule = held.rule
        return AlertEvent(
            alert=finding.name,
            about=finding.about,
            state=state,
            severity=rule.severity,
            value=finding.value,
            threshold=held.threshold,
            text=finding.text,
            since=since.isoformat(),
            runbook=rule.runbook,
        )


def alerts_watch(now: datetime | None = None) -> list[AlertEvent]:
    """Runs one check and queues the messages; returns the events. Its heartbeat is watched by quotas.alerts.guard."""
    now = now or timezone.now()
    rules = alert_rules()
    found = findings(now, [row for row in rules.values() if row.is_on])
    with transaction.atomic():
        take_lock(Lock.ALERTS)
        events = AlertWatch(now, rules).run(found)
        if events:
            enqueue(events, now)
        AlertState.objects.filter(resolved_at__lt=now - KEPT).delete()
        AlertDelivery.objects.filter(due_at__lt=now - KEPT).delete()
    record_heartbeat(WATCH)
    return events


def enqueue(events: Sequence[AlertEvent], now: datetime, told: Collection[int] = ()) -> None:
    """`told`: numbers of the targets that know of the events."""
    for target in AlertTarget.objects.filter(is_on=True).exclude(pk__in=told):
        wanted = [event for event in events if target.wants(event.alert)]
        urgent = [event for event in wanted if event.severity == "critical"]
        over = quiet_until(now, target.quiet_from, target.quiet_until, target.timezone)
        _put(target, urgent if over else wanted, now)
        if over:
            _put(target, [event for event in wanted if event not in urgent], over)


def _put(target: AlertTarget, events: Sequence[AlertEvent], due_at: datetime) -> None:
    """Queues a message, or merges the events into one that waits for the same time."""
    if not events:
        return
    waiting = AlertDelivery.objects.filter(
        target=target, sent_at=None, is_given_up=False, tries=0, due_at=due_at
    ).first()
    if waiting is None:
        AlertDelivery.objects.create(target=target, body=body_of(events), due_at=due_at)
    else:
        waiting.body = body_of(events, waiting.body)
        waiting.save(update_fields=["body"])
