"""What waits for people: approvals, blocked changes, recommendations, requests, alerts, emergencies, overrides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Exists, OuterRef

from quotas.changes.emergency import emergencies_open
from quotas.models import AlertState, Approval, Change, Emergency, Override
from quotas.models.change import ChangeState
from quotas.models.quota_request import QuotaRequest, RequestAnswer
from quotas.models.recommendation import Recommendation, Stage, Trust
from quotas.overrides import ACTIVE, overrides_in

SOON: Final = timedelta(hours=24)
MOST: Final = 5
WAITING: Final = (
    ChangeState.PENDING,
    ChangeState.BLOCKED,
    ChangeState.SHADOW,
    ChangeState.CANARY,
    ChangeState.SCHEDULED,
)


@dataclass(frozen=True, slots=True)
class TodoList:
    """The most urgent of each kind."""

    ending: Sequence[Override]
    changes: Sequence[Change]
    approved: frozenset[int]  # those of the changes that wait for no approver
    recommendations: Sequence[Recommendation]
    requests: Sequence[QuotaRequest]
    alerts: Sequence[AlertState]
    emergencies: Sequence[Emergency]

    @property
    def sure(self) -> int:
        return sum(row.trust == Trust.HIGH for row in self.recommendations)


def todo_read(now: datetime, most: int = MOST) -> TodoList:
    """At most `most` of each kind."""
    ending = Override.objects.filter(overrides_in(ACTIVE, now), end__lt=now + SOON)
    changes, approved = _changes(most)
    waiting = Recommendation.objects.filter(stage=Stage.SIMULATED)
    asked = QuotaRequest.objects.filter(answer=RequestAnswer.WAITING).select_related("tenant")
    firing = AlertState.objects.filter(resolved_at=None, told_at__isnull=False)
    return TodoList(
        list(ending.select_related("tenant", "endpoint").order_by("end")[:most]),
        changes,
        approved,
        list(waiting.order_by("-created")[:most]),
        list(asked.order_by("pk")[:most]),
        list(firing.order_by("since", "name", "about")[:most]),
        list(emergencies_open()[:most]),
    )


def _changes(most: int) -> tuple[list[Change], frozenset[int]]:
    columns = (
        "id",
        "state",
        "author",
        "author_identity",
        "reason",
        "at",
        "created",
        "problem",
        "emergency",
        "trial_ends",
    )
    approvals = Approval.objects.filter(change=OuterRef("pk"))
    rows = Change.objects.filter(state__in=WAITING).only(*columns, "trial_ends").annotate(is_approved=Exists(approvals))
    found = list(rows.order_by("-id")[:most])
    needs_none = (row.pk for row in found if row.is_approved or row.emergency or not settings.HEADROOM_FOUR_EYES)
    return [*found], frozenset(needs_none)
