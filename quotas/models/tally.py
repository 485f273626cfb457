"""All checks that were ever drained, by endpoint and outcome: counters that only go up, for metrics."""

from __future__ import annotations

from django.db import models


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
