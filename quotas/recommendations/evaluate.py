"""Follows recommendations in shadow, and compares enforced ones with their forecast."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from django.db import transaction
from django.db.models import Q, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from quotas.calibration.parameters import Parameters
from quotas.changes.freeze import freezes_active
from quotas.changes.turn import turn
from quotas.errors import Refused
from quotas.models import LimitName, Recommendation
from quotas.models.policy import CANDIDATE_SUFFIX
from quotas.models.recommendation import Stage
from quotas.models.usage import LET_THROUGH, Outcome, UsageMinute
from quotas.recommendations.filing import AUTHOR
from quotas.recommendations.lifecycle import start_trial, undo
from quotas.recommendations.settings import calibration_parameters
from quotas.recommendations.targets import Target, target_of
from tenants.history import acting

FEWEST = 100  # requests before a conclusion
SURE = 2.0  # standard deviations by which denials must exceed the bound


@dataclass(frozen=True, slots=True)
class Seen:
    """Counts of requests that a limit applied to."""

    asked: int
    denied: int  # by the limit
    would_deny: int  # by its candidate, of requests that were allowed
    would_allow: int  # by its candidate, of requests that were denied

    @property
    def denied_share(self) -> float:
        return self.denied / self.asked if self.asked else 0.0

    @property
    def candidate_share(self) -> float:
        """The share that the candidate would have denied."""
        return max(0, self.would_deny + self.denied - self.would_allow) / self.asked if self.asked else 0.0


def recommendations_advance(now: datetime | None = None) -> list[Recommendation]:
    """One round of the job. Returns the recommendations whose stage changed."""
    now, parameters = now or timezone.now(), calibration_parameters()
    stages = [Stage.APPROVED, Stage.SHADOW, Stage.ENFORCED]
    if freezes_active(now).exists():
        stages.remove(Stage.APPROVED)  # its trial starts after the freeze
    rows = Recommendation.objects.filter(stage__in=stages).order_by("id")
    return [row for number in rows.values_list("pk", flat=True) if (row := _advance(number, now, parameters))]


def _advance(number: int, now: datetime, parameters: Parameters) -> Recommendation | None:
    with turn(), acting(author=AUTHOR, action="recommendations_advance"):
        row = Recommendation.objects.select_for_update(of=("self",)).select_related("change").get(pk=number)
        before = row.stage
        if row.stage == Stage.APPROVED:
            start_trial(row)
        elif row.stage == Stage.SHADOW:
            _watch_shadow(row, now)
        elif row.stage == Stage.ENFORCED:
            _watch_enforced(row, now, parameters)
        return row if row.stage != before else None


def _watch_shadow(row: Recommendation, now: datetime) -> None:
    target = target_of(row.policy, row.limit)
    if target is None or row.shadow_at is None:
        return
    seen = seen_since(row, target, row.shadow_at, now)
    row.observed = {**_json(seen, row.shadow_at), "denied_share": round(seen.candidate_share, 8)}
    row.save()


def _watch_enforced(row: Recommendation, now: datetime, parameters: Parameters) -> None:
    target = target_of(row.policy, row.limit)
    if row.enforced_at is None or target is None:
        return
    seen = seen_since(row, target, row.enforced_at, now)
    borne = parameters.rollback_factor * max(float(row.forecast.get("denied_share", 0)), parameters.burst_epsilon)
    factor = seen.denied_share / max(float(row.forecast.get("denied_share", 0)), parameters.burst_epsilon)
    row.observed = {**_json(seen, row.enforced_at), "factor": round(factor, 4)}
    if _exceeds(seen, borne):
        _take_back(row, seen, borne, now)
    elif now >= row.enforced_at + timedelta(days=parameters.evaluate_days) and seen.asked >= FEWEST:
        row.observed |= {"verdict": "as forecast" if factor <= 1 else "above the forecast, within bounds"}
        row.stage, row.ended_at = Stage.EVALUATED, now
    row.save()


def _exceeds(seen: Seen, borne: float) -> bool:
    """Whether denials exceed the bound by more than chance."""
    expected = borne * seen.asked
    return seen.asked >= FEWEST and seen.denied > expected + SURE * sqrt(max(expected, 1.0))


def _take_back(row: Recommendation, seen: Seen, borne: float, now: datetime) -> None:
    """The limit from before comes back. Nothing goes on trial again unless somebody asks for it."""
    said = f"{row}: {seen.denied_share:.2%} were denied, above the bound of {borne:.2%}"
    try:
        with transaction.atomic():
            undo(row, author=AUTHOR, reason=said)
        row.observed |= {"verdict": said}
        row.stage, row.ended_at = Stage.ROLLED_BACK, now
        row.decider, row.decider_identity, row.reason = AUTHOR, "", said[:500]
    except Refused as refused:
        row.problem = f"{said}, but it cannot be rolled back: {refused}"[:500]
    row.measured_at = max(row.measured_at, now)


def seen_since(row: Recommendation, target: Target, since: datetime, now: datetime) -> Seen:
    traffic = target.traffic
    tenants = [number for number, name in target.names.items() if not row.tenant or name == row.tenant]
    rows = UsageMinute.objects.filter(start__gte=since, start__lt=now, tenant_number__in=tenants)
    if traffic.endpoints is not None:
        rows = rows.filter(endpoint_number__in=traffic.endpoints)
    rows = rows.exclude(endpoint_number__in=traffic.without)
    candidate = LimitName.objects.filter(name=row.limit + CANDIDATE_SUFFIX).values_list("number", flat=True).first()
    by_candidate = Q(limit_number=candidate or -1)
    wanted = {
        "asked": Q(outcome__in=[*LET_THROUGH, Outcome.DENIED]),
        "denied": Q(outcome=Outcome.DENIED, limit_number=target.number),
        "would_deny": Q(outcome=Outcome.CANDIDATE_DENIES) & by_candidate,
        "would_allow": Q(outcome=Outcome.CANDIDATE_ALLOWS) & by_candidate,
    }
    sums = rows.aggregate(**{name: Coalesce(Sum("count", filter=kept), 0) for name, kept in wanted.items()})
    return Seen(**{name: int(value) for name, value in sums.items()})


def _json(seen: Seen, since: datetime) -> dict[str, object]:
    return {
        "since": since.isoformat(),
        "asked": seen.asked,
        "denied": seen.denied,
        "would_deny": seen.would_deny,
        "would_allow": seen.would_allow,
        "denied_share": round(seen.denied_share, 8),
    }
