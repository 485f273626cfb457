"""Rollups over all tenants together and over tiers, and counters for metrics: no page adds up over tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.db import models

from quotas.models.usage import Rollup, UsageDay, UsageHour, UsageMinute, UsageStep


class Tally(models.Model):
    pk = models.CompositePrimaryKey("endpoint_number", "outcome")
    endpoint_number = models.IntegerField()
    outcome = models.CharField(max_length=1)  # an Outcome
    count = models.BigIntegerField()
    cost = models.BigIntegerField()

    class Meta:
        db_table = "quotas_tally"

    def __str__(self) -> str:
        return f"{self.count} × {self.outcome} of endpoint {self.endpoint_number}"


class TierUse(models.Model):
    """One row a tier and endpoint. Peaks are those of whoever came highest; tenants, endpoints and tiers by number."""

    pk = models.CompositePrimaryKey("tier_number", "endpoint_number")
    tier_number = models.IntegerField()
    endpoint_number = models.IntegerField()  # or quotas.models.usage_rates.EVERY_ENDPOINT
    # Of the last 24 hours.
    measured_at = models.DateTimeField()
    tenants = models.IntegerField()  # that asked for something
    asked = models.BigIntegerField()  # requests of all of them
    denied = models.BigIntegerField()
    denied_by = models.JSONField(default=dict)  # limit number → requests that it refused
    busiest = models.IntegerField()  # the tenant with the highest minute
    # The fields of quotas.usage.queries.utilisation.PeakDemand, each the highest of any tenant.
    peaks = models.JSONField()
    calendar = models.JSONField(default=dict)  # limit number → the most that one tenant has used of it
    # Of all endpoints together: tenants at 80 % of any of their limits or above, and those nearest to one.
    near = models.IntegerField(default=0)
    nearest = models.JSONField(default=list)  # the fields of quotas.usage.queries.near_limits.NearLimit
    # Of the last 28 days.
    # The tenants with the highest minutes, as quotas.usage.queries.busiest_tenants reads them.
    leaders = models.JSONField(default=list)
    leaders_at = models.DateTimeField(null=True)
    leaders_tenants = models.IntegerField(default=0)  # those that are not listed too
    leaders_asked = models.BigIntegerField(default=0)

    class Meta:
        db_table = "quotas_tier_use"

    def __str__(self) -> str:
        return f"use of endpoint {self.endpoint_number} by tier {self.tier_number} at {self.measured_at}"


# As the tenant's number.
EVERYONE: Final = -1
NO_TIER: Final = -2  # of tenants that nobody knows


def tier_total_number(number: int) -> int:
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
