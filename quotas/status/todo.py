"""What needs a person's decision: overrides about to end, pending changes, quota requests, recommendations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from quotas.models import Change, Override
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
    """The most urgent of each kind, at most MOST each."""

    ending: Sequence[Override]
    changes: Sequence[Change]
    recommendations: Sequence[Recommendation]
    requests: Sequence[QuotaRequest]

    @property
    def sure(self) -> int:
        return sum(row.trust == Trust.HIGH for row in self.recommendations)


def todo_read(now: datetime) -> TodoList:
    ending = Override.objects.filter(overrides_in(ACTIVE, now), end__lt=now + SOON)
    columns = ("id", "state", "author", "reason", "at", "created", "problem")
    changes = Change.objects.filter(state__in=WAITING).only(*columns)
    waiting = Recommendation.objects.filter(stage=Stage.SIMULATED)
    return TodoList(
        list(ending.select_related("tenant", "endpoint").order_by("end")[:MOST]),
        list(changes.order_by("-id")[:MOST]),
        list(waiting.order_by("-created")[:MOST]),
        list(QuotaRequest.objects.filter(answer=RequestAnswer.WAITING).select_related("tenant").order_by("pk")[:MOST]),
    )
