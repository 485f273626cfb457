"""A summary of the whole installation in one query, for every page: sizes, revisions, freshness, open work."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import connection

from headroom_edge.keys import OWN_ENDPOINTS, OWN_TENANT
from quotas.models import Change, Endpoint, Limit
from quotas.models.change import ChangeState
from quotas.models.recommendation import Stage
from quotas.models.usage import BEGINNING, OLDER_FOLLOWS, REFUSED, UsageHour
from quotas.status.todo import SOON
from tenants.models import Tenant

# Counting stops here, so that it costs the same however many there are.
MOST_COUNTED: Final = 10_000
WAITING: Final = (Stage.DRAFT, Stage.SIMULATED)
SILENT_AFTER: Final = timedelta(seconds=60)  # the watch of alerts runs every 15 s

_QUERY: Final = """
    WITH viewer AS (
        SELECT %(viewer)s::text
            || ARRAY(SELECT 'token:' || key_id FROM tenants_apitoken WHERE 'person:' || issuer_id = %(viewer)s)
            AS identities)
    SELECT clock_timestamp(),
        (SELECT count(*) FROM (SELECT 1 FROM tenants_tenant WHERE archived_at IS NULL LIMIT %(most)s) AS counted),
        NOT EXISTS (SELECT 1 FROM tenants_tenant WHERE name <> %(own)s)
            OR NOT EXISTS (SELECT 1 FROM quotas_endpoint WHERE NOT retired AND NOT starts_with(name, %(of_own)s)),
        (SELECT coalesce(max(number), 0) FROM quotas_revision),
        (SELECT detail FROM quotas_heartbeat WHERE name = 'publisher'),
        (SELECT at FROM quotas_heartbeat WHERE name = 'publisher'),
        (SELECT detail FROM quotas_heartbeat WHERE name = 'publisher.trouble'),
        (SELECT drained_at FROM quotas_drainstate),
        (SELECT at FROM quotas_heartbeat WHERE name = 'watch'),
        EXISTS (SELECT 1 FROM quotas_freeze
            WHERE lifted_at IS NULL AND start <= clock_timestamp() AND "end" > clock_timestamp()),
        (SELECT "end" FROM quotas_gaprecord WHERE start = %(beginning)s AND reason = %(older_follows)s LIMIT 1),
        (SELECT count(*) FROM quotas_change, viewer
            WHERE state = 'pending' AND %(four_eyes)s AND NOT emergency AND author_identity <> ALL(viewer.identities)
                AND NOT EXISTS (SELECT 1 FROM quotas_approval WHERE change_id = quotas_change.id)),
        (SELECT count(*) FROM quotas_change
            WHERE state = 'blocked' OR (state IN ('shadow', 'canary') AND trial_ends <= clock_timestamp())
                OR (state = 'pending' AND (emergency OR NOT %(four_eyes)s
                OR EXISTS (SELECT 1 FROM quotas_approval WHERE change_id = quotas_change.id)))),
        (SELECT count(*) FROM quotas_recommendation WHERE stage = 'simulated'),
        (SELECT count(*) FROM quotas_quotarequest WHERE answer = 'waiting'),
        (SELECT count(*) FROM quotas_alertstate WHERE resolved_at IS NULL AND told_at IS NOT NULL),
        (SELECT count(*) FROM quotas_override WHERE cancelled_at IS NULL AND start <= clock_timestamp()
            AND "end" > clock_timestamp() AND "end" < clock_timestamp() + %(soon)s),
        (SELECT count(*) FROM quotas_emergency, viewer
            WHERE reviewed_at IS NULL AND author_identity <> ALL(viewer.identities))
"""


@dataclass(frozen=True, slots=True)
class WaitingCounts:
    """How much waits for people (quotas.status.todo lists it), without what the viewer may not decide themselves."""

    approvals: int
    changes: int  # to start, to promote, or blocked
    recommendations: int
    requests: int
    alerts: int
    ending: int  # overrides that end soon
    emergencies: int

    @property
    def for_approvers(self) -> int:
        return self.approvals + self.recommendations + self.requests

    @property
    def for_operators(self) -> int:
        return self.changes + self.alerts + self.ending + self.emergencies


_COUNTS: Final = len(fields(WaitingCounts))  # the last columns of the query


@dataclass(frozen=True, slots=True)
class StatusSummary:
    now: datetime
    tenants: int
    is_empty: bool  # no endpoint or no tenant except Headroom's own
    revision: int  # 0: nothing was ever written
    published: int | None  # the newest revision that every shard has; None: the publisher never reported
    publisher_at: datetime | None
    publisher_trouble: str | None  # why its last pass failed
    drained_at: datetime | None
    watched_at: datetime | None  # when the alerts were last evaluated
    is_frozen: bool  # a change freeze is active
    filled_since: datetime | None  # the demo's older days are still being written, back from here; None: they are not
    waits: WaitingCounts

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


def status_summary_read(viewer: str = "nobody") -> StatusSummary:
    """`viewer`: the identity of who looks, because nobody decides what they asked for, in person or by a token."""
    with connection.cursor() as cursor:
        own: dict[str, Any] = {"own": OWN_TENANT, "of_own": OWN_ENDPOINTS, "most": MOST_COUNTED}
        waits = {"viewer": viewer, "four_eyes": settings.HEADROOM_FOUR_EYES, "soon": SOON}
        gap = {"beginning": BEGINNING, "older_follows": OLDER_FOLLOWS}
        cursor.execute(_QUERY, own | waits | gap)
        now, tenants, is_empty, revision, detail, publisher_at, *rest = cursor.fetchone()
    published = int(detail) if detail and detail.isdigit() else None
    rest[-_COUNTS:] = [WaitingCounts(*rest[-_COUNTS:])]
    return StatusSummary(now, tenants, is_empty, revision, published, publisher_at, *rest)


@dataclass(frozen=True, slots=True)
class FirstSteps:
    pulse: StatusSummary
    endpoint: Endpoint | None
    tenant: Tenant | None
    limit: Limit | None
    is_asked: bool  # a request was counted
    is_denied: bool

    proposal: Change | None = None  # the endpoint waits for an approver

    @property
    def is_enforced(self) -> bool:
        """Its own revision is published; a later one may still be on its way."""
        published = self.pulse.published
        return self.limit is not None and published is not None and published >= self.limit.changed_revision_id


def first_steps_read() -> FirstSteps:
    pulse = status_summary_read()
    limits = Limit.objects.exclude(policy__tier__name=OWN_TENANT).order_by("pk")
    asked = UsageHour.objects.exclude(tenant_number__in=Tenant.objects.filter(name=OWN_TENANT).values("number"))
    proposed = Change.objects.filter(action="endpoint_create", state=ChangeState.PENDING).order_by("-id")
    return FirstSteps(
        pulse=pulse,
        proposal=proposed.first(),
        endpoint=Endpoint.objects.filter(retired=False)
        .exclude(name__startswith=OWN_ENDPOINTS)
        .order_by("number")
        .first(),
        tenant=Tenant.objects.filter(archived_at=None)
        .exclude(name=OWN_TENANT)
        .select_related("tier")
        .order_by("number")
        .first(),
        limit=limits.select_related("policy__tier", "policy__endpoint", "name").first(),
        is_asked=asked.exists(),
        is_denied=asked.filter(outcome__in=REFUSED).exists(),
    )
