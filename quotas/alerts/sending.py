"""Sends waiting alert messages: to all targets side by side, and again with growing delays to those that fail.

A message is sent at least once. It is sent twice if a receiver takes it and its answer is lost, or if the worker dies
between the answer and the note of it; the message's number is the same then.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import F, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from quotas.alerts import mail, webhook
from quotas.alerts.webhook import RefusedByReceiverError, UnreachableError
from quotas.models import AlertDelivery
from quotas.models.alert import TargetKind
from tenants.secrets import sealer

log = logging.getLogger(__name__)

AT_ONCE: Final = 20  # messages to one target in one run
TURN_S: Final = 10.0  # a target gets no further message after this time; the next run continues
GRACE_S: Final = 5.0
LEASE: Final = timedelta(minutes=2)  # longer than a run takes, so that no other worker sends it meanwhile
FIRST_WAIT: Final = timedelta(seconds=15)
LONGEST_WAIT: Final = timedelta(hours=1)
MOST_TRIES: Final = 12
OLDEST: Final = timedelta(days=2)  # an older message is given up with its next failure


@dataclass(frozen=True, slots=True)
class Outcome:
    row: AlertDelivery
    problem: str = ""  # empty: delivered
    is_reached: bool = True  # False: the target's other messages need not be tried now


# Of all turns. A turn that is over says so with the number of its target.
Outcomes = queue.SimpleQueue[Outcome | int]


def alerts_send(now: datetime | None = None) -> int:
    """Returns how many messages were delivered."""
    now = now or timezone.now()
    turns = _claim(now)
    outcomes = Outcomes()
    for rows in turns:
        # Daemons: the look-up of a name cannot be ended, and must not keep the worker from ending. There are as many
        # threads as targets with something to send, at most quotas.alerts.settings.MOST_TARGETS.
        threading.Thread(target=_turn, args=(rows, now, outcomes), daemon=True).start()
    return _record(turns, outcomes, now)


def _claim(now: datetime) -> list[list[AlertDelivery]]:
    """The messages that are due, by target; those that failed less often first, so that none blocks the others."""
    due = AlertDelivery.objects.filter(sent_at=None, is_given_up=False, due_at__lte=now, target__is_on=True)
    place = Window(RowNumber(), partition_by=F("target"), order_by=[F("tries").asc(), F("due_at").asc(), F("id").asc()])
    first = due.annotate(place=place).filter(place__lte=AT_ONCE).values("pk")
    with transaction.atomic():
        rows = list(
            due.filter(pk__in=list(first.values_list("pk", flat=True)))
            .select_related("target")
            .select_for_update(of=("self",), skip_locked=True)
            .order_by("target", "tries", "due_at", "id")
        )
        AlertDelivery.objects.filter(pk__in=[row.pk for row in rows]).update(due_at=now + LEASE)
    return [list(group) for _, group in groupby(rows, key=lambda row: row.target_id)]


def _turn(rows: Sequence[AlertDelivery], now: datetime, outcomes: Outcomes) -> None:
    """Sends the messages of one target. Does not use the database: a thread would need a connection of its own."""
    ends = time.monotonic() + TURN_S
    for row in rows:
        outcome = _deliver(row, now)
        outcomes.put(outcome)
        if not outcome.is_reached or time.monotonic() >= ends:
            break
    outcomes.put(rows[0].target_id)


def _deliver(row: AlertDelivery, now: datetime) -> Outcome:
    try:
        _send(row, now)
    except RefusedByReceiverError as error:
        return Outcome(row, str(error))
    except (UnreachableError, OSError) as error:
        return Outcome(row, str(error) or type(error).__name__, is_reached=False)
    except Exception as error:  # whatever a message does must not end the run
        log.exception("alert message %d cannot be sent", row.pk)
        return Outcome(row, f"the message cannot be sent: {type(error).__name__}")
    return Outcome(row)


def _send(row: AlertDelivery, now: datetime) -> None:
    target = row.target
    if target.kind == TargetKind.EMAIL:
        mail.send(row.pk, target.address, row.body)
        return
    secret = sealer().unseal(bytes(target.secret))
    if not secret:
        raise UnreachableError("its secret was sealed with a key that is gone; delete the target and create it again")
    body: dict[str, Any] = {"id": row.pk, "created": row.created.isoformat(), **row.body}
    webhook.send(target.address, body, secret, int(now.timestamp()), settings.HEADROOM_ALERT_NETWORKS)


def _record(turns: Sequence[Sequence[AlertDelivery]], outcomes: Outcomes, now: datetime) -> int:
    """Writes down each outcome as soon as it is known."""
    ends = time.monotonic() + TURN_S + max(webhook.TIMEOUT_S, settings.EMAIL_TIMEOUT) + GRACE_S
    running = {rows[0].target_id: {row.pk: row for row in rows} for rows in turns}
    delivered = 0
    while running:
        try:
            outcome = outcomes.get(timeout=max(ends - time.monotonic(), 0))
        except queue.Empty:
            break
        if isinstance(outcome, int):
            _release(running.pop(outcome), now)
            continue
        rest = running[outcome.row.target_id]
        del rest[outcome.row.pk]
        delivered += not outcome.problem
        _note(outcome, rest, now)
    for rest in running.values():
        late = Outcome(rest.pop(next(iter(rest))), "the name of the server was not found in time", is_reached=False)
        _note(late, rest, now)
    return delivered


def _release(rows: dict[int, AlertDelivery], now: datetime) -> None:
    """Messages that had no turn. The next run sends them."""
    AlertDelivery.objects.filter(pk__in=rows, due_at=now + LEASE).update(due_at=now)


def _note(outcome: Outcome, rest: dict[int, AlertDelivery], now: datetime) -> None:
    """`rest`: the other messages to the target. If it cannot be reached, they wait too, without having been tried."""
    row, tries, problem = outcome.row, outcome.row.tries + 1, outcome.problem[:300]
    mine = AlertDelivery.objects.filter(pk=row.pk)
    if not problem:
        mine.update(sent_at=now, tries=tries, problem="")
        return
    due_at = now + min(FIRST_WAIT * 2.0 ** (tries - 1), LONGEST_WAIT)
    given_up = tries >= MOST_TRIES or now - row.created >= OLDEST
    mine.update(tries=tries, due_at=due_at, problem=problem, is_given_up=given_up)
    if not outcome.is_reached:
        AlertDelivery.objects.filter(pk__in=rest).update(due_at=due_at, problem=problem)
    level, words = (logging.ERROR, "is given up") if given_up else (logging.WARNING, "was not delivered")
    log.log(level, "alert message %d to target %d %s: %s", row.pk, row.target_id, words, problem)
