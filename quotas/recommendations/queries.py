"""Recommendations as an inbox: waiting, on trial, and limits without a proposal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Count, QuerySet

from quotas.models import Change, Recommendation, Task
from quotas.models.change import TRIED
from quotas.models.recommendation import Stage, Trust
from quotas.status.summary import WAITING

MOST: Final = 200
TABS: Final[Mapping[str, tuple[Stage, ...]]] = {
    "active": (*WAITING, Stage.APPROVED, Stage.SHADOW, Stage.ENFORCED),
    "waiting": WAITING,
    "shadow": (Stage.APPROVED, Stage.SHADOW),
    "enforced": (Stage.ENFORCED,),
    "evaluated": (Stage.EVALUATED, Stage.ROLLED_BACK),
    "dismissed": (Stage.DISMISSED, Stage.SUPERSEDED),
    "insufficient": (Stage.INSUFFICIENT,),
}


@dataclass(frozen=True, slots=True)
class Inbox:
    tab: str
    rows: Sequence[Recommendation]
    counts: Mapping[str, int]  # by tab
    sure: int  # simulated and of high confidence
    near: Sequence[Recommendation]  # with too little data, the soonest ready first
    run: Task | None  # the last finished calibration
    running: Task | None

    @property
    def waiting(self) -> int:
        return self.counts["waiting"]


def inbox_read(tab: str) -> Inbox:
    stages = dict(Recommendation.objects.order_by().values_list("stage").annotate(Count("id")))
    runs = Task.objects.filter(kind=Task.Kind.CALIBRATE).order_by("-id")
    return Inbox(
        tab=tab,
        rows=list(_light().filter(stage__in=TABS[tab])[:MOST]),
        counts={name: sum(stages.get(stage.value, 0) for stage in wanted) for name, wanted in TABS.items()},
        sure=Recommendation.objects.filter(stage=Stage.SIMULATED, trust=Trust.HIGH).count(),
        near=list(_light().filter(stage=Stage.INSUFFICIENT).order_by("ready_at")[:3]) if tab == "active" else [],
        run=runs.filter(state=Task.State.DONE).first(),
        running=runs.filter(state__in=[Task.State.WAITING, Task.State.RUNNING]).first(),
    )


def next_waiting(after: int) -> int | None:
    rows = Recommendation.objects.filter(stage__in=WAITING).exclude(pk=after).order_by("-id")
    return rows.filter(pk__lt=after).values_list("pk", flat=True).first() or rows.values_list("pk", flat=True).first()


def _light() -> QuerySet[Recommendation]:
    """Without the evidence, which may have a hundred kilobytes."""
    return Recommendation.objects.defer("evidence").order_by("-id")


def trial_before(row: Recommendation) -> Change | None:
    """The change on trial on its policy that it has to wait for; None: the policy is free."""
    if row.is_over or row.stage in (Stage.SHADOW, Stage.ENFORCED):
        return None
    held = Change.objects.filter(state__in=TRIED, touched__contains=[f"policy:{row.policy}"])
    return held.exclude(pk=row.change_id or 0).order_by("pk").first()
