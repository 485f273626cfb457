"""Edits thresholds and targets of alerts. Database triggers record their history."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone as clock

from headroom_edge.algorithms.calendar_quota import known_zones
from quotas.alerts.messages import AlertEvent, body_of
from quotas.alerts.quiet_hours import minute_of
from quotas.alerts.rules import EMERGENCY, RULES, AlertRule
from quotas.alerts.webhook import UnreachableError, resolve_url
from quotas.changes.emergency import check_may_declare, emergencies_open
from quotas.errors import author_and_reason, one_line, refuse
from quotas.lookups import find_numbered
from quotas.models import AlertDelivery, AlertSetting, AlertState, AlertTarget
from quotas.models.alert import TargetKind
from tenants.history import acting
from tenants.secrets import sealer

SECRET_BYTES = 32
MOST_TARGETS = 50
LONGEST_ADDRESS = 500
LONGEST_LABEL = 200


def alerts_firing() -> QuerySet[AlertState]:
    """Alerts that were sent and are not resolved, the longest firing first."""
    return AlertState.objects.filter(resolved_at=None, told_at__isnull=False).order_by("since", "name", "about")


@dataclass(frozen=True, slots=True)
class RuleRow:
    rule: AlertRule
    threshold: float
    is_on: bool

    @property
    def is_default(self) -> bool:
        return self.is_on and self.threshold == self.rule.threshold


@dataclass(frozen=True, slots=True)
class IssuedTarget:
    row: AlertTarget
    secret: str  # shown once; empty for email


def alert_rules() -> dict[str, RuleRow]:
    stored = {row.name: row for row in AlertSetting.objects.all()}
    return {
        name: RuleRow(rule, stored[name].threshold if name in stored else rule.threshold, _is_on(stored.get(name)))
        for name, rule in RULES.items()
    }


def _is_on(row: AlertSetting | None) -> bool:
    return row is None or row.is_on


def alert_setting_set(*, name: str, author: str, reason: str, threshold: float | None, is_on: bool = True) -> RuleRow:
    """`threshold` None: the default of the rule."""
    author, reason = author_and_reason(author, reason)
    if name not in RULES:
        raise refuse("name", "unknown", f"there is no alert {name}; choose one of {', '.join(RULES)}")
    rule = RULES[name]
    value = rule.threshold if threshold is None else threshold
    _check_threshold(rule, value)
    # Who may not skip the consent of others must not silence who does. Everybody may turn it on again.
    if rule is EMERGENCY and not RuleRow(rule, value, is_on).is_default:
        check_may_declare(f"the alert {name}", "name")
    with acting(author=author, action="alert_setting_set", reason=reason), transaction.atomic():
        if is_on and value == rule.threshold:
            AlertSetting.objects.filter(name=name).delete()
        else:
            AlertSetting.objects.update_or_create(name=name, defaults={"threshold": value, "is_on": is_on})
    return RuleRow(rule, value, is_on)


def _check_threshold(rule: AlertRule, value: float) -> None:
    most = {"share": 1.0, "seconds": 86_400.0, "enforcers": 1_000_000.0, "emergencies": 20.0}[rule.unit]
    if not rule.least < value <= most:
        raise refuse(
            "threshold", "range", f"the threshold of {rule.name} must be above {rule.least:g} and at most {most:g}"
        )


def alert_target_create(
    *,
    kind: str,
    address: str,
    author: str,
    reason: str,
    label: str = "",
    alerts: Collection[str] = (),
    quiet_from: str | None = None,
    quiet_until: str | None = None,
    timezone: str = "UTC",
) -> IssuedTarget:
    author, reason = author_and_reason(author, reason)
    _check_target(kind, address, label, alerts, timezone)
    begin, end = _quiet(quiet_from, quiet_until)
    secret = secrets.token_hex(SECRET_BYTES) if kind == TargetKind.WEBHOOK else ""
    with acting(author=author, action="alert_target_create", reason=reason), transaction.atomic():
        row = AlertTarget.objects.create(
            kind=kind,
            address=address,
            label=label,
            alerts=sorted(set(alerts)),
            quiet_from=begin,
            quiet_until=end,
            timezone=timezone,
            secret=sealer(lock=True).seal(secret.encode()),
        )
    return IssuedTarget(row, secret)


def _check_target(kind: str, address: str, label: str, alerts: Collection[str], timezone: str) -> None:
    if kind not in TargetKind.values:
        raise refuse("kind", "kind", f"kind must be one of {', '.join(TargetKind.values)}")
    one_line("address", address, LONGEST_ADDRESS)
    one_line("label", label, LONGEST_LABEL)
    unknown = sorted(set(alerts) - RULES.keys())
    if unknown:
        raise refuse("alerts", "unknown", f"there is no alert {unknown[0]}; choose from {', '.join(RULES)}")
    if timezone not in known_zones():
        raise refuse(
            "timezone", "timezone", f"timezone {timezone!r} is unknown; use an IANA name such as Europe/Berlin"
        )
    if AlertTarget.objects.count() >= MOST_TARGETS:
        raise refuse("target", "too_many", f"there are already {MOST_TARGETS} targets; delete one first")
    _check_address(kind, address)


def _check_address(kind: str, address: str) -> None:
    if kind == TargetKind.WEBHOOK:
        try:
            resolve_url(address, settings.HEADROOM_ALERT_NETWORKS)
        except UnreachableError as error:
            raise refuse("address", "address", str(error)) from None
        return
    if not settings.HEADROOM_HAS_MAIL:
        raise refuse("kind", "mail", "no mail server is configured; set HEADROOM_SMTP_URL, or use a webhook")
    try:
        validate_email(address)
    except ValidationError:
        raise refuse("address", "address", "the address is not an email address; correct it") from None


def _quiet(begin: str | None, end: str | None) -> tuple[int | None, int | None]:
    if (begin is None) != (end is None):
        raise refuse("quiet_from", "missing", "quiet hours need a start and an end; give both or neither")
    if begin is None or end is None:
        return None, None
    try:
        return minute_of(begin), minute_of(end)
    except ValueError as error:
        raise refuse("quiet_from", "time", f"quiet hours: {error}") from None


def alert_target_delete(*, target: int, author: str, reason: str) -> None:
    """Also deletes the messages that wait for the target."""
    author, reason = author_and_reason(author, reason)
    row = find_numbered(AlertTarget.objects.all(), target, "target")
    _check_may_silence(row)
    with acting(author=author, action="alert_target_delete", reason=reason), transaction.atomic():
        AlertDelivery.objects.filter(target=row).delete()
        row.delete()


def _check_may_silence(row: AlertTarget) -> None:
    """The message about an emergency may still wait for its target."""
    if row.wants(EMERGENCY.name) and (emergency := emergencies_open().first()):
        check_may_declare(f"deleting {row} before somebody else has looked at {emergency}", "target")


def alert_target_test(*, target: int, author: str, reason: str) -> AlertDelivery:
    """Queues a test message, which is sent even in quiet hours."""
    author, _ = author_and_reason(author, reason)
    row, now = find_numbered(AlertTarget.objects.all(), target, "target"), clock.now()
    event = AlertEvent("test", "", "test", "notice", 0, 0, f"a test by {author}", now.isoformat(), "")
    return AlertDelivery.objects.create(target=row, body=body_of([event]), due_at=now)
