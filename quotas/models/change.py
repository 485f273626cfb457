"""Changes before they are written: proposed, approved, tried out or scheduled; then promoted or dropped."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from quotas.models.revision import Revision
from quotas.policies.spec import CANARY_PARTS, CARRIES
from tenants.constraints import json_is, one_of
from tenants.history import tracked


class ChangeState(models.TextChoices):
    PENDING = "pending"
    SHADOW = "shadow"  # its limits are checked beside the live ones and deny nothing
    SCHEDULED = "scheduled"
    CANARY = "canary"  # a share of the tenants has it
    BLOCKED = "blocked"  # it was due, but what was approved could no longer be written
    PROMOTED = "promoted"
    DROPPED = "dropped"
    REVERTED = "reverted"  # promoted, and taken back later


ENDED = (ChangeState.PROMOTED, ChangeState.DROPPED, ChangeState.REVERTED)


TRIED = (ChangeState.SHADOW, ChangeState.CANARY)


class TrialEnd(models.TextChoices):
    """What happens at the planned end of a trial that stayed below its bars."""

    ASK = "ask"  # it goes on, and waits for a person
    PROMOTE = "promote"  # if it is approved and cuts nobody
    END = "end"  # it is dropped


@tracked()
class Change(models.Model):
    """A revision that is not written yet. Its content never changes; its state does."""

    action = models.CharField(max_length=40, help_text="the service function: policy_update")
    author = models.CharField(max_length=150)
    author_identity = models.CharField(
        max_length=80, blank=True, default="", db_default="", help_text="see tenants.identity"
    )
    reason = models.CharField(max_length=500)
    carry = models.CharField(max_length=12, default="keep")
    touched = ArrayField(models.CharField(max_length=140))
    before = models.JSONField(help_text="touched object → its state when this was filed")
    after = models.JSONField()
    impact = models.JSONField(default=dict, blank=True, help_text="whom it hurts, as last judged")
    state = models.CharField(max_length=10, choices=ChangeState.choices, default=ChangeState.PENDING)
    at = models.DateTimeField(null=True, blank=True, help_text="when it is due")
    share = models.IntegerField(null=True, blank=True, help_text="of the tenants that have it, in thousandths")
    force = models.BooleanField(default=False, help_text="the cuts in `impact` were accepted")
    grandfather = ArrayField(
        models.CharField(max_length=63), default=list, blank=True, help_text="tenants to leave as they are; *: all hurt"
    )
    grandfather_days = models.IntegerField(
        null=True, blank=True, help_text="how long those tenants are left as they are; null: without end"
    )
    accepted = ArrayField(
        models.CharField(max_length=63),
        default=list,
        db_default=[],
        blank=True,
        help_text="tenants whose cut below their peak was accepted; *: all of them",
    )
    bar_share = models.FloatField(
        default=0.01, db_default=0.01, help_text="of all requests in its trial, the most that it may deny"
    )
    bar_tenant = models.FloatField(
        default=0.05, db_default=0.05, help_text="of one tenant's requests, the most that it may deny"
    )
    trial_ends = models.DateTimeField(null=True, blank=True, help_text="the planned end of its trial")
    trial_then = models.CharField(
        max_length=8, choices=TrialEnd.choices, default=TrialEnd.ASK, db_default="ask", help_text="what happens then"
    )
    auto_stop = models.BooleanField(
        default=True, db_default=True, help_text="an hour above a bar ends its trial without asking"
    )
    staged = models.JSONField(null=True, blank=True, help_text="policy → its state while this stands in its shadow")
    starter = models.CharField(max_length=150, blank=True, default="", help_text="who started its present state")
    emergency = models.BooleanField(default=False, help_text="it waits for no approver")
    end_author = models.CharField(max_length=150, blank=True, default="", help_text="who promoted or dropped it")
    end_reason = models.CharField(max_length=500, blank=True, default="")
    problem = models.TextField(blank=True, default="", help_text="why it is blocked")
    created = models.DateTimeField(db_default=Now(), editable=False)
    start_revision = models.ForeignKey(Revision, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    end_revision = models.ForeignKey(Revision, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    revert_revision = models.ForeignKey(
        Revision, on_delete=models.PROTECT, null=True, blank=True, related_name="+", help_text="took a promotion back"
    )

    class Meta:
        ordering = ["-id"]
        indexes = [
            GinIndex(fields=["touched"], name="change_touched"),
            models.Index(fields=["at"], condition=Q(state="scheduled"), name="change_due"),
            models.Index(fields=["id"], condition=Q(state="canary"), name="change_canary"),
        ]
        constraints = [
            one_of("state", tuple(ChangeState.values), "change_state"),
            one_of("carry", CARRIES, "change_carry"),
            models.CheckConstraint(condition=~Q(author="") & ~Q(reason=""), name="change_author_and_reason"),
            models.CheckConstraint(condition=Q(touched__len__gt=0), name="change_touches_something"),
            json_is("before", "object", "change_before"),
            json_is("after", "object", "change_after"),
            json_is("staged", "object", "change_staged"),
            models.CheckConstraint(
                condition=~Q(state__in=["promoted", "dropped", "reverted"]) | ~Q(end_author="") & ~Q(end_reason=""),
                name="change_end_author_and_reason",
            ),
            one_of("trial_then", tuple(TrialEnd.values), "change_trial_then"),
            models.CheckConstraint(
                condition=Q(bar_share__gt=0, bar_share__lte=1, bar_tenant__gt=0, bar_tenant__lte=1),
                name="change_bars",
            ),
            models.CheckConstraint(
                condition=Q(grandfather_days=None) | Q(grandfather_days__gt=0), name="change_grandfather_days"
            ),
            models.CheckConstraint(
                condition=~Q(state="reverted") | Q(revert_revision__isnull=False), name="change_reverted_by"
            ),
            models.CheckConstraint(condition=~Q(state="scheduled") | Q(at__isnull=False), name="change_scheduled_at"),
            models.CheckConstraint(
                condition=Q(share=None) | Q(share__gt=0, share__lt=CANARY_PARTS), name="change_share_range"
            ),
            models.CheckConstraint(
                condition=~Q(state="canary") | Q(share__isnull=False, start_revision__isnull=False),
                name="change_canary_share",
            ),
        ]

    def __str__(self) -> str:
        return f"change {self.pk}"

    @property
    def policies(self) -> dict[str, Any]:
        """The policies after the change, by name. None: it is deleted."""
        prefix = "policy:"
        return {key.removeprefix(prefix): state for key, state in self.after.items() if key.startswith(prefix)}

    @property
    def tiers(self) -> list[str]:
        """Tiers whose policies it changes."""
        states = (side[f"policy:{name}"] for name in self.policies for side in (self.before, self.after))
        return sorted({state["tier"] for state in states if state and state["tier"]})

    @property
    def is_over(self) -> bool:
        return self.state in ENDED


@tracked()
class Approval(models.Model):
    """The consent of somebody other than the author."""

    change = models.ForeignKey(Change, on_delete=models.PROTECT, related_name="approvals")
    approver = models.CharField(max_length=150)
    approver_identity = models.CharField(
        max_length=80, blank=True, default="", db_default="", help_text="see tenants.identity"
    )
    reason = models.CharField(max_length=500)
    at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["change", "approver"], name="approval_once"),
            models.CheckConstraint(condition=~Q(approver="") & ~Q(reason=""), name="approval_approver_and_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.approver} on {self.change}"


def holding() -> Q:
    """Changes that lock their policies, because they are partly in effect."""
    return Q(state__in=[ChangeState.SHADOW, ChangeState.CANARY]) | Q(
        state__in=[ChangeState.SCHEDULED, ChangeState.BLOCKED], staged__isnull=False
    )
