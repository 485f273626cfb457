"""Recommendations with their evidence, the parameters of calibration, and long-running tasks with their progress.

A recommendation has the names of policies, limits, tiers and tenants, not foreign keys, because it outlives the
limit it is about.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.constraints import json_is, one_of
from tenants.history import tracked


class Stage(models.TextChoices):
    INSUFFICIENT = "insufficient"  # too little data; `ready_at`: when there will be enough, if days are what is missing
    DRAFT = "draft"
    SIMULATED = "simulated"  # it has a forecast
    APPROVED = "approved"  # its shadow starts as soon as its policy is free
    SHADOW = "shadow"  # checked beside the live limit
    ENFORCED = "enforced"
    EVALUATED = "evaluated"  # the effect matched the forecast
    ROLLED_BACK = "rolled_back"
    DISMISSED = "dismissed"
    SUPERSEDED = "superseded"  # replaced by newer data before a decision


OPEN = (Stage.INSUFFICIENT, Stage.DRAFT, Stage.SIMULATED, Stage.APPROVED, Stage.SHADOW, Stage.ENFORCED)
UNDECIDED = (Stage.INSUFFICIENT, Stage.DRAFT, Stage.SIMULATED)
OVER = (Stage.EVALUATED, Stage.ROLLED_BACK, Stage.DISMISSED, Stage.SUPERSEDED)


class Kind(models.TextChoices):
    TIER = "tier"  # the limit of a tier's policy
    TENANT = "tenant"  # the limit of a tenant's own policy
    OVERRIDE = "override"  # for one tenant above its tier


class Trust(models.TextChoices):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@tracked(exclude=["evidence", "forecast", "base"])
class Recommendation(models.Model):
    kind = models.CharField(max_length=8, choices=Kind.choices)
    stage = models.CharField(max_length=12, choices=Stage.choices, default=Stage.DRAFT)
    policy = models.CharField(max_length=63)
    limit = models.CharField(max_length=80)
    tier = models.CharField(max_length=63, blank=True, default="")
    tenant = models.CharField(max_length=63, blank=True, default="")
    endpoint = models.CharField(max_length=128, help_text="or `*`")
    current = models.JSONField(help_text="algorithm and parameters that hold")
    proposed = models.JSONField(null=True, blank=True, help_text="algorithm and parameters; null: too little is known")
    editor = models.CharField(
        max_length=150, blank=True, default="", help_text="who wrote `proposed`; empty: it is what was measured"
    )
    editor_identity = models.CharField(
        max_length=80, blank=True, default="", db_default="", help_text="see tenants.identity"
    )
    askers = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        help_text="who shaped what was measured, each with `author` and `identity`; empty: nobody but the job",
    )
    summary = models.CharField(max_length=300, blank=True, default="", help_text="in one sentence")
    evidence = models.JSONField(default=dict, blank=True)
    forecast = models.JSONField(default=dict, blank=True)
    base = models.JSONField(
        default=dict, db_default={}, blank=True, help_text="the configuration that it was measured under"
    )
    observed = models.JSONField(default=dict, blank=True, help_text="what shadow or enforcement has shown so far")
    trust = models.CharField(max_length=6, choices=Trust.choices, default=Trust.LOW)
    binds = models.CharField(max_length=8, default="demand", help_text="demand or capacity")
    ready_at = models.DateTimeField(null=True, blank=True, help_text="when there will be enough data")
    problem = models.CharField(max_length=500, blank=True, default="", help_text="why it does not go on")
    change = models.ForeignKey("quotas.Change", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    decider = models.CharField(max_length=150, blank=True, default="", help_text="who approved or dismissed it last")
    decider_identity = models.CharField(
        max_length=80, blank=True, default="", db_default="", help_text="see tenants.identity"
    )
    reason = models.CharField(max_length=500, blank=True, default="")
    created = models.DateTimeField(db_default=Now(), editable=False)
    measured_at = models.DateTimeField(help_text="the end of the data that it rests on")
    decided_at = models.DateTimeField(null=True, blank=True)
    shadow_at = models.DateTimeField(null=True, blank=True)
    enforced_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    stale_reason = ""  # not stored: quotas.recommendations.staleness.marked() compares it with what holds now

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["stage", "-id"], name="recommendation_stage")]
        constraints = [
            one_of("kind", tuple(Kind.values), "recommendation_kind"),
            one_of("stage", tuple(Stage.values), "recommendation_stage_known"),
            one_of("trust", tuple(Trust.values), "recommendation_trust"),
            one_of("binds", ("demand", "capacity"), "recommendation_binds"),
            json_is("current", "object", "recommendation_current"),
            json_is("proposed", "object", "recommendation_proposed"),
            json_is("evidence", "object", "recommendation_evidence"),
            json_is("askers", "array", "recommendation_askers"),
            models.UniqueConstraint(
                fields=["policy", "limit", "tenant"], condition=Q(stage__in=OPEN), name="recommendation_open_once"
            ),
            models.CheckConstraint(
                condition=Q(stage__in=["insufficient", "superseded"]) | Q(proposed__isnull=False),
                name="recommendation_proposes",
            ),
            models.CheckConstraint(
                condition=~Q(stage__in=["dismissed", "rolled_back"]) | ~Q(decider="") & ~Q(reason=""),
                name="recommendation_end_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"recommendation {self.pk}"

    @property
    def is_over(self) -> bool:
        return self.stage in OVER

    @property
    def is_edited(self) -> bool:
        return bool(self.editor)

    @property
    def is_stale(self) -> bool:
        return bool(self.stale_reason)


class LimitNeed(models.Model):
    """What the last calibration measured for a limit, whether it proposed a change or not.

    Every page that suggests a value reads it here, so that all suggest the same one.
    """

    policy = models.CharField(max_length=63)
    limit = models.CharField(max_length=80)
    tier = models.CharField(max_length=63, blank=True, default="")
    tenant = models.CharField(max_length=63, blank=True, default="")
    endpoint = models.CharField(max_length=128, help_text="or `*`")
    needed = models.JSONField(null=True, blank=True, help_text="rate and burst of each tenant; null: too little data")
    tenants = models.JSONField(default=dict, blank=True, help_text="tenant → rate and burst that it needs itself")
    measured_at = models.DateTimeField(help_text="the end of the data that it rests on")

    class Meta:
        ordering = ["policy", "limit"]
        constraints = [
            models.UniqueConstraint(fields=["policy", "limit"], name="limit_need_once"),
            json_is("needed", "object", "limit_need_needed"),
            json_is("tenants", "object", "limit_need_tenants"),
        ]

    def __str__(self) -> str:
        return f"{self.limit} of {self.policy}"


@tracked()
class CalibrationSetting(models.Model):
    """A parameter of calibration that differs from its default."""

    name = models.CharField(max_length=40, primary_key=True)
    value = models.FloatField()
    author = models.CharField(max_length=150, blank=True, default="", db_default="", help_text="who chose the value")
    author_identity = models.CharField(
        max_length=80, blank=True, default="", db_default="", help_text="see tenants.identity"
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} = {self.value:g}"


class Task(models.Model):
    """A long-running task: its progress and its result."""

    class Kind(models.TextChoices):
        WHAT_IF = "whatif"
        CALIBRATE = "calibrate"
        DOCUMENT = "document"
        SHARES = "shares"

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    kind = models.CharField(max_length=12, choices=Kind.choices)
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    author = models.CharField(max_length=150)
    asked = models.JSONField(default=dict, help_text="what it was asked to do")
    percent = models.SmallIntegerField(default=0)
    doing = models.CharField(max_length=60, blank=True, default="", help_text="in a word: replaying")
    result = models.JSONField(null=True, blank=True)
    problem = models.CharField(max_length=500, blank=True, default="", help_text="why it failed, and what to change")
    created = models.DateTimeField(db_default=Now(), editable=False)
    changed = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["kind", "-id"], name="task_kind")]
        constraints = [
            one_of("kind", ("whatif", "calibrate", "document", "shares"), "task_kind_known"),
            one_of("state", ("waiting", "running", "done", "failed"), "task_state"),
            models.CheckConstraint(condition=Q(percent__gte=0, percent__lte=100), name="task_percent"),
            models.CheckConstraint(condition=~Q(author=""), name="task_author"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"

    @property
    def is_over(self) -> bool:
        return self.state in (self.State.DONE, self.State.FAILED)
