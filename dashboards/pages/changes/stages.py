"""The stages of a change as a line of steps: what happened, who did it, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from headroom_edge.algorithms.base import counted
from quotas.changes.queries import Aftermath
from quotas.models import Change, Recommendation
from quotas.models.change import ChangeState
from quotas.models.recommendation import Stage as RecommendationStage
from quotas.trials.report import Trial
from quotas.trials.scope import Stage
from quotas.trials.verdict import percent, planned_hours, short_hours


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    note: str
    state: Literal["done", "now", "todo", "bad"]
    at: datetime | None = None


def steps_of(
    trial: Trial, *, waits: bool, recommendation: Recommendation | None, aftermath: Aftermath | None
) -> list[Step]:
    row, stages = trial.change, trial.stages
    return [
        Step("Draft", f"by {row.author}", "now" if row.state == ChangeState.PENDING else "done", row.created),
        Step("Dry run", _impact_words(row), "done"),
        _shadow(trial),
        _canary(row, stages),
        *_end(row, stages, waits=waits),
        _evaluated(row, recommendation, aftermath),
    ]


def _last(stages: Sequence[Stage], *states: str) -> Stage | None:
    return next((stage for stage in reversed(stages) if stage.state in states), None)


def _impact_words(row: Change) -> str:
    hurt, lost = row.impact.get("hurt_count", 0), row.impact.get("unenforced", ())
    if hurt:
        return f"cuts {counted(hurt, 'tenant', 'tenants')}"
    return "enforcement is lost" if lost else "no limit gets tighter"


def _shadow(trial: Trial) -> Step:
    row, counts = trial.change, trial.counts
    began = _last(trial.stages, "shadow")
    if began is None or counts is None:
        is_next = row.state == ChangeState.PENDING
        return Step("Shadow", "counts beside the live limits, never denies" if is_next else "skipped", "todo")
    lasted = f"{short_hours(counts.hours)} of {short_hours(planned_hours(row, counts.begin))} h, by {began.author}"
    return Step("Shadow", lasted, "now" if row.state == ChangeState.SHADOW else "done", began.at)


def _canary(row: Change, stages: Sequence[Stage]) -> Step:
    began = _last(stages, "canary")
    if began is None:
        return Step("Canary", "optional, for a share of the tenants", "todo")
    share = f"{(began.share or 0) / 10:g} % of the tenants, by {began.author}"
    return Step("Canary", share, "now" if row.state == ChangeState.CANARY else "done", began.at)


def _end(row: Change, stages: Sequence[Stage], *, waits: bool) -> list[Step]:
    promoted, ended = _last(stages, "promoted"), _last(stages, "dropped", "reverted")
    found: list[Step] = []
    if promoted is not None and row.state in (ChangeState.PROMOTED, ChangeState.REVERTED):
        found.append(Step("Promoted", f"by {promoted.author}", "done", promoted.at))
    if ended is not None and row.state == ended.state:
        found.append(Step(row.get_state_display(), f"by {ended.author}: {ended.reason}", "bad", ended.at))
    if found:
        return found
    if row.state in (ChangeState.SCHEDULED, ChangeState.BLOCKED):
        return [Step("Promoted", row.get_state_display().lower(), "now", row.at)]
    return [Step("Promoted", f"needs an approver other than {row.author}" if waits else "for all tenants", "todo")]


def _evaluated(row: Change, recommendation: Recommendation | None, aftermath: Aftermath | None) -> Step:
    if recommendation is not None and recommendation.stage == RecommendationStage.EVALUATED:
        return Step("Evaluated", str(recommendation.observed.get("verdict", "")), "done", recommendation.ended_at)
    if row.state == ChangeState.PROMOTED and aftermath is not None and aftermath.is_known and not aftermath.is_early:
        before, after = aftermath.before.share, aftermath.after.share
        said = f"429 share {percent(before or 0)} in the hour before, {percent(after or 0)} after"
        return Step("Evaluated", said, "done")
    return Step("Evaluated", "429 share an hour before and after" if not row.is_over else "not measured", "todo")
