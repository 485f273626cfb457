"""What is limited, and how. Written by the service functions only."""

from __future__ import annotations

from typing import get_args

from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.lookups import LessThanOrEqual

from headroom_edge.plan.priority import PRIORITIES
from quotas.models.revision import Revision
from quotas.policies.spec import (
    ALGORITHM_NAMES,
    CARRIES,
    ENDPOINT_PART,
    EVERYWHERE,
    LEASE_MS,
    METHODS,
    MOST_COST,
    PAST_GENERATIONS,
    Mode,
    OnFailure,
    Unit,
)
from tenants.constraints import json_is, named, one_of
from tenants.history import tracked
from tenants.models import WORD, Tenant, Tier

# A candidate counts separately from the limit it would replace, under its own number.
CANDIDATE_SUFFIX = "~candidate"
# An endpoint's number is written in three digits of base 36 (headroom_edge.keys).
ENDPOINT_NUMBERS = 36**3
# A limit's number has two bytes in a record's header.
LIMIT_NUMBERS = 2**16
MULTIPLIER_MAX = 1_000_000


@tracked()
class Endpoint(models.Model):
    """A named operation of a service. Keys and rollups contain its number, so it is retired, not deleted."""

    number = models.IntegerField(primary_key=True)
    name = models.CharField(max_length=128, unique=True)
    method = models.CharField(max_length=7, default="*")
    path = models.CharField(max_length=512, blank=True, default="", help_text="a template: /v1/rides/{id}")
    default_cost = models.BigIntegerField(default=1)
    hints = models.JSONField(default=dict, blank=True)
    priority = models.CharField(max_length=9, default="normal", db_default="normal", help_text="what a pool sheds last")
    retired = models.BooleanField(default=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            named(f"{ENDPOINT_PART}:{ENDPOINT_PART}", "endpoint_name"),
            models.CheckConstraint(condition=Q(number__gt=0, number__lt=ENDPOINT_NUMBERS), name="endpoint_number"),
            models.CheckConstraint(
                condition=Q(default_cost__gte=1, default_cost__lte=MOST_COST), name="endpoint_default_cost"
            ),
            one_of("method", METHODS, "endpoint_method"),
            one_of("priority", PRIORITIES, "endpoint_priority"),
            json_is("hints", "object", "endpoint_hints"),
            models.CheckConstraint(condition=Q(path="") | Q(path__startswith="/"), name="endpoint_path"),
            models.UniqueConstraint(
                fields=["method", "path"], condition=Q(retired=False) & ~Q(path=""), name="endpoint_route"
            ),
        ]

    def __str__(self) -> str:
        return self.name


@tracked()
class Policy(models.Model):
    """Limits of a tier, a tenant or everyone (neither), on an endpoint, a service (everyone only) or `*`."""

    name = models.CharField(max_length=63, unique=True)
    tier = models.ForeignKey(Tier, on_delete=models.PROTECT, null=True, blank=True, related_name="policies")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, blank=True, related_name="policies")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, null=True, blank=True, related_name="policies")
    service = models.CharField(max_length=126, blank=True, default="")

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "policies"
        constraints = [
            named(WORD, "policy_name"),
            models.CheckConstraint(condition=Q(tier=None) | Q(tenant=None), name="policy_tier_or_tenant"),
            models.CheckConstraint(condition=Q(endpoint=None) | Q(service=""), name="policy_endpoint_or_service"),
            models.CheckConstraint(
                condition=Q(service="") | Q(tier=None, tenant=None), name="policy_service_is_global"
            ),
            named(f"{ENDPOINT_PART}|", "policy_service", "service"),
            models.UniqueConstraint(
                fields=["tier", "tenant", "endpoint", "service"], nulls_distinct=False, name="policy_attached_once"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def scope(self) -> str:
        """As in a policy document: an endpoint's name, `service:*` or `*`."""
        if self.endpoint is not None:
            return self.endpoint.name
        return f"{self.service}:{EVERYWHERE}" if self.service else EVERYWHERE


@tracked()
class LimitName(models.Model):
    """The number of a limit's name. Records and rollups contain it, so it never changes."""

    number = models.IntegerField(primary_key=True)
    name = models.CharField(max_length=80, unique=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            named(f"{WORD}({CANDIDATE_SUFFIX})?", "limit_name"),
            models.CheckConstraint(condition=Q(number__gt=0, number__lt=LIMIT_NUMBERS), name="limit_name_number"),
        ]

    def __str__(self) -> str:
        return self.name


@tracked()
class Limit(models.Model):
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="limits")
    name = models.ForeignKey(LimitName, on_delete=models.PROTECT, related_name="limits")
    algorithm = models.CharField(max_length=32)
    parameters = models.JSONField(help_text="as the algorithm's describe() gives them")
    subject = models.CharField(max_length=200, default="tenant")
    unit = models.CharField(max_length=8, default="requests")
    mode = models.CharField(max_length=8, default="enforce")
    on_failure = models.CharField(max_length=8, default="open")
    lease_ms = models.SmallIntegerField(null=True, blank=True, help_text="the longest lease; 0: never; null: 100 ms")
    adapt = models.JSONField(null=True, blank=True, help_text="how it follows the health of its endpoint")
    changed_revision = models.ForeignKey(
        Revision, on_delete=models.PROTECT, related_name="+", help_text="gave it its present parameters"
    )
    carry = models.CharField(max_length=12, default="keep")
    # Earlier parameters, newest first, as quotas.policies.limit_codec writes them.
    past = models.JSONField(default=list, blank=True)
    candidate = models.JSONField(null=True, blank=True, help_text="algorithm and parameters under trial")
    adopts_candidate = models.BooleanField(default=False, help_text="its parameters were its candidate's")

    class Meta:
        ordering = ["policy", "name"]
        constraints = [
            models.UniqueConstraint(fields=["policy", "name"], name="limit_once_per_policy"),
            one_of("algorithm", ALGORITHM_NAMES, "limit_algorithm"),
            one_of("unit", get_args(Unit), "limit_unit"),
            one_of("mode", get_args(Mode), "limit_mode"),
            one_of("on_failure", get_args(OnFailure), "limit_on_failure"),
            models.CheckConstraint(
                condition=Q(lease_ms=None) | Q(lease_ms=0) | Q(lease_ms__range=LEASE_MS), name="limit_lease"
            ),
            one_of("carry", CARRIES, "limit_carry"),
            models.CheckConstraint(condition=~Q(subject=""), name="limit_subject"),
            json_is("parameters", "object", "limit_parameters"),
            json_is("candidate", "object", "limit_candidate"),
            json_is("adapt", "object", "limit_adapt"),
            json_is("past", "array", "limit_past"),
            models.CheckConstraint(
                condition=LessThanOrEqual(
                    Func(F("past"), function="jsonb_array_length", output_field=models.IntegerField()),
                    Value(PAST_GENERATIONS),
                ),
                name="limit_past_length",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.policy}: {self.name}"


@tracked()
class Override(models.Model):
    """A change for one tenant with a start and an end; `endpoint` null is `*`."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="overrides")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, null=True, blank=True, related_name="overrides")
    start = models.DateTimeField()
    end = models.DateTimeField(null=True, blank=True, help_text="empty: until cancelled")
    limits = models.JSONField(default=dict, blank=True, help_text="limit name → the fields it changes")
    multiplier_numerator = models.IntegerField(null=True, blank=True)
    multiplier_denominator = models.IntegerField(null=True, blank=True)
    carry = models.CharField(max_length=12, default="keep")
    reason = models.CharField(max_length=500)
    author = models.CharField(max_length=150)
    created_revision = models.ForeignKey(Revision, on_delete=models.PROTECT, related_name="+")
    cancelled_at = models.DateTimeField(null=True, blank=True)
    cancelled_revision = models.ForeignKey(Revision, on_delete=models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["tenant", "end"], name="override_tenant_end")]
        constraints = [
            models.CheckConstraint(condition=Q(end=None) | Q(end__gt=F("start")), name="override_ends_after_start"),
            json_is("limits", "object", "override_limits"),
            models.CheckConstraint(
                condition=Q(multiplier_numerator=None, multiplier_denominator=None) & ~Q(limits={})
                | Q(
                    # A comparison with null is neither true nor false, and a check passes unless it is false.
                    multiplier_numerator__isnull=False,
                    multiplier_denominator__isnull=False,
                    multiplier_numerator__range=(1, MULTIPLIER_MAX),
                    multiplier_denominator__range=(1, MULTIPLIER_MAX),
                    limits={},
                ),
                name="override_limits_or_multiplier",
            ),
            one_of("carry", CARRIES, "override_carry"),
            models.CheckConstraint(condition=~Q(reason="") & ~Q(author=""), name="override_reason_and_author"),
            models.CheckConstraint(
                condition=Q(cancelled_at=None, cancelled_revision=None)
                | Q(cancelled_at__isnull=False, cancelled_revision__isnull=False),
                name="override_cancelled_by_a_revision",
            ),
        ]

    def __str__(self) -> str:
        return f"override {self.pk}"

    @property
    def scope(self) -> str:
        return self.endpoint.name if self.endpoint is not None else EVERYWHERE
