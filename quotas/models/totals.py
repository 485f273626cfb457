"""Rollups over all tenants together, and over those of each tier, so that no page adds up over tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quotas.models.usage import Rollup, UsageDay, UsageHour, UsageMinute, UsageStep

# As the tenant's number.
EVERYONE: Final = -1
NO_TIER: Final = -2  # of tenants that nobody knows


def of_tier(number: int) -> int:
    return NO_TIER - number


class TotalStep(Rollup):
    step, slice, keep = UsageStep.step, UsageStep.slice, UsageStep.keep

    class Meta:
        db_table = "quotas_total_10s"


class TotalMinute(Rollup):
    step, slice, keep = UsageMinute.step, UsageMinute.slice, UsageMinute.keep

    class Meta:
        db_table = "quotas_total_1m"


class TotalHour(Rollup):
    step, slice, keep = UsageHour.step, UsageHour.slice, UsageHour.keep

    class Meta:
        db_table = "quotas_total_1h"


class TotalDay(Rollup):
    step, slice, keep = UsageDay.step, UsageDay.slice, UsageDay.keep

    class Meta:
        db_table = "quotas_total_1d"


class TenantHour(Rollup):
    step, slice, keep = UsageHour.step, UsageHour.slice, UsageHour.keep

    class Meta:
        db_table = "quotas_tenant_1h"


class TenantDay(Rollup):
    step, slice, keep = UsageDay.step, UsageDay.slice, UsageDay.keep

    class Meta:
        db_table = "quotas_tenant_1d"


# Of each tenant over all its endpoints: twenty times fewer rows than by endpoint.
WHOLE: Final[Mapping[type[Rollup], type[Rollup]]] = {UsageHour: TenantHour, UsageDay: TenantDay}
TOTALS: Final[Mapping[type[Rollup], type[Rollup]]] = {
    UsageStep: TotalStep,
    UsageMinute: TotalMinute,
    UsageHour: TotalHour,
    UsageDay: TotalDay,
}
