"""The numbered history of the configuration, and what waits to be published."""

from __future__ import annotations

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Max, Q
from django.db.models.functions import Now

from tenants.constraints import json_is


class Revision(models.Model):
    """One change of the configuration: who, why, and the state of every touched object before and after.

    Numbers have no gaps: they are given under the lock that orders revisions. A trigger refuses every
    update of a row except the first stamp of `published_us`.
    """

    number = models.BigIntegerField(primary_key=True)
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    action = models.CharField(max_length=40, help_text="the service function: policy_update")
    created = models.DateTimeField(db_default=Now(), editable=False)
    # `policy:NAME`, `endpoint:NAME`, `override:ID`, `tenant:NAME`, `tier:NAME`
    touched = ArrayField(models.CharField(max_length=140))
    before = models.JSONField(help_text="touched object → its state, null: it was not there")
    after = models.JSONField()
    published_us = models.BigIntegerField(
        null=True, blank=True, help_text="Redis time of the first publish, microseconds"
    )

    class Meta:
        ordering = ["-number"]
        indexes = [GinIndex(fields=["touched"], name="revision_touched")]
        constraints = [
            models.CheckConstraint(condition=Q(number__gt=0), name="revision_number"),
            models.CheckConstraint(condition=~Q(author="") & ~Q(reason=""), name="revision_author_and_reason"),
            models.CheckConstraint(condition=Q(touched__len__gt=0), name="revision_touches_something"),
            json_is("before", "object", "revision_before"),
            json_is("after", "object", "revision_after"),
            models.CheckConstraint(condition=Q(published_us=None) | Q(published_us__gt=0), name="revision_published"),
        ]

    def __str__(self) -> str:
        return f"revision {self.number}"


class Outbox(models.Model):
    """Work for the publisher, which deletes the rows it has published.

    `revision`: recompile `touched`, any of `tenant:NAME`, `tier:NAME` (its plain plan, and its tenants
    with limits of their own), `common` (endpoints or global limits changed) and `everything` (too much to
    list). `api_keys`: `touched` has the ids of keys that were issued or revoked.
    """

    class Kind(models.TextChoices):
        REVISION = "revision"
        API_KEYS = "api_keys"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    revision = models.ForeignKey(Revision, on_delete=models.PROTECT, null=True, blank=True, related_name="outbox")
    touched = ArrayField(models.CharField(max_length=140))
    created = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        verbose_name_plural = "outbox"
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="revision", revision__isnull=False) | Q(kind="api_keys", revision=None),
                name="outbox_kind",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {', '.join(self.touched)}"


class AuditEvent(models.Model):
    """An event that affected enforcement without a revision: a repaired shard, a bypass."""

    kind = models.CharField(max_length=40)
    detail = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [models.CheckConstraint(condition=~Q(kind=""), name="audit_event_kind")]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return self.kind


def newest_revision_number() -> int:
    """0: there is none. Numbers have no gaps, so this is also the count of revisions."""
    newest: int | None = Revision.objects.aggregate(newest=Max("number"))["newest"]
    return newest or 0


def revisions_stamp(now_us: int) -> int:
    """Stamps the revisions that are published for the first time. Returns how many there were.

    The publisher calls it inside `one_moment()`, before it loads what it publishes.
    """
    return Revision.objects.filter(published_us=None).update(published_us=now_us)
