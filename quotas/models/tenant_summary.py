"""What the list of tenants is sorted and searched by. Postgres adds the two rows of a new tenant (migration 0024)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db import models

from quotas.models.usage import BEGINNING
from tenants.models import Tenant

NOT_MEASURED: Final = -1.0


class TenantSummary(models.Model):
    """Figures of a tenant, as quotas.tenant_summary measured them. Nothing is null, so that every column sorts."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, primary_key=True, related_name="summary")
    # Over the last 24 hours:
    asked = models.BigIntegerField(db_default=0)
    denied = models.BigIntegerField(db_default=0)
    share = models.FloatField(db_default=0.0)  # denied ÷ asked
    # The limit that it came closest to, and how close: 1 is the whole limit. NOT_MEASURED: no requests, or no limit.
    use = models.FloatField(db_default=NOT_MEASURED)
    use_scope = models.CharField(max_length=128, db_default="")
    use_limit = models.CharField(max_length=63, db_default="")
    # To the minute while they are fresh, to the hour or day if older. BEGINNING: never.
    last_at = models.DateTimeField(db_default=BEGINNING)
    denied_at = models.DateTimeField(db_default=BEGINNING)

    class Meta:
        db_table = "quotas_tenant_summary"
        indexes = [
            *(
                models.Index(fields=[name, "tenant"], name=f"tenant_summary_{name}")
                for name in ("asked", "denied", "share", "use", "last_at")
            ),
            models.Index(fields=["denied_at"], name="tenant_summary_denied_at"),
        ]

    def __str__(self) -> str:
        return f"summary of tenant {self.tenant_id}"

    @property
    def tightest(self) -> float | None:
        return None if self.use < 0 else self.use

    @property
    def last_request(self) -> datetime | None:
        return None if self.last_at <= BEGINNING else self.last_at


class TenantSearch(models.Model):
    """Name, label, tags and contacts of a tenant in small letters, one a line.

    Apart from the summary, which changes every minute: the index of three letters is expensive to write.
    """

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, primary_key=True, related_name="search")
    text = models.TextField(db_default="")

    class Meta:
        db_table = "quotas_tenant_search"

    def __str__(self) -> str:
        return f"search text of tenant {self.tenant_id}"


class TenantSummaryRun(models.Model):
    """When the summary was measured last; one row."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    measured_at = models.DateTimeField()
    history_at = models.DateTimeField(null=True)  # when the days before the last one were read
    tags = models.JSONField(default=list)  # in use, the most frequent first

    class Meta:
        db_table = "quotas_tenant_summary_run"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_tenant_summary_run")]

    def __str__(self) -> str:
        return f"tenants measured {self.measured_at:%Y-%m-%d %H:%M:%S}"
