"""Totals over tiers, over all tenants, and over a tenant's endpoints, so that no page has to sum over tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.db import models

from quotas.models.usage import Rollup, UsageDay, UsageHour, UsageMinute, UsageStep


class Tally(models.Model):
    """All requests ever counted, by endpoint and outcome: the counter behind `headroom_checks_total`."""

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
    """Usage of a tier on an endpoint, as quotas.usage.tier_usage measured it. Everything is referred to by number."""

    pk = models.CompositePrimaryKey("tier_number", "endpoint_number")
    tier_number = models.IntegerField()
    endpoint_number = models.IntegerField()  # or quotas.models.usage_rates.EVERY_ENDPOINT
    # Over the last 24 hours:
    measured_at = models.DateTimeField()
    tenants = models.IntegerField()  # with requests
    asked = models.BigIntegerField()  # requests of all of them
    denied = models.BigIntegerField()
    denied_by = models.JSONField(default=dict)  # limit number → requests that it refused
    busiest = models.IntegerField()  # the tenant with the busiest minute
    # The fields of quotas.usage.queries.utilisation.PeakDemand, each the highest of any tenant.
    peaks = models.JSONField()
    calendar = models.JSONField(default=dict)  # limit number → the most that one tenant has used of it
    # In the row over all endpoints: the number of tenants at 80 % of any limit or above, and those closest to one.
    near = models.IntegerField(default=0)
    nearest = models.JSONField(default=list)  # the fields of quotas.usage.queries.near_limits.NearLimit
    # Over the last 28 days: the tenants with the busiest minutes (quotas.usage.queries.busiest_tenants).
    leaders = models.JSONField(default=list)
    leaders_at = models.DateTimeField(null=True)
    leaders_tenants = models.IntegerField(default=0)  # including those not listed
    leaders_asked = models.BigIntegerField(default=0)

    class Meta:
        db_table = "quotas_tier_use"

    def __str__(self) -> str:
        return f"use of endpoint {self.endpoint_number} by tier {self.tier_number} at {self.measured_at}"


# Values of `tenant_number` in totals; a tier has the number `tier_total_number` gives.
EVERYONE: Final = -1
NO_TIER: Final = -2  # tenants that are not registered


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


# Each tenant over all its endpoints: about twenty times fewer rows than by endpoint.
WHOLE: Final[Mapping[type[Rollup], type[Rollup]]] = {UsageHour: TenantHour, UsageDay: TenantDay}
TOTALS: Final[Mapping[type[Rollup], type[Rollup]]] = {
    UsageStep: TotalStep,
    UsageMinute: TotalMinute,
    UsageHour: TotalHour,
    UsageDay: TotalDay,
}
