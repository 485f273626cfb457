"""The live values of limits that adapt, over time."""

from __future__ import annotations

from typing import Final

from django.db import models

from tenants.history import tracked

RATE: Final = "rate"
CONCURRENCY: Final = "concurrency"


class AdaptiveReading(models.Model):
    """A limit at one moment. Rows outlive the limit for a while, so they name it instead of referring to it."""

    at = models.DateTimeField()
    kind = models.CharField(max_length=12, help_text="rate: values in 1/1000 of the limit; concurrency: requests")
    policy = models.CharField(max_length=63)
    limit_name = models.CharField(max_length=63)
    endpoint_number = models.IntegerField(help_text="0: every endpoint")
    tenant_number = models.BigIntegerField(help_text="whose counter it is; 0: all together")
    value = models.IntegerField()
    least = models.IntegerField()
    most = models.IntegerField()
    reason = models.CharField(max_length=200)

    class Meta:
        indexes = [
            models.Index(fields=["policy", "limit_name", "tenant_number", "-at"], name="adaptive_reading_limit"),
            models.Index(fields=["at"], name="adaptive_reading_at"),
        ]

    def __str__(self) -> str:
        return f"{self.limit_name} of {self.policy}: {self.value} at {self.at:%Y-%m-%d %H:%M:%S}"

    @property
    def is_at_floor(self) -> bool:
        return self.value <= self.least < self.most


@tracked()
class EndpointTarget(models.Model):
    """What adaptive limits with a calibrated target take for the latency of an endpoint."""

    endpoint = models.OneToOneField(
        "quotas.Endpoint",
        on_delete=models.PROTECT,
        primary_key=True,
        related_name="target",
        db_column="endpoint_number",
    )
    target_us = models.BigIntegerField()
    measured_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(target_us__gt=0), name="endpoint_target_us")]

    def __str__(self) -> str:
        return f"{self.target_us:,} µs for {self.endpoint_id}"
