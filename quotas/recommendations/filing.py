"""How what calibration found is filed: one open recommendation of a limit and a tenant, and no nagging."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from quotas.calibration.parameters import Parameters
from quotas.models import Recommendation
from quotas.models.recommendation import OPEN, UNDECIDED, Kind, Stage
from quotas.policies.limit_codec import algorithm_dump
from quotas.recommendations.targets import Target
from tenants.history import acting

AUTHOR = "calibration"
QUIET_DAYS = 28  # what was dismissed is not proposed again so soon


def store(
    target: Target,
    kind: Kind,
    tenant: str,
    now: datetime,
    fields: dict[str, Any],
    parameters: Parameters,
) -> Recommendation | None:
    """New, or in place of what nobody has decided on yet; None: somebody has, or said no to much the same."""
    with acting(author=AUTHOR, action="calibrate"), transaction.atomic():
        row = _open(target, tenant)
        if row is None:
            if _was_dismissed(target, tenant, fields["proposed"], now, parameters):
                return None
            row = Recommendation(kind=kind, policy=target.policy, limit=target.limit, tenant=tenant)
        elif row.stage not in UNDECIDED or row.is_edited:
            return None
        row.tier, row.endpoint, row.stage = target.tier, target.endpoint, Stage.DRAFT
        row.current, row.measured_at, row.ready_at = algorithm_dump(target.algorithm), now, None
        row.forecast, row.problem = {}, ""
        for name, value in fields.items():
            setattr(row, name, value)
        row.save()
        return row


def withdraw(target: Target, now: datetime) -> None:
    """The limit fits: what was proposed and not yet decided on no longer stands."""
    with acting(author=AUTHOR, action="calibrate"), transaction.atomic():
        row = _open(target, target.tenant)
        if row is not None and row.stage in UNDECIDED and not row.is_edited:
            row.stage, row.ended_at = Stage.SUPERSEDED, now
            row.problem = "the limit fits what was measured since"
            row.save()


def _open(target: Target, tenant: str) -> Recommendation | None:
    rows = Recommendation.objects.select_for_update().filter(policy=target.policy, limit=target.limit, tenant=tenant)
    return rows.filter(stage__in=OPEN).first()


def _was_dismissed(
    target: Target, tenant: str, proposed: dict[str, Any], now: datetime, parameters: Parameters
) -> bool:
    rows = Recommendation.objects.filter(policy=target.policy, limit=target.limit, tenant=tenant)
    last = rows.filter(stage=Stage.DISMISSED, ended_at__gt=now - timedelta(days=QUIET_DAYS)).first()
    if last is None:
        return False
    before, after = (_rate_in(fields) for fields in (last.proposed, proposed))
    return abs(after - before) < parameters.small_change * before


def _rate_in(stored: dict[str, Any] | None) -> float:
    fields = (stored or {}).get("parameters", {})
    return float(fields.get("rate") or fields.get("limit") or 0)
