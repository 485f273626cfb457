"""What the tenants of a tier asked of an endpoint, measured by a job, so that pages need not add up over tenants."""

from __future__ import annotations

from django.db import models


class TierUse(models.Model):
    """One row a tier and endpoint. Peaks are those of whoever came highest; tenants, endpoints and tiers by number."""

    pk = models.CompositePrimaryKey("tier_number", "endpoint_number")
    tier_number = models.IntegerField()
    endpoint_number = models.IntegerField()  # or quotas.models.rates.EVERY_ENDPOINT
    # Of the last 24 hours.
    measured_at = models.DateTimeField()
    tenants = models.IntegerField()  # that asked for something
    asked = models.BigIntegerField()  # requests of all of them
    denied = models.BigIntegerField()
    denied_by = models.JSONField(default=dict)  # limit number → requests that it refused
    busiest = models.IntegerField()  # the tenant with the highest minute
    peaks = models.JSONField()  # the fields of quotas.selectors.utilisation.Demand, each the highest of any tenant
    calendar = models.JSONField(default=dict)  # limit number → the most that one tenant has used of it
    # Of all endpoints together: tenants at 80 % of any of their limits or above, and those nearest to one.
    near = models.IntegerField(default=0)
    nearest = models.JSONField(default=list)  # the fields of quotas.selectors.nearness.Near
    # Of the last 28 days.
    leaders = models.JSONField(default=list)  # the tenants with the highest minutes (quotas.selectors.leaders)
    leaders_at = models.DateTimeField(null=True)
    leaders_tenants = models.IntegerField(default=0)  # those that are not listed too
    leaders_asked = models.BigIntegerField(default=0)

    class Meta:
        db_table = "quotas_tier_use"

    def __str__(self) -> str:
        return f"use of endpoint {self.endpoint_number} by tier {self.tier_number} at {self.measured_at}"
