"""Requests of tenants for more quota, and the answers."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.constraints import json_is, one_of
from tenants.history import tracked
from tenants.models import Tenant


class RequestAnswer(models.TextChoices):
    WAITING = "waiting"
    GRANTED = "granted"
    DECLINED = "declined"


@tracked()
class QuotaRequest(models.Model):
    """A tenant's user asks for more of one limit; an approver grants an override or declines with a reason."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="quota_requests")
    scope = models.CharField(max_length=128, help_text="`*` or an endpoint")
    limit = models.CharField(max_length=80)
    wanted = models.BigIntegerField(help_text="of the limit's rate or size, in its own unit")
    until = models.DateTimeField(null=True, blank=True, help_text="empty: for good")
    reason = models.CharField(max_length=500)
    usage = models.JSONField(default=dict, help_text="what was known of the demand when it was asked for")
    author = models.CharField(max_length=150)
    author_identity = models.CharField(
        max_length=80, blank=True, default="", db_default="", help_text="see tenants.identity"
    )
    created = models.DateTimeField(db_default=Now(), editable=False)
    answer = models.CharField(max_length=8, choices=RequestAnswer.choices, default=RequestAnswer.WAITING)
    answer_author = models.CharField(max_length=150, blank=True, default="")
    answer_reason = models.CharField(max_length=500, blank=True, default="")
    answered_at = models.DateTimeField(null=True, blank=True)
    override = models.ForeignKey("quotas.Override", on_delete=models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["tenant", "-id"], name="quota_request_of_tenant")]
        constraints = [
            one_of("answer", tuple(RequestAnswer.values), "quota_request_answer"),
            models.CheckConstraint(condition=Q(wanted__gt=0), name="quota_request_wanted"),
            models.CheckConstraint(condition=~Q(reason="") & ~Q(author=""), name="quota_request_reason_and_author"),
            json_is("usage", "object", "quota_request_usage"),
            models.UniqueConstraint(
                fields=["tenant", "scope", "limit"], condition=Q(answer="waiting"), name="quota_request_waits_once"
            ),
            models.CheckConstraint(
                condition=Q(answer="waiting")
                | ~Q(answer_author="") & ~Q(answer_reason="") & Q(answered_at__isnull=False),
                name="quota_request_answered_with_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"request {self.pk}"

    @property
    def is_waiting(self) -> bool:
        return self.answer == RequestAnswer.WAITING
