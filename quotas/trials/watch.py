"""The job that ends trials by themselves: an hour above a bar stops one, and the planned end comes for the others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from quotas.changes.freeze import Frozen, freezes_active
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import change_drop
from quotas.changes.turn import Busy, turn
from quotas.errors import Refused
from quotas.models import AuditEvent, Change
from quotas.models.change import TRIED, ChangeState, TrialEnd
from quotas.policies.problems import sentence
from quotas.trials.canary import FEWEST, canary_read, canary_verdict
from quotas.trials.counts import Counts, TenantCounts, counts_read
from quotas.trials.report import trial_of
from quotas.trials.scope import Window, scope_of, stages_of, window_of
from quotas.trials.verdict import percent

AUTHOR: Final = "trials"
HOUR: Final = timedelta(hours=1)
LONGEST: Final = 500  # of a reason


@dataclass(frozen=True, slots=True)
class TrialEvent:
    """What the job did to a change."""

    change: int
    what: str  # stopped, promoted, dropped, asked or refused
    why: str


def trials_watch(now: datetime | None = None) -> list[TrialEvent]:
    now = now or timezone.now()
    rows = Change.objects.filter(state__in=TRIED).order_by("pk")
    found = (_watched(row, now) for row in rows)
    return [event for event in found if event is not None]


def _watched(row: Change, now: datetime) -> TrialEvent | None:
    try:
        if row.auto_stop and (why := _above(row, now)):
            return _stop(row, why)
        if row.trial_ends is not None and row.trial_ends <= now:
            return _at_end(row, now)
    except (Busy, Frozen):
        return None  # the next run tries again
    return None


def _above(row: Change, now: datetime) -> str:
    """Which bar the last hour lies above, in words; empty: none."""
    stages = stages_of(row)
    window = window_of(stages, row.state)
    if window is None:
        return ""
    if row.state == ChangeState.CANARY:
        verdict = canary_verdict(row, canary_read(row, window, now))
        return str(verdict) if verdict.tone == "no" else ""
    last = Window(max(window.begin, (now - HOUR).replace(second=0, microsecond=0)), None)
    counts = counts_read(scope_of(row), last, now)
    since = f"from {last.begin:%H:%M} to {now:%H:%M} UTC"
    if _is_above(counts.total, row.bar_share):
        return f"{_said(counts.total)} would be denied {since}, above the bar of {percent(row.bar_share)}"
    worst = counts.worst
    if worst is not None and _is_above(worst, row.bar_tenant):
        return (
            f"{_said(worst)} of {worst.tenant} would be denied {since}, "
            f"above the bar of {percent(row.bar_tenant)} for one tenant"
        )
    return ""


def _is_above(counts: Counts | TenantCounts, bar: float) -> bool:
    return counts.asked >= FEWEST and counts.share > bar


def _said(counts: Counts) -> str:
    return f"{counts.would_deny:,} of {counts.asked:,} requests ({percent(counts.share)})"


def _stop(row: Change, why: str) -> TrialEvent:
    with turn():
        change_drop(change=row.pk, author=AUTHOR, reason=f"stopped by its own rule: {why}"[:LONGEST])
        _note("trial_stopped", row, why)
    return TrialEvent(row.pk, "stopped", why)


def _at_end(row: Change, now: datetime) -> TrialEvent | None:
    """A trial that is not safe, or that nobody decided on, goes on and waits for a person."""
    verdict = trial_of(row, now).verdict
    if verdict is None or not verdict.is_safe or row.trial_then == TrialEnd.ASK:
        return None
    if row.trial_then == TrialEnd.END:
        with turn():
            change_drop(change=row.pk, author=AUTHOR, reason=f"ended as planned: {verdict}"[:LONGEST])
            _note("trial_ended", row, str(verdict))
        return TrialEvent(row.pk, "dropped", str(verdict))
    return _promote(row, str(verdict), now)


def _promote(row: Change, why: str, now: datetime) -> TrialEvent | None:
    if freezes_active(now).exists():
        return None
    try:
        change_promote(change=row.pk, author=row.starter, reason=f"promoted as planned: {why}"[:LONGEST])
    except (Busy, Frozen):
        raise
    except Refused as refused:
        return _refused(row, refused)
    _note("trial_promoted", row, why)
    return TrialEvent(row.pk, "promoted", why)


def _refused(row: Change, refused: Refused) -> TrialEvent | None:
    """It stays on trial, and says why it was not promoted."""
    problem = f"not promoted at the end of its trial: {sentence(refused.problems[0].message)}"
    if row.problem == problem:
        return None
    Change.objects.filter(pk=row.pk, state__in=TRIED).update(problem=problem)
    _note("trial_not_promoted", row, problem)
    return TrialEvent(row.pk, "refused", problem)


def _note(kind: str, row: Change, why: str) -> None:
    AuditEvent.objects.create(kind=kind, detail={"change": row.pk, "why": why})
