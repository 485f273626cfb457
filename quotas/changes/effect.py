"""What a change does: its diff, and the tenants whose limits it touches."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from quotas.changes.affected import Targets
from quotas.changes.draft import Proposal
from quotas.models import Revision
from quotas.policies.diff import ObjectDiff, differences
from tenants.models import Tenant

MOST_NAMES = 100


@dataclass(frozen=True, slots=True)
class TouchedTenants:
    count: int
    names: tuple[str, ...] = ()  # the first of them
    is_everyone: bool = False  # endpoints and global limits are in every plan


@dataclass(frozen=True, slots=True)
class Effect:
    changes: tuple[ObjectDiff, ...] = ()
    tenants: TouchedTenants = TouchedTenants(0)


def effect_of(revision: Revision | Proposal) -> Effect:
    targets = Targets.of(revision.touched, revision.before, revision.after)
    return Effect(differences(revision.before, revision.after), touched_tenants(targets))


def touched_tenants(targets: Targets) -> TouchedTenants:
    rows = Tenant.objects.all()
    if not targets.is_common:
        rows = rows.filter(Q(name__in=targets.tenants) | Q(tier__name__in=targets.tiers))
    names = rows.order_by("name").values_list("name", flat=True)[:MOST_NAMES]
    return TouchedTenants(rows.count(), tuple(names), targets.is_common)
