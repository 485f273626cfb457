"""Who asked for anything, by how much."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Sum

from quotas.models import UsageDay


def askers_read(begin: datetime, end: datetime) -> list[int]:
    """Numbers of the tenants, the busiest first; 0, which is nobody, left out."""
    rows = UsageDay.objects.filter(start__gte=begin - UsageDay.step, start__lt=end, tenant_number__gt=0)
    sums = rows.order_by().values_list("tenant_number").annotate(asked=Sum("count"))
    return [number for number, _ in sorted(sums, key=lambda pair: (-pair[1], pair[0]))]
