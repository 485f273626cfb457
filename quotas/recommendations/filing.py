"""Files what calibration found: at most one open recommendation for a limit and a tenant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from headroom_edge.algorithms.base import Algorithm
from quotas.calibration.burst import Point
from quotas.calibration.parameters import Parameters
from quotas.calibration.sizing import point_of
from quotas.models import LimitNeed, Recommendation
from quotas.models.recommendation import OPEN, UNDECIDED, Kind, Stage
from quotas.policies.limit_codec import algorithm_dump, algorithm_load
from quotas.recommendations.evidence import point_json
from quotas.recommendations.staleness import base_of
from quotas.recommendations.targets import Target
from tenants.history import acting

AUTHOR = "calibration"
FITS = "the limit fits what was measured since"
QUIET_DAYS = 28  # after a dismissal, before nearly the same is proposed again


def store(
    target: Target,
    kind: Kind,
    tenant: str,
    now: datetime,
    proposed: Algorithm | None,
    fields: dict[str, Any],
    parameters: Parameters,
) -> Recommendation | None:
    """A new recommendation, or the open one with new values.

    None: somebody has decided on the open one, or has recently dismissed nearly the same.
    """
    with acting(author=AUTHOR, action="calibrate"), transaction.atomic():
        row = _open(target, tenant)
        if row is None:
            if proposed is not None and _was_dismissed(target, tenant, proposed, now, parameters):
                return None
            row = Recommendation(kind=kind, policy=target.policy, limit=target.limit, tenant=tenant)
        elif row.stage not in UNDECIDED or row.is_edited:
            return None
        row.tier, row.endpoint, row.stage = target.tier, target.endpoint, Stage.SIMULATED
        row.current, row.measured_at, row.ready_at = algorithm_dump(target.algorithm), now, None
        row.base = base_of(target, tenant, parameters)
        row.proposed = None if proposed is None else algorithm_dump(proposed)
        row.forecast, row.problem, row.askers = {}, "", []
        for name, value in fields.items():
            setattr(row, name, value)
        row.save()
        return row


def store_need(target: Target, needed: Point | None, tenants: Mapping[str, Point], now: datetime) -> None:
    """What was measured, for every page that suggests a value (quotas.recommendations.suggestion)."""
    LimitNeed.objects.update_or_create(
        policy=target.policy,
        limit=target.limit,
        defaults={
            "tier": target.tier,
            "tenant": target.tenant,
            "endpoint": target.endpoint,
            "needed": point_json(needed) if needed else None,
            "tenants": {name: point_json(point) for name, point in tenants.items()},
            "measured_at": now,
        },
    )


def withdraw(target: Target, tenant: str, now: datetime, why: str = FITS) -> None:
    """Ends the open recommendation, unless somebody has decided on it or edited it."""
    with acting(author=AUTHOR, action="calibrate"), transaction.atomic():
        row = _open(target, tenant)
        if row is not None and row.stage in UNDECIDED and not row.is_edited:
            row.stage, row.ended_at, row.problem = Stage.SUPERSEDED, now, why
            row.save()


def withdraw_overrides(target: Target, kept: Collection[str], now: datetime) -> None:
    """Ends those for tenants that no longer need one, or have one."""
    rows = Recommendation.objects.filter(policy=target.policy, limit=target.limit, kind=Kind.OVERRIDE)
    for tenant in rows.filter(stage__in=UNDECIDED).exclude(tenant__in=kept).values_list("tenant", flat=True):
        withdraw(target, tenant, now, "its own limit fits what was measured since")


def _open(target: Target, tenant: str) -> Recommendation | None:
    rows = Recommendation.objects.select_for_update().filter(policy=target.policy, limit=target.limit, tenant=tenant)
    return rows.filter(stage__in=OPEN).first()


def _was_dismissed(target: Target, tenant: str, proposed: Algorithm, now: datetime, parameters: Parameters) -> bool:
    rows = Recommendation.objects.filter(policy=target.policy, limit=target.limit, tenant=tenant)
    last = rows.filter(stage=Stage.DISMISSED, ended_at__gt=now - timedelta(days=QUIET_DAYS)).first()
    if last is None or last.proposed is None:
        return False
    before, after = point_of(algorithm_load(last.proposed)).rate, point_of(proposed).rate
    return abs(after - before) < parameters.small_change * before
