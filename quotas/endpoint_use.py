"""What counts on an endpoint: its limits, its overrides, and its traffic of the last week and of today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count

from quotas.endpoints import running_overrides
from quotas.models import Endpoint, Override, Policy
from quotas.models.usage import UsageDay, floored
from quotas.usage.queries.grouped_usage import UsageQuery, usage_query

DAYS: Final = 7
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class EndpointUse:
    policies: Sequence[Policy]  # with the number of their limits as `limit_count`
    overrides: Sequence[Override]
    asked: int  # requests of the last days (UTC) and of today
    denied: int
    tenants: int  # that sent them
    busiest: str

    @property
    def is_limited(self) -> bool:
        return bool(self.policies or self.overrides)

    @property
    def limits(self) -> int:
        return sum(getattr(policy, "limit_count", 0) for policy in self.policies)


def endpoint_use(row: Endpoint, now: datetime) -> EndpointUse:
    """As many queries for any number of tenants, and at any time of the day: whole days are read from one rollup."""
    today = floored(now, UsageDay.step)
    policies = row.policies.select_related("tier", "tenant", "endpoint").annotate(limit_count=Count("limits"))
    begin, end = today - DAYS * UsageDay.step, today + UsageDay.step
    asked = UsageQuery(begin, end, group=("tenant",), endpoints=[row.name], most=100_000)
    rows = usage_query(asked, now).rows
    return EndpointUse(
        list(policies.order_by("name")),
        list(running_overrides([row]).order_by("tenant__name")),
        sum(one.allowed + one.denied for one in rows),
        sum(one.denied for one in rows),
        sum(one.allowed + one.denied > 0 for one in rows),
        rows[0].group["tenant"] if rows else "",
    )
