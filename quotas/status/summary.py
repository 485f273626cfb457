"""A summary of the whole installation in one query, for every page: sizes, revisions, freshness, open work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from headroom_edge.keys import OWN_ENDPOINTS, OWN_TENANT
from quotas.models import Endpoint, Limit
from quotas.models.change import ENDED
from quotas.models.recommendation import Stage
from quotas.models.usage import REFUSED, UsageHour
from tenants.models import Tenant

# Counting stops here, so that it costs the same however many there are.
MOST_COUNTED: Final = 10_000
SILENT_AFTER: Final = timedelta(seconds=60)  # the watch of alerts runs every 15 s
WAITING: Final = (Stage.DRAFT, Stage.SIMULATED)

_QUERY: Final = """
    SELECT clock_timestamp(),
        (SELECT count(*) FROM (SELECT 1 FROM tenants_tenant LIMIT %(most)s) AS counted),
        (SELECT count(*) FROM (SELECT 1 FROM quotas_endpoint WHERE NOT retired LIMIT %(most)s) AS counted),
        NOT EXISTS (SELECT 1 FROM tenants_tenant WHERE name <> %(own)s)
            OR NOT EXISTS (SELECT 1 FROM quotas_endpoint WHERE NOT retired AND NOT starts_with(name, %(of_own)s)),
        (SELECT coalesce(max(number), 0) FROM quotas_revision),
        (SELECT detail FROM quotas_heartbeat WHERE name = 'publisher'),
        (SELECT at FROM quotas_heartbeat WHERE name = 'publisher'),
        (SELECT drained_at FROM quotas_drainstate),
        (SELECT at FROM quotas_heartbeat WHERE name = 'watch'),
        (SELECT count(*) FROM (SELECT 1 FROM quotas_change WHERE state <> ALL(%(ended)s) LIMIT %(most)s) AS counted),
        (SELECT count(*) FROM quotas_recommendation WHERE stage = ANY(%(waiting)s)),
        EXISTS (SELECT 1 FROM quotas_freeze
            WHERE lifted_at IS NULL AND start <= clock_timestamp() AND "end" > clock_timestamp())
"""


@dataclass(frozen=True, slots=True)
class StatusSummary:
    now: datetime
    tenants: int
    endpoints: int
    is_empty: bool  # no endpoint or no tenant except Headroom's own
    revision: int  # 0: nothing was ever written
    published: int | None  # the newest revision that every shard has; None: the publisher never reported
    publisher_at: datetime | None
    drained_at: datetime | None
    watched_at: datetime | None  # when the alerts were last evaluated
    open_changes: int  # proposed, in a trial, scheduled or blocked
    waiting: int  # recommendations without a decision
    is_frozen: bool  # a change freeze is active

    @property
    def is_published(self) -> bool:
        return self.published is not None and self.published >= self.revision

    @property
    def publisher_age(self) -> timedelta | None:
        return self.now - self.publisher_at if self.publisher_at else None

    @property
    def is_watch_silent(self) -> bool:
        return self.watched_at is not None and self.now - self.watched_at > SILENT_AFTER

    @property
    def drain_age(self) -> timedelta | None:
        return self.now - self.drained_at if self.drained_at else None


def status_summary_read() -> StatusSummary:
    with connection.cursor() as cursor:
        ended, waiting = ([str(state) for state in states] for states in (ENDED, WAITING))
        own = {"own": OWN_TENANT, "of_own": OWN_ENDPOINTS}
        cursor.execute(_QUERY, {"most": MOST_COUNTED, "ended": ended, "waiting": waiting, **own})
        now, tenants, endpoints, is_empty, revision, detail, publisher_at, *rest = cursor.fetchone()
    published = int(detail) if detail and detail.isdigit() else None
    return StatusSummary(now, tenants, endpoints, is_empty, revision, published, publisher_at, *rest)


@dataclass(frozen=True, slots=True)
class FirstSteps:
    pulse: StatusSummary
    endpoint: Endpoint | None
    tenant: Tenant | None
    limit: Limit | None
    is_asked: bool  # a request was counted
    is_denied: bool

    @property
    def is_enforced(self) -> bool:
        return self.limit is not None and self.pulse.is_published


def first_steps_read() -> FirstSteps:
    pulse = status_summary_read()
    limits = Limit.objects.exclude(policy__tier__name=OWN_TENANT).order_by("pk")
    asked = UsageHour.objects.exclude(tenant_number__in=Tenant.objects.filter(name=OWN_TENANT).values("number"))
    return FirstSteps(
        pulse=pulse,
        endpoint=Endpoint.objects.filter(retired=False)
        .exclude(name__startswith=OWN_ENDPOINTS)
        .order_by("number")
        .first(),
        tenant=Tenant.objects.exclude(name=OWN_TENANT).select_related("tier").order_by("number").first(),
        limit=limits.select_related("policy__tier", "policy__endpoint", "name").first(),
        is_asked=asked.exists(),
        is_denied=asked.filter(outcome__in=REFUSED).exists(),
    )
