"""Sends the alert messages that wait, and again with growing delays to targets that fail.

A message is sent at least once. It is sent twice if a receiver takes it and its answer is lost, or if the worker dies
between the answer and the note of it; the message's number is the same then.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from django.db import transaction
from django.db.models import F, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from quotas.alerts.delivery import Message, Outcome, Recipient, deliver
from quotas.models import AlertDelivery
from tenants.secrets import sealer

log = logging.getLogger(__name__)

AT_ONCE: Final = 20  # messages to one target in one run
LEASE: Final = timedelta(minutes=2)  # longer than a run takes, so that no other worker sends it meanwhile
FIRST_WAIT: Final = timedelta(seconds=15)
LONGEST_WAIT: Final = timedelta(hours=1)
MOST_TRIES: Final = 12
OLDEST: Final = timedelta(days=2)  # an older message is given up with its next failure

Rows = dict[int, AlertDelivery]  # by their number


def alerts_send(now: datetime | None = None) -> int:
    """Returns how many messages were delivered."""
    now = now or timezone.now()
    claimed = _claim(now)
    if not claimed:
        return 0
    opener, delivered = sealer(), 0
    turns = {Recipient.of(rows[0].target, opener): [_message(row) for row in rows] for rows in claimed}
    waiting: Mapping[int, Rows] = {rows[0].target_id: {row.pk: row for row in rows} for rows in claimed}
    for outcome in deliver(turns, now):
        rest = waiting[outcome.recipient]
        if outcome.message is None:
            _release(rest, now)
        else:
            _note(outcome, rest.pop(outcome.message.number), rest, now)
            delivered += not outcome.problem
    return delivered


def _claim(now: datetime) -> list[Sequence[AlertDelivery]]:
    """The messages that are due, by target; those that failed less often first, so that none blocks the others."""
    due = AlertDelivery.objects.filter(sent_at=None, is_given_up=False, due_at__lte=now, target__is_on=True)
    place = Window(RowNumber(), partition_by=F("target"), order_by=[F("tries").asc(), F("due_at").asc(), F("id").asc()])
    first = list(due.annotate(place=place).filter(place__lte=AT_ONCE).values_list("pk", flat=True))
    if not first:
        return []
    with transaction.atomic():
        rows = list(
            due.filter(pk__in=first)
            .select_related("target")
            .select_for_update(of=("self",), skip_locked=True)
            .order_by("target", "tries", "due_at", "id")
        )
        AlertDelivery.objects.filter(pk__in=[row.pk for row in rows]).update(due_at=now + LEASE)
    return [list(group) for _, group in groupby(rows, key=lambda row: row.target_id)]


def _message(row: AlertDelivery) -> Message:
    return Message(row.pk, row.created, row.body)


def _release(rows: Rows, now: datetime) -> None:
    """Messages that had no turn. The next run sends them."""
    if rows:
        AlertDelivery.objects.filter(pk__in=rows, due_at=now + LEASE).update(due_at=now)


def _note(outcome: Outcome, row: AlertDelivery, rest: Rows, now: datetime) -> None:
    """`rest`: the other messages to the target. If it cannot be reached, they wait too, without having been tried."""
    tries, problem = row.tries + 1, outcome.problem[:300]
    mine = AlertDelivery.objects.filter(pk=row.pk)
    if not problem:
        mine.update(sent_at=now, tries=tries, problem="")
        return
    due_at = now + min(FIRST_WAIT * 2.0 ** (tries - 1), LONGEST_WAIT)
    given_up = tries >= MOST_TRIES or now - row.created >= OLDEST
    mine.update(tries=tries, due_at=due_at, problem=problem, is_given_up=given_up)
    if not outcome.is_reached and rest:
        AlertDelivery.objects.filter(pk__in=rest).update(due_at=due_at, problem=problem)
    level, words = (logging.ERROR, "is given up") if given_up else (logging.WARNING, "was not delivered")
    log.log(level, "alert message %d to target %d %s: %s", row.pk, row.target_id, words, problem)
