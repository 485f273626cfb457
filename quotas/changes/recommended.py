"""A recommendation that is carried out shows the state of its change: it is moved in the same transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.utils import timezone

from quotas.errors import refuse
from quotas.models import Change, Recommendation
from quotas.models.change import ChangeState
from quotas.models.recommendation import OPEN, UNDECIDED, Stage

_STAGES: Final = {
    ChangeState.PROMOTED: Stage.ENFORCED,
    ChangeState.DROPPED: Stage.DISMISSED,
    ChangeState.REVERTED: Stage.ROLLED_BACK,
}
_OF_PROMOTED: Final = (Stage.ENFORCED, Stage.EVALUATED)


def stage_of(change: Change) -> Stage:
    """Of the recommendation that the change carries out. Whether its effect was evaluated, it says itself."""
    return _STAGES.get(ChangeState(change.state), Stage.SHADOW)


def follow(change: Change, now: datetime | None = None) -> None:
    """Call it after each new state of a change, in its transaction."""
    rows = Recommendation.objects.select_for_update(of=("self",)).filter(change=change)
    for row in rows:
        stage, now = stage_of(change), now or timezone.now()
        row.problem = change.problem[:500]
        if row.stage == stage or (stage == Stage.ENFORCED and row.stage in _OF_PROMOTED):
            row.save(update_fields=["problem"])
            continue
        if stage in OPEN and row.stage not in OPEN:
            _make_room(row)
        row.stage = stage
        if stage == Stage.SHADOW:
            row.shadow_at, row.enforced_at, row.ended_at = now, None, None
        elif stage == Stage.ENFORCED:
            row.enforced_at, row.ended_at = now, None
        else:
            row.ended_at = now
            row.decider, row.decider_identity, row.reason = change.end_author, "", change.end_reason
        row.save()


def _make_room(row: Recommendation) -> None:
    """One recommendation is open for a limit: what was filed since gives way, unless somebody has decided on it."""
    others = Recommendation.objects.filter(policy=row.policy, limit=row.limit, tenant=row.tenant, stage__in=OPEN)
    others = others.exclude(pk=row.pk)
    decided = others.exclude(stage__in=UNDECIDED).first()
    if decided is not None:
        message = f"{decided} is {decided.get_stage_display().lower()} for the same limit, and {row} would be too"
        raise refuse("recommendation", "in_use", f"{message}; dismiss it or roll it back first")
    for other in others:
        other.stage, other.ended_at = Stage.SUPERSEDED, timezone.now()
        other.save(update_fields=["stage", "ended_at"])
