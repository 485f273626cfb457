"""One trial as people ask for it: its stages, its counts and its verdict, for a page or the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from quotas.models import Change
from quotas.trials.canary import CanaryCounts, canary_read, canary_verdict
from quotas.trials.counts import TrialCounts, counts_read
from quotas.trials.scope import Stage, TrialScope, Window, scope_of, stages_of, window_of
from quotas.trials.verdict import Verdict, verdict_of


@dataclass(frozen=True, slots=True)
class Trial:
    """The newest trial of a change; a canary after a shadow has both, and the verdict is the canary's."""

    change: Change
    stages: Sequence[Stage]
    scope: TrialScope
    window: Window | None  # of the shadow
    counts: TrialCounts | None  # of the shadow
    canary: CanaryCounts | None
    verdict: Verdict | None  # None: it was never on trial

    @property
    def since(self) -> datetime | None:
        """When what it is now began."""
        return self.stages[-1].at if self.stages else None


def trial_of(row: Change, now: datetime | None = None) -> Trial:
    now = now or timezone.now()
    stages, scope = stages_of(row), scope_of(row)
    shadow, canary = window_of(stages, "shadow"), window_of(stages, "canary")
    counts = counts_read(scope, shadow, now) if shadow else None
    beside = canary_read(row, canary, now) if canary else None
    verdict = canary_verdict(row, beside) if beside else verdict_of(row, counts) if counts else None
    return Trial(row, stages, scope, shadow, counts, beside, verdict)
