"""The rule of a trial: how much a change may deny in it, when it ends, and what happens then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from quotas.changes.trial_policies import find_active
from quotas.changes.turn import turn
from quotas.errors import author_and_reason, check_moment, refuse
from quotas.models import AuditEvent, Change
from quotas.models.change import TRIED, TrialEnd
from tenants.history import acting

SHADOW_FOR: Final = timedelta(hours=48)
CANARY_FOR: Final = timedelta(hours=24)
LONGEST: Final = timedelta(days=28)  # minutes are kept for 30 days


@dataclass(frozen=True, slots=True)
class TrialRule:
    """None: as it is."""

    bar_share: float | None = None  # of all requests
    bar_tenant: float | None = None  # of one tenant's requests
    ends: datetime | None = None
    then: str | None = None
    auto_stop: bool | None = None


def trial_rule_set(*, change: int, author: str, reason: str, rule: TrialRule) -> Change:
    """Changes the bars, the planned end or what follows it. What was counted so far is kept."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="change_trial_rule", reason=reason), turn():
        row = find_active(change)
        if row.state not in TRIED:
            raise refuse("change", "stage", f"{row} is {row.state}; start its trial first")
        before = rule_of(row)
        apply_rule(row, rule)
        row.save()
        if rule_of(row) != before:
            detail = {"change": row.pk, "author": author, "reason": reason, **_words(row)}
            AuditEvent.objects.create(kind="trial_rule_set", detail=detail)
    return row


def apply_rule(row: Change, rule: TrialRule) -> None:
    for name, value in (("bar_share", rule.bar_share), ("bar_tenant", rule.bar_tenant)):
        if value is not None:
            _check_bar(name, value)
            setattr(row, name, value)
    if rule.ends is not None:
        row.trial_ends = _checked_end(rule.ends)
    if rule.then is not None:
        if rule.then not in TrialEnd.values:
            raise refuse("then", "then", f"then must be one of {', '.join(TrialEnd.values)}")
        row.trial_then = TrialEnd(rule.then)
    if rule.auto_stop is not None:
        row.auto_stop = rule.auto_stop


def rule_of(row: Change) -> TrialRule:
    return TrialRule(row.bar_share, row.bar_tenant, row.trial_ends, row.trial_then, row.auto_stop)


def _check_bar(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise refuse(name, "range", f"{name} must be above 0 and at most 1; 0.01 is 1 %")


def _checked_end(ends: datetime) -> datetime:
    check_moment("ends", ends)
    now = timezone.now()
    if ends <= now:
        raise refuse("ends", "past", "ends is in the past; choose a later time, or end the trial now")
    if ends > now + LONGEST:
        raise refuse("ends", "range", f"a trial can end at most {LONGEST.days} days from now")
    return ends


def _words(row: Change) -> dict[str, object]:
    return {
        "bar_share": row.bar_share,
        "bar_tenant": row.bar_tenant,
        "ends": row.trial_ends.isoformat() if row.trial_ends else None,
        "then": row.trial_then,
        "auto_stop": row.auto_stop,
    }
