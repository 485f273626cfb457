"""From the database to what the compiler reads.

`configuration_load()` is everything. `configuration_part(tenants=…, tiers=…)` has the named tenants only,
the policies of the named tiers and of the tiers of the named tenants, and all tiers, endpoints, limit
numbers and global policies: a named tenant compiles to the same plans from a part as from the whole. A
name that is not in the part is gone.

Times come from `Revision.published_us`; a revision without one counts as published now. The publisher
stamps what it publishes for the first time, and loads, in one transaction:

    with one_moment():
        revisions_stamp(now_us)
        configuration = configuration_load()
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from quotas.models import Override, Policy, Revision
from quotas.policies import spec
from quotas.policies.configuration_rows import Rows, to_us
from quotas.policies.limit_codec import Clock, by_number
from tenants.models import Tenant

# An override that ended this long ago has left its mark on no record: no period is longer than a year.
OVERRIDE_MEMORY = timedelta(days=400)
USAGE_HASHES = 3  # of a shard, at most, while nobody drains
COUNTER_BYTES = 100  # of Redis' memory, measured: 54 to 98


def configuration_load() -> spec.Configuration:
    return _load(Tenant.objects.all(), Policy.objects.all(), Override.objects.all())


def configuration_part(
    *, tenants: Collection[str] = (), tiers: Collection[str] = (), in_revisions: bool = False
) -> spec.Configuration:
    """`in_revisions`: times are the numbers of revisions, which a writer can compare before they are published."""
    named = Tenant.objects.filter(name__in=tenants)
    policies = Policy.objects.filter(
        Q(tier=None, tenant=None)
        | Q(tenant__name__in=tenants)
        | Q(tier__name__in=tiers)
        | Q(tier__in=named.values("tier"))
    )
    return _load(named, policies, Override.objects.filter(tenant__name__in=tenants), in_revisions)


def tenants_with_own_limits(*, tiers: Collection[str]) -> frozenset[str]:
    """The tenants of these tiers whom the plain plan of the tier does not serve."""
    of_tiers = {"tenant__tier__name__in": tiers}
    handed_over = Tenant.objects.exclude(handovers=[]).filter(tier__name__in=tiers)
    return frozenset(
        Policy.objects.filter(**of_tiers)
        .values_list("tenant__name", flat=True)
        .union(
            Override.objects.filter(**of_tiers).values_list("tenant__name", flat=True),
            handed_over.values_list("name", flat=True),
        )
    )


def _load(
    tenants: QuerySet[Tenant], policies: QuerySet[Policy], overrides: QuerySet[Override], in_revisions: bool = False
) -> spec.Configuration:
    remembered = overrides.filter(Q(end=None) | Q(end__gt=timezone.now() - OVERRIDE_MEMORY))
    with one_moment():
        rows = Rows.read(tenants, policies, remembered)
        clock = by_number if in_revisions else _published(rows.revisions())
        return replace(rows.configuration(clock, _unknown_tenant()), usage_room=_usage_room())


@contextmanager
def one_moment() -> Iterator[None]:
    """Several queries see the same revision; inside a writer's transaction its lock already sees to that."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def _published(numbers: Collection[int]) -> Clock:
    stamps = dict(Revision.objects.filter(number__in=numbers).values_list("number", "published_us"))
    now_us = to_us(timezone.now())
    return lambda number: stamps.get(number) or now_us


def _unknown_tenant() -> str | None:
    name: str = settings.HEADROOM_UNKNOWN_TENANT
    return None if name == "deny" else name


def _usage_room() -> int:
    """Counters in each of a shard's three hashes (headroom_edge.lua account)."""
    room: int = settings.HEADROOM_USAGE_MEMORY_MB * 2**20 // (settings.HEADROOM_SHARDS * USAGE_HASHES * COUNTER_BYTES)
    return max(1, room)
