"""Measures one limit again, because what its recommendation rested on has changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from quotas.changes.turn import turn
from quotas.errors import Refused, refuse
from quotas.long_tasks import Progress
from quotas.lookups import find_numbered
from quotas.models import Limit, Recommendation
from quotas.models.recommendation import UNDECIDED, Stage
from quotas.policies.limit_codec import algorithm_dump
from quotas.recommendations.calibrate import calibrate, calibrated_until
from quotas.recommendations.filing import AUTHOR, FITS
from quotas.recommendations.lifecycle import recommendation_simulate
from quotas.recommendations.settings import calibration_parameters
from quotas.recommendations.staleness import base_of, stale_reason, stale_reasons
from quotas.recommendations.targets import target_of
from tenants.history import acting
from tenants.identity import Actor, actor_of

GONE = "its limit no longer exists, is no longer enforced, or now counts something else"


def recommendation_measure(
    *,
    recommendation: int,
    author: str,
    now: datetime | None = None,
    progress: Progress = lambda *_: None,
    check: Callable[[], None] = lambda: None,
) -> Recommendation:
    """Measures its limit on the newest data, and files, changes or withdraws the recommendation accordingly.

    Values that somebody has edited stay, with a new forecast. `check` may refuse before anything is written.
    """
    row = find_numbered(Recommendation.objects.all(), recommendation, "recommendation")
    if row.stage not in UNDECIDED:
        message = f"{row} is {row.get_stage_display().lower()}; only one that nobody has decided on is measured again"
        raise refuse("recommendation", "over" if row.is_over else "stage", message)
    check()
    target = target_of(row.policy, row.limit)
    limit = Limit.objects.filter(policy__name=row.policy, name__name=row.limit).values_list("pk", flat=True).first()
    if target is None or limit is None:
        return _withdraw(row, GONE, author)
    until = now or calibrated_until()
    if row.is_edited:
        with acting(author=author, action="recommendation_measure"), transaction.atomic():
            row.current, row.measured_at = algorithm_dump(target.algorithm), until
            row.base, row.stage, row.forecast = base_of(target, row.tenant, calibration_parameters()), Stage.DRAFT, {}
            row.save()
        return recommendation_simulate(recommendation=row.pk, author=author, progress=progress)
    calibrate(until, progress, only=[limit], filer=_filer(row, author))
    row.refresh_from_db()
    if row.stage == Stage.DRAFT:
        row = recommendation_simulate(recommendation=row.pk, author=author)
    if row.stage in UNDECIDED and row.proposed is not None and stale_reason(row):
        return _withdraw(row, FITS, author)
    return row


def stale_measure(author: str = AUTHOR) -> list[int]:
    """The job: measures every stale recommendation again. Returns their numbers."""
    rows = list(Recommendation.objects.filter(stage__in=UNDECIDED).exclude(proposed=None).defer("evidence"))
    numbers = sorted(stale_reasons(rows))
    for number in numbers:
        try:
            recommendation_measure(recommendation=number, author=author)
        except Refused as refused:
            Recommendation.objects.filter(pk=number).update(problem=str(refused)[:500])
    return numbers


def _filer(row: Recommendation, author: str) -> Actor | None:
    """Of a stale one nobody: the job would have measured it anyway."""
    return None if author == AUTHOR or stale_reason(row) else actor_of(author)


def _withdraw(row: Recommendation, why: str, author: str) -> Recommendation:
    with turn(), acting(author=author, action="recommendation_measure"):
        row.stage, row.ended_at, row.problem = Stage.SUPERSEDED, timezone.now(), why
        row.save()
    return row
