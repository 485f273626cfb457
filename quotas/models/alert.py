"""Alerts: changed settings, targets, the alerts that fire now, and the messages still to be sent."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.constraints import one_of
from tenants.history import tracked

DAY_MINUTES = 24 * 60


class TargetKind(models.TextChoices):
    WEBHOOK = "webhook"
    EMAIL = "email"


@tracked()
class AlertSetting(models.Model):
    """An alert whose setting differs from its default in quotas.alerts.rules."""

    name = models.CharField(max_length=40, primary_key=True)
    threshold = models.FloatField()
    is_on = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=Q(threshold__gt=0), name="alert_threshold")]

    def __str__(self) -> str:
        return f"{self.name} at {self.threshold:g}" if self.is_on else f"{self.name}, off"


# The secret is excluded from the history, although it is sealed: nobody needs it there.
@tracked(exclude=["secret"])
class AlertTarget(models.Model):
    """Where alerts are sent. In its quiet hours only critical ones are sent; the others follow afterwards."""

    kind = models.CharField(max_length=8, choices=TargetKind.choices)
    address = models.CharField(max_length=500, help_text="a URL, or an e-mail address")
    label = models.CharField(max_length=200, blank=True, default="")
    alerts = ArrayField(models.CharField(max_length=40), default=list, blank=True, help_text="names; empty: all")
    quiet_from = models.SmallIntegerField(null=True, blank=True, help_text="minute of the day in its time zone")
    quiet_until = models.SmallIntegerField(null=True, blank=True)
    timezone = models.CharField(max_length=64, default="UTC")
    secret = models.BinaryField(default=b"", help_text="sealed; signs what a webhook gets")
    is_on = models.BooleanField(default=True)
    created = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            one_of("kind", tuple(TargetKind.values), "alert_target_kind"),
            models.CheckConstraint(condition=~Q(address=""), name="alert_target_address"),
            models.CheckConstraint(
                condition=Q(quiet_from=None, quiet_until=None)
                # A null makes the comparison unknown, which a check constraint accepts.
                | Q(quiet_from__isnull=False, quiet_from__gte=0, quiet_from__lt=DAY_MINUTES)
                & Q(quiet_until__isnull=False, quiet_until__gte=0, quiet_until__lt=DAY_MINUTES),
                name="alert_target_quiet",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.label or self.hidden_address}"

    def wants(self, alert: str) -> bool:
        return not self.alerts or alert in self.alerts

    @property
    def hidden_address(self) -> str:
        """For those who may not edit it: a URL often contains a secret, and a mail address belongs to a person."""
        if self.kind == TargetKind.EMAIL:
            return f"…@{self.address.rpartition('@')[2]}"
        place = urlsplit(self.address)
        return f"{place.scheme}://{place.hostname}/…"


class AlertState(models.Model):
    """The state of an alert about one thing. The row stays for a while after the alert is resolved."""

    pk = models.CompositePrimaryKey("name", "about")
    name = models.CharField(max_length=40)
    about = models.CharField(max_length=200, help_text="what it is about: tenant acme, daily; empty: the platform")
    value = models.FloatField()
    text = models.CharField(max_length=300)
    since = models.DateTimeField()
    seen_at = models.DateTimeField()
    told_at = models.DateTimeField(null=True)  # None: the condition has not lasted long enough yet
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["since"], condition=Q(resolved_at=None), name="alert_firing")]

    def __str__(self) -> str:
        return f"{self.name} {self.about}".strip()


class AlertDelivery(models.Model):
    """One message to one target, until it is delivered or given up."""

    target = models.ForeignKey(AlertTarget, on_delete=models.PROTECT, related_name="deliveries")
    body = models.JSONField()
    created = models.DateTimeField(db_default=Now(), editable=False)
    due_at = models.DateTimeField()
    tries = models.IntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, blank=True, default="")
    is_given_up = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], condition=Q(sent_at=None, is_given_up=False), name="alert_delivery_due")
        ]

    def __str__(self) -> str:
        return f"message {self.pk} to {self.target}"
