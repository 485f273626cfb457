"""What happened in a period that a chart should say: revisions, overrides, bypasses, failovers, and people's notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import Q

from headroom_edge import keys
from headroom_edge.algorithms.base import counted
from quotas.models import AuditEvent, ChartNote, Override, Policy, Revision
from quotas.policies.spec import EPOCH, MICROSECOND, to_us
from quotas.usage.drain_state import STORE_FAILOVER
from quotas.usage.queries.periods import Period
from tenants.models import Tenant

MOST: Final = 40
BYPASS_SET, BYPASS_CLEARED = "bypass_set", "bypass_cleared"
LONGEST_BYPASS: Final = timedelta(days=7)
LONGEST_LABEL: Final = 20  # characters on a flag; the whole note is in the list beside the table


@dataclass(frozen=True, slots=True)
class Annotation:
    at: datetime
    label: str  # on the flag: r12, override ends
    words: str  # why, in the list beside the table
    revision: int | None = None  # where to read on, if in Changes
    override: int | None = None
    note: int | None = None


def annotations_read(period: Period, tenant: Tenant | None = None) -> list[Annotation]:
    """Oldest first. `tenant`: only what can have changed its limits."""
    return sorted(
        [*_revisions(period, tenant), *_bypasses(period, tenant), *_failovers(period, tenant), *_notes(period, tenant)],
        key=lambda each: (each.at, each.revision or 0),
    )


def _revisions(period: Period, tenant: Tenant | None) -> Iterator[Annotation]:
    begin_us, end_us = to_us(period.begin), to_us(period.end)
    rows = Revision.objects.filter(published_us__gte=begin_us, published_us__lt=end_us)
    if tenant is not None:
        overrides = list(Override.objects.filter(tenant=tenant).order_by("-id")[:MOST])
        rows = rows.filter(touched__overlap=_keys(tenant, overrides))
        yield from _edges(overrides, period)
    for row in rows.order_by("-number").only("number", "author", "reason", "published_us")[:MOST]:
        at = EPOCH + (row.published_us or 0) * MICROSECOND
        yield Annotation(at, f"r{row.number}", f"{row.reason} ({row.author})", row.number)


def _keys(tenant: Tenant, overrides: list[Override]) -> list[str]:
    """What gives the tenant its limits, as revisions name it."""
    policies = Policy.objects.filter(Q(tier=tenant.tier_id) | Q(tenant=tenant) | Q(tier=None, tenant=None))
    named = [f"policy:{name}" for name in policies.values_list("name", flat=True)]
    return [*named, *(f"override:{row.pk}" for row in overrides), f"tenant:{tenant.name}"]


def _edges(overrides: list[Override], period: Period) -> Iterator[Annotation]:
    """The creation and the cancellation of an override are revisions; a planned start and an end are not."""
    for row in overrides:
        is_planned = row.cancelled_at is None or row.start < row.cancelled_at
        if is_planned and period.begin <= row.start < period.end and row.created_revision_id:
            yield Annotation(row.start, "override starts", row.reason, row.created_revision_id, row.pk)
        ends = row.end if row.cancelled_at is None else None
        if ends and period.begin <= ends < period.end:
            yield Annotation(ends, "override ends", row.reason, row.created_revision_id, row.pk)


def _bypasses(period: Period, tenant: Tenant | None) -> Iterator[Annotation]:
    events = AuditEvent.objects.filter(
        kind__in=(BYPASS_SET, BYPASS_CLEARED), at__gte=period.begin - LONGEST_BYPASS, at__lt=period.end
    )
    for row in events.order_by("-id")[:MOST]:
        detail = row.detail
        if tenant is not None and detail.get("scope") == "tenant" and detail.get("name") != tenant.name:
            continue
        yield from _of_bypass(row, detail, period)


def _failovers(period: Period, tenant: Tenant | None) -> Iterator[Annotation]:
    """Other servers that took shards over. `tenant`: only those that took its own."""
    events = AuditEvent.objects.filter(kind=STORE_FAILOVER, at__gte=period.begin, at__lt=period.end)
    if tenant is not None:
        events = events.filter(detail__shards__contains=keys.shard_of(tenant.name, settings.HEADROOM_SHARDS))
    for row in events.order_by("-id")[:MOST]:
        count, of = len(row.detail["shards"]), row.detail["of"]
        taken = "all shards" if count == of else counted(count, "shard")
        yield Annotation(row.at, "failover", f"Redis failed over: {row.detail['node']} took over {taken}")


def _notes(period: Period, tenant: Tenant | None) -> Iterator[Annotation]:
    whose = Q(tenant=None) | Q(tenant=tenant) if tenant else Q(tenant=None)
    rows = ChartNote.objects.filter(whose, at__gte=period.begin, at__lt=period.end)
    for row in rows.order_by("-at")[:MOST]:
        is_short = len(row.text) <= LONGEST_LABEL
        label = row.text if is_short else f"{row.text[: LONGEST_LABEL - 1].rstrip()}…"
        yield Annotation(row.at, label, f"{row.text} ({row.author})", note=row.pk)


def _of_bypass(row: AuditEvent, detail: dict[str, Any], period: Period) -> Iterator[Annotation]:
    about = "all limits" if detail.get("scope") == "all" else f"{detail.get('scope')} {detail.get('name')}"
    words = f"Bypass of {about}: {detail.get('reason', '')}"
    if row.at >= period.begin:
        yield Annotation(row.at, "bypass" if row.kind == BYPASS_SET else "bypass ends", words)
    until = EPOCH + int(detail.get("until_us") or 0) * MICROSECOND
    if row.kind == BYPASS_SET and period.begin <= until < period.end:
        yield Annotation(until, "bypass ends", words)
