"""Sends waiting alert messages to their targets, and retries failed ones with growing delays."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.utils import timezone

from quotas.alerts import webhook
from quotas.alerts.messages import subject_of, text_of
from quotas.alerts.webhook import UnreachableError
from quotas.models import AlertDelivery
from quotas.models.alert import TargetKind
from tenants.secrets import unseal

log = logging.getLogger(__name__)

AT_ONCE: Final = 20
LEASE: Final = timedelta(minutes=2)  # longer than one try takes, so that no other worker sends it meanwhile
FIRST_WAIT: Final = timedelta(seconds=15)
LONGEST_WAIT: Final = timedelta(hours=1)
MOST_TRIES: Final = 12


def alerts_send(now: datetime | None = None) -> int:
    """Returns how many messages were delivered."""
    now = now or timezone.now()
    return sum(_deliver(row, now) for row in _claim(now))


def _claim(now: datetime) -> list[AlertDelivery]:
    with transaction.atomic():
        due = AlertDelivery.objects.filter(sent_at=None, is_given_up=False, due_at__lte=now, target__is_on=True)
        rows = list(
            due.select_related("target").select_for_update(of=("self",), skip_locked=True).order_by("due_at")[:AT_ONCE]
        )
        AlertDelivery.objects.filter(pk__in=[row.pk for row in rows]).update(due_at=now + LEASE)
    return rows


def _deliver(row: AlertDelivery, now: datetime) -> bool:
    try:
        _send(row, now)
    except (UnreachableError, OSError) as error:
        _try_later(row, now, str(error))
        return False
    AlertDelivery.objects.filter(pk=row.pk).update(sent_at=now, tries=row.tries + 1, problem="")
    return True


def _send(row: AlertDelivery, now: datetime) -> None:
    target = row.target
    if target.kind == TargetKind.EMAIL:
        send_mail(
            subject_of(row.body)[:200].replace("\n", " "),
            text_of(row.body),
            settings.DEFAULT_FROM_EMAIL,
            [target.address],
        )
        return
    secret = unseal(bytes(target.secret))
    if not secret:
        raise UnreachableError("its secret was sealed with another SECRET_KEY; delete the target and create it again")
    body: dict[str, Any] = {"id": row.pk, "created": row.created.isoformat(), **row.body}
    webhook.send(target.address, body, secret, int(now.timestamp()), settings.HEADROOM_ALERT_NETWORKS)


def _try_later(row: AlertDelivery, now: datetime, problem: str) -> None:
    tries = row.tries + 1
    wait = min(FIRST_WAIT * 2 ** (tries - 1), LONGEST_WAIT)
    given_up = tries >= MOST_TRIES
    AlertDelivery.objects.filter(pk=row.pk).update(
        tries=tries, due_at=now + wait, problem=problem[:300], is_given_up=given_up
    )
    log.warning("alert message %d was not delivered (%s)%s", row.pk, problem, "; giving up" if given_up else "")
