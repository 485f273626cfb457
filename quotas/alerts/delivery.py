"""Carries messages to their recipients, to all of them side by side. Does not use the database."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from quotas.alerts import mail, webhook
from quotas.alerts.webhook import RefusedByReceiverError, UnreachableError
from quotas.models import AlertTarget
from quotas.models.alert import TargetKind
from tenants.secrets import Sealer

log = logging.getLogger(__name__)

TURN_S: Final = 10.0  # a recipient gets no further message after this time
GRACE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Recipient:
    number: int  # of the target
    kind: str
    address: str
    secret: bytes = field(repr=False)  # of a webhook; empty: it cannot be read

    @classmethod
    def of(cls, target: AlertTarget, sealer: Sealer) -> Recipient:
        return cls(target.pk, target.kind, target.address, sealer.unseal(bytes(target.secret)) or b"")


@dataclass(frozen=True, slots=True)
class Message:
    number: int  # the same when it is sent again
    created: datetime
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    recipient: int
    message: Message | None  # None: the recipient gets no more messages in this run
    problem: str = ""  # empty: delivered
    is_reached: bool = True  # False: no other message was tried


Turns = Mapping[Recipient, Sequence[Message]]


def deliver(turns: Turns, now: datetime) -> Iterator[Outcome]:
    """Each outcome as soon as it is known. A recipient's messages are sent in order until it cannot be reached."""
    outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    for recipient, messages in turns.items():
        # Daemons: the look-up of a name cannot be ended, and must not keep the process from ending. There are as many
        # threads as targets with something to send, at most quotas.alerts.settings.MOST_TARGETS.
        threading.Thread(target=_turn, args=(recipient, messages, now, outcomes), daemon=True).start()
    ends = time.monotonic() + TURN_S + max(webhook.TIMEOUT_S, settings.EMAIL_TIMEOUT) + GRACE_S
    running = {recipient.number: list(messages) for recipient, messages in turns.items()}
    while running:
        try:
            outcome = outcomes.get(timeout=max(ends - time.monotonic(), 0))
        except queue.Empty:
            break
        if outcome.message is None:
            del running[outcome.recipient]
        else:
            running[outcome.recipient].remove(outcome.message)
        yield outcome
    for number, messages in running.items():
        yield Outcome(number, messages[0], "the name of the server was not found in time", is_reached=False)


def _turn(
    recipient: Recipient, messages: Sequence[Message], now: datetime, outcomes: queue.SimpleQueue[Outcome]
) -> None:
    ends = time.monotonic() + TURN_S
    for message in messages:
        outcome = _attempt(recipient, message, now)
        outcomes.put(outcome)
        if not outcome.is_reached or time.monotonic() >= ends:
            break
    outcomes.put(Outcome(recipient.number, None))


def _attempt(recipient: Recipient, message: Message, now: datetime) -> Outcome:
    try:
        _send(recipient, message, now)
    except RefusedByReceiverError as error:
        return Outcome(recipient.number, message, str(error))
    except (UnreachableError, OSError) as error:
        return Outcome(recipient.number, message, str(error) or type(error).__name__, is_reached=False)
    except Exception as error:  # whatever a message does must not end the run
        log.exception("alert message %d cannot be sent", message.number)
        return Outcome(recipient.number, message, f"the message cannot be sent: {type(error).__name__}")
    return Outcome(recipient.number, message)


def _send(recipient: Recipient, message: Message, now: datetime) -> None:
    if recipient.kind == TargetKind.EMAIL:
        mail.send(message.number, recipient.address, message.body)
        return
    if not recipient.secret:
        raise UnreachableError("its secret was sealed with a key that is gone; delete the target and create it again")
    body = {"id": message.number, "created": message.created.isoformat(), **message.body}
    webhook.send(recipient.address, body, recipient.secret, int(now.timestamp()), settings.HEADROOM_ALERT_NETWORKS)
