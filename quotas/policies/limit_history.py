"""What a limit was over time, for charts: one step for each change of its parameters, by edit or by override."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q

from headroom_edge.algorithms.base import Algorithm
from quotas import models
from quotas.policies.configuration import published_clock
from quotas.policies.limit_codec import generations_load, revisions_in, row_limit
from quotas.policies.spec import EPOCH, MICROSECOND, Limit


@dataclass(frozen=True, slots=True)
class LimitStep:
    algorithm: Algorithm
    since: datetime
    until: datetime | None = None  # None: it still holds

    def within(self, begin: datetime, end: datetime) -> tuple[datetime, datetime] | None:
        """The part of the step in that time; None: there is none."""
        start, stop = max(self.since, begin), min(self.until or end, end)
        return (start, stop) if start < stop else None

    def holds_at(self, at: datetime) -> bool:
        return self.since <= at and (self.until is None or at < self.until)


def limit_steps(limit: Limit) -> list[LimitStep]:
    """Oldest first. What came before the first step is not known, or there was no such limit."""
    known = sorted([(limit.since_us, limit.algorithm), *((g.since_us, g.algorithm) for g in limit.past)], key=_since)
    starts = [EPOCH + since_us * MICROSECOND for since_us, _ in known]
    ends = [*starts[1:], None]
    return [
        LimitStep(algorithm, start, end)
        for (_, algorithm), start, end in zip(known, starts, ends, strict=True)
        if start != end
    ]


def limits_for_everyone(endpoint: str) -> list[tuple[str, Limit]]:
    """Limits that count all tenants together on the endpoint or its service, with their past; each after its scope."""
    place = Q(policy__endpoint__name=endpoint) | Q(policy__service=endpoint.partition(":")[0])
    rows = models.Limit.objects.filter(place, policy__tier=None, policy__tenant=None)
    found = list(rows.select_related("name", "policy__endpoint").order_by("policy__service", "name__name"))
    clock = published_clock({n for row in found for n in (row.changed_revision_id, *revisions_in(row.past))})
    return [
        (
            row.policy.scope,
            replace(
                row_limit(row.name.name, row),
                since_us=clock(row.changed_revision_id),
                past=generations_load(row.past, clock),
            ),
        )
        for row in found
    ]


def _since(known: tuple[int, Algorithm]) -> int:
    return known[0]
