"""Loads the configuration from the database, as the compiler reads it.

`configuration_load()` is everything. `configuration_part(tenants=…, tiers=…)` has the named tenants only,
the policies of the named tiers and of the tiers of the named tenants, and all tiers, endpoints, limit
numbers and global policies: a named tenant compiles to the same plans from a part as from the whole. A
name that is missing from the part was deleted.

Times come from `Revision.published_us`; a revision without one counts as published now. The publisher
stamps what it publishes for the first time, and loads, in one transaction:

    with one_moment():
        revisions_stamp(now_us)
        configuration = configuration_load()
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from sys import intern
from typing import Any, NamedTuple, cast

from django.conf import settings
from django.db import connection, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.utils import timezone

from headroom_edge.plan.priority import Priority
from quotas.models import Change, Endpoint, Limit, LimitName, Override, Policy, Revision
from quotas.models.change import ChangeState
from quotas.models.revision import newest_revision_number
from quotas.policies import spec
from quotas.policies.canary import CanaryChange, canaries_of
from quotas.policies.limit_codec import (
    Clock,
    by_number,
    generations_load,
    handovers_load,
    policies_of,
    revisions_in,
    row_limit,
)
from tenants.models import Tenant, Tier

# An override that ended longer ago affects no counter: no period is longer than a year.
OVERRIDE_MEMORY = timedelta(days=400)
USAGE_HASHES = 3  # of a shard, at most, while nobody drains
ROWS_AT_ONCE = 10_000
ENDPOINT_COLUMNS = ("number", "name", "default_cost", "priority", "target__target_us", "retired")
COUNTER_BYTES = 100  # of Redis' memory, measured: 54 to 98


def configuration_load() -> spec.Configuration:
    return _load(Tenant.objects.all(), Policy.objects.all(), Override.objects.all())


def configuration_part(
    *, tenants: Collection[str] = (), tiers: Collection[str] = (), in_revisions: bool = False
) -> spec.Configuration:
    """`in_revisions`: times are revision numbers, which a writer can compare before they are published."""
    named = Tenant.objects.filter(name__in=tenants)
    # A union, of which an index finds each part. With OR, Postgres would read the policies of all tenants.
    found = (
        Policy.objects.order_by().filter(owner).values("pk")
        for owner in (
            Q(tier=None, tenant=None),
            Q(tenant__in=named.values("pk")),
            Q(tier__name__in=tiers) | Q(tenant=None, tier__in=named.values("tier")),
        )
    )
    policies = Policy.objects.filter(pk__in=next(found).union(*found))
    return _load(named, policies, Override.objects.filter(tenant__name__in=tenants), in_revisions)


def tenants_with_own_limits(*, tiers: Collection[str]) -> frozenset[str]:
    """Tenants of these tiers that need a plan of their own: they have policies, overrides, handovers or a priority."""
    of_tiers = {"tenant__tier__name__in": tiers}
    differing = Tenant.objects.filter(~Q(handovers=[]) | ~Q(priority=""), tier__name__in=tiers)
    return frozenset(
        Policy.objects.filter(**of_tiers)
        .values_list("tenant__name", flat=True)
        .union(
            Override.objects.filter(**of_tiers).values_list("tenant__name", flat=True),
            differing.values_list("name", flat=True),
        )
    )


def _load(
    tenants: QuerySet[Tenant], policies: QuerySet[Policy], overrides: QuerySet[Override], in_revisions: bool = False
) -> spec.Configuration:
    remembered = overrides.filter(Q(end=None) | Q(end__gt=timezone.now() - OVERRIDE_MEMORY))
    with one_moment():
        rows = ConfigurationRows.read(tenants, policies, remembered)
        clock = by_number if in_revisions else published_clock(rows.revisions())
        return replace(rows.configuration(clock, _unknown_tenant()), usage_room=_usage_room())


@contextmanager
def one_moment() -> Iterator[None]:
    """Lets several queries see the same revision. Inside a writer's transaction, its lock does that."""
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def published_clock(numbers: Collection[int]) -> Clock:
    stamps = dict(Revision.objects.filter(number__in=numbers).values_list("number", "published_us"))
    now_us = spec.to_us(timezone.now())
    return lambda number: stamps.get(number) or now_us


def _unknown_tenant() -> str | None:
    name: str = settings.HEADROOM_UNKNOWN_TENANT
    return None if name == "deny" else name


def _usage_room() -> int:
    """Counters in each of a shard's three hashes (headroom_edge.lua account)."""
    room: int = settings.HEADROOM_USAGE_MEMORY_MB * 2**20 // (settings.HEADROOM_SHARDS * USAGE_HASHES * COUNTER_BYTES)
    return max(1, room)


# Rows are plain tuples of `values_list`: with 100,000 tenants, model instances would take most of the time.


class PolicyRow(NamedTuple):
    id: int
    name: str
    tier_id: int | None
    tenant_name: str | None
    endpoint_id: int | None
    service: str


class LimitRow(NamedTuple):
    policy_id: int
    name_id: int
    algorithm: str
    parameters: dict[str, Any]
    subject: str
    unit: spec.Unit
    mode: spec.Mode
    on_failure: spec.OnFailure
    lease_ms: int | None
    adapt: dict[str, Any] | None
    revision: int
    carry: spec.Carry
    past: list[dict[str, Any]]
    candidate: dict[str, Any] | None
    adopts_candidate: bool


class OverrideRow(NamedTuple):
    id: int
    tenant_name: str
    endpoint_id: int | None
    start: datetime
    end: datetime | None
    limits: dict[str, dict[str, Any]]
    numerator: int | None
    denominator: int | None
    carry: spec.Carry
    created_revision: int
    cancelled_revision: int | None


@dataclass(frozen=True, slots=True)
class ConfigurationRows:
    revision: int
    tiers: dict[int, spec.Tier]
    endpoints: dict[int, spec.Endpoint]  # retired ones too, which past overrides name
    retired: frozenset[int]
    limit_names: dict[int, str]
    tenants: Iterable[tuple[Any, ...]]  # not read yet: a million rows beside their objects would fill the memory
    handovers: dict[int, list[dict[str, Any]]]
    policies: list[PolicyRow]
    limits: list[LimitRow]
    overrides: list[OverrideRow]
    canaries: list[Change]

    @classmethod
    def read(
        cls, tenants: QuerySet[Tenant], policies: QuerySet[Policy], overrides: QuerySet[Override]
    ) -> ConfigurationRows:
        endpoints = list(Endpoint.objects.values_list(*ENDPOINT_COLUMNS))
        policies = policies.order_by()
        return cls(
            revision=newest_revision_number(),
            tiers={row[0]: spec.Tier(*row) for row in Tier.objects.values_list("number", "name", "priority")},
            endpoints={
                number: spec.Endpoint(number, name, cost, cast("Priority", priority), target_us)
                for number, name, cost, priority, target_us, _ in endpoints
            },
            retired=frozenset(number for number, *_, retired in endpoints if retired),
            limit_names=dict(LimitName.objects.values_list("number", "name")),
            tenants=_tenant_rows(tenants),
            handovers=dict(tenants.exclude(handovers=[]).values_list("number", "handovers")),
            policies=[PolicyRow(*row) for row in _policy_rows(policies)],
            limits=[LimitRow(*row) for row in _limit_rows(Limit.objects.filter(policy__in=policies))],
            overrides=[OverrideRow(*row) for row in _override_rows(overrides)],
            canaries=list(Change.objects.filter(state=ChangeState.CANARY).order_by("id")),
        )

    def revisions(self) -> set[int]:
        """Revisions whose times are needed."""
        found = {limit.revision for limit in self.limits}
        found |= {revision for limit in self.limits for revision in revisions_in(limit.past)}
        found |= {revision for stored in self.handovers.values() for revision in revisions_in(stored)}
        found |= {override.created_revision for override in self.overrides}
        found |= {change.start_revision_id for change in self.canaries if change.start_revision_id is not None}
        return found | {o.cancelled_revision for o in self.overrides if o.cancelled_revision is not None}

    def configuration(self, clock: Clock, unknown_tenant: str | None) -> spec.Configuration:
        policies = tuple(self._policies(clock))
        return spec.Configuration(
            revision=self.revision,
            tiers={tier.name: tier for tier in self.tiers.values()},
            endpoints={e.name: e for number, e in self.endpoints.items() if number not in self.retired},
            tenants={tenant.name: tenant for tenant in self._tenants(clock)},
            policies=policies,
            overrides=tuple(o for row in self.overrides if (o := self._override(row, clock))),
            limit_numbers={name: number for number, name in self.limit_names.items()},
            unknown_tenant=unknown_tenant,
            canaries=tuple(c for row in self.canaries for c in canaries_of(_canary_change(row, clock), policies)),
        )

    def _tenants(self, clock: Clock) -> Iterator[spec.Tenant]:
        handovers = {number: handovers_load(stored, clock) for number, stored in self.handovers.items()}
        names = {number: tier.name for number, tier in self.tiers.items()}
        for number, name, tier_id, is_refused, zone, priority in self.tenants:
            # The same text for all tenants of a zone: Postgres sends each its own.
            past = handovers.get(number, ())
            yield spec.Tenant(number, name, names[tier_id], is_refused, intern(zone), past, intern(priority))

    def _policies(self, clock: Clock) -> Iterable[spec.Policy]:
        limits: dict[int, list[LimitRow]] = defaultdict(list)
        for row in self.limits:
            limits[row.policy_id].append(row)
        for policy in self.policies:
            tier = self.tiers[policy.tier_id].name if policy.tier_id is not None else None
            whole = spec.Policy(policy.name, self._scope(policy), (), tier, policy.tenant_name)
            try:
                own = (self._limit(row, clock) for row in limits[policy.id])
                yield replace(whole, limits=tuple(sorted(own, key=lambda limit: limit.name)))
            except (ValueError, KeyError) as error:
                # Only a direct write to the table can cause this. The other limits must still load.
                yield replace(whole, problem=f"policy {policy.name} cannot be read: {error}")

    def _scope(self, policy: PolicyRow) -> str:
        if policy.endpoint_id is not None:
            return self.endpoints[policy.endpoint_id].name
        return f"{policy.service}:{spec.EVERYWHERE}" if policy.service else spec.EVERYWHERE

    def _limit(self, row: LimitRow, clock: Clock) -> spec.Limit:
        return replace(
            row_limit(self.limit_names[row.name_id], row),
            since_us=clock(row.revision),
            carry=row.carry,
            past=generations_load(row.past, clock),
            adopts_candidate=row.adopts_candidate,
        )

    def _override(self, row: OverrideRow, clock: Clock) -> spec.Override | None:
        """It starts and is cancelled at the time of publishing, not earlier. None: cancelled before it started,
        or its endpoint is retired."""
        if row.endpoint_id in self.retired:
            return None
        start_us = max(spec.to_us(row.start), clock(row.created_revision))
        end_us = spec.to_us(row.end) if row.end else None
        if row.cancelled_revision is not None:
            cancelled_us = clock(row.cancelled_revision)
            end_us = cancelled_us if end_us is None else min(end_us, cancelled_us)
        if end_us is not None and end_us <= start_us:
            return None
        scope = self.endpoints[row.endpoint_id].name if row.endpoint_id is not None else spec.EVERYWHERE
        multiplier = (row.numerator, row.denominator) if row.numerator and row.denominator else None
        return spec.Override(row.id, row.tenant_name, scope, start_us, end_us, row.limits, multiplier, row.carry)


def _canary_change(row: Change, clock: Clock) -> CanaryChange:
    since_us, carry = clock(row.start_revision_id or 0), cast("spec.Carry", row.carry)
    return CanaryChange(row.pk, row.share or 0, policies_of(row.policies), since_us, carry)


def _tenant_rows(tenants: QuerySet[Tenant]) -> Iterable[tuple[Any, ...]]:
    """An archived tenant is refused like a suspended one: were it left out, the stand-in would let it in."""
    is_refused = ExpressionWrapper(Q(suspended=True) | Q(archived_at__isnull=False), BooleanField())
    rows = tenants.order_by().values_list("number", "name", "tier_id", is_refused, "timezone", "priority")
    # A cursor takes two more round trips, which matter to a part, read while somebody waits.
    is_whole = not tenants.query.where
    return rows.iterator(chunk_size=ROWS_AT_ONCE) if is_whole else rows


def _policy_rows(policies: QuerySet[Policy]) -> Iterable[tuple[Any, ...]]:
    return policies.values_list("id", "name", "tier_id", "tenant__name", "endpoint_id", "service")


def _limit_rows(limits: QuerySet[Limit]) -> Iterable[tuple[Any, ...]]:
    what = ("policy_id", "name_id", "algorithm", "parameters", "subject", "unit", "mode", "on_failure", "lease_ms")
    when = ("adapt", "changed_revision_id", "carry", "past", "candidate", "adopts_candidate")
    return limits.order_by().values_list(*what, *when)


def _override_rows(overrides: QuerySet[Override]) -> Iterable[tuple[Any, ...]]:
    what = ("id", "tenant__name", "endpoint_id", "start", "end", "limits")
    how = ("multiplier_numerator", "multiplier_denominator", "carry", "created_revision_id", "cancelled_revision_id")
    return overrides.order_by("id").values_list(*what, *how)
