"""How much API keys are used, as gateways, SDKs and the REST API report it."""

from __future__ import annotations

from django.db import models


class KeyUse(models.Model):
    """The uses of one API key or token on one day (UTC). Rows outlive the key, so they name it by its id."""

    pk = models.CompositePrimaryKey("key_id", "day")
    key_id = models.CharField(max_length=32)
    day = models.DateField()
    tenant_number = models.IntegerField(help_text="0: a token of no tenant")
    requests = models.BigIntegerField(help_text="made with it, allowed or not")
    last_used = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.requests} × {self.key_id} on {self.day}"
