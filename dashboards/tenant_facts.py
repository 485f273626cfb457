"""What is known of one tenant: its limits, what it asks for, what it has used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboards.limits import Line, sorted_lines
from quotas.models import Endpoint, LimitName
from quotas.policy.spec import EVERYWHERE
from quotas.selectors.explanation import Standing, standing
from quotas.selectors.utilisation import counters_read, demands_read, use_of
from tenants.models import Tenant

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the parts of the page are made of."""

    tenant: Tenant
    now: datetime
    standing: Standing
    lines: Sequence[Line]
    numbers: dict[str, int]  # of endpoints
    counters: dict[tuple[str, str], int]


def facts_of(row: Tenant, now: datetime) -> Facts:
    numbers = dict(Endpoint.objects.filter(retired=False).values_list("name", "number"))
    names = dict(LimitName.objects.values_list("number", "name"))
    found = standing(tenant=row.name)
    demands = demands_read(row.number, now - DAY, now)
    counters = counters_read(row.number, names, now)
    lines = sorted_lines(Line(each, use_of(each.effective, demands, numbers, counters)) for each in found.limits)
    return Facts(row, now, found, lines, numbers, counters)


def counted_endpoints(line: Line, facts: Facts) -> list[int]:
    """Of which endpoints the limit counts the traffic; none: of all."""
    if line.scope != EVERYWHERE:
        return [facts.numbers.get(line.scope, 0)]
    apart = {each.scope for each in facts.lines if each.limit.name == line.limit.name and each.scope != EVERYWHERE}
    return [number for name, number in facts.numbers.items() if name not in apart] + [0] if apart else []
