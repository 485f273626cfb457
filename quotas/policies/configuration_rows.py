"""The rows of a configuration as they are read, and as the compiler's values.

Plain tuples by `values_list`: with 100,000 tenants the model instances would cost more than all else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

from django.db.models import QuerySet

from quotas.models import Change, Endpoint, Limit, LimitName, Override, Policy
from quotas.models.change import ChangeState
from quotas.models.revision import newest_revision_number
from quotas.policies import spec
from quotas.policies.canary import CanaryChange, canaries_of
from quotas.policies.limit_codec import Clock, generations_load, handovers_load, policies_of, revisions_in, row_limit
from tenants.models import Tenant, Tier

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


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


class TenantRow(NamedTuple):
    number: int
    name: str
    tier_id: int
    suspended: bool
    timezone: str


@dataclass(frozen=True, slots=True)
class Rows:
    revision: int
    tiers: dict[int, str]
    endpoints: dict[int, spec.Endpoint]  # the retired ones too: overrides of the past name them
    retired: frozenset[int]
    limit_names: dict[int, str]
    tenants: list[TenantRow]
    handovers: dict[int, list[dict[str, Any]]]
    policies: list[PolicyRow]
    limits: list[LimitRow]
    overrides: list[OverrideRow]
    canaries: list[Change]

    @classmethod
    def read(cls, tenants: QuerySet[Tenant], policies: QuerySet[Policy], overrides: QuerySet[Override]) -> Rows:
        endpoints = list(Endpoint.objects.values_list("number", "name", "default_cost", "retired"))
        policies = policies.order_by()
        return cls(
            revision=newest_revision_number(),
            tiers=dict(Tier.objects.values_list("number", "name")),
            endpoints={number: spec.Endpoint(number, name, cost) for number, name, cost, _ in endpoints},
            retired=frozenset(number for number, _, _, retired in endpoints if retired),
            limit_names=dict(LimitName.objects.values_list("number", "name")),
            tenants=[TenantRow(*row) for row in _tenant_rows(tenants)],
            handovers=dict(tenants.exclude(handovers=[]).values_list("number", "handovers")),
            policies=[PolicyRow(*row) for row in _policy_rows(policies)],
            limits=[LimitRow(*row) for row in _limit_rows(Limit.objects.filter(policy__in=policies))],
            overrides=[OverrideRow(*row) for row in _override_rows(overrides)],
            canaries=list(Change.objects.filter(state=ChangeState.CANARY).order_by("id")),
        )

    def revisions(self) -> set[int]:
        """All that a time must be known of."""
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
            tiers={name: spec.Tier(number, name) for number, name in self.tiers.items()},
            endpoints={e.name: e for number, e in self.endpoints.items() if number not in self.retired},
            tenants={row.name: self._tenant(row, clock) for row in self.tenants},
            policies=policies,
            overrides=tuple(o for row in self.overrides if (o := self._override(row, clock))),
            limit_numbers={name: number for number, name in self.limit_names.items()},
            unknown_tenant=unknown_tenant,
            canaries=tuple(c for row in self.canaries for c in canaries_of(_canary_change(row, clock), policies)),
        )

    def _tenant(self, row: TenantRow, clock: Clock) -> spec.Tenant:
        stored = self.handovers.get(row.number)
        handovers = handovers_load(stored, clock) if stored else ()
        return spec.Tenant(row.number, row.name, self.tiers[row.tier_id], row.suspended, row.timezone, handovers)

    def _policies(self, clock: Clock) -> Iterable[spec.Policy]:
        limits: dict[int, list[LimitRow]] = defaultdict(list)
        for row in self.limits:
            limits[row.policy_id].append(row)
        for policy in self.policies:
            tier = self.tiers[policy.tier_id] if policy.tier_id is not None else None
            whole = spec.Policy(policy.name, self._scope(policy), (), tier, policy.tenant_name)
            try:
                own = (self._limit(row, clock) for row in limits[policy.id])
                yield replace(whole, limits=tuple(sorted(own, key=lambda limit: limit.name)))
            except (ValueError, KeyError) as error:
                # Only what was written past the service functions; everyone else's limits must still be read.
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
        """It begins and is cancelled when that is published, not earlier. None: cancelled before it began, or
        over before its endpoint was retired."""
        if row.endpoint_id in self.retired:
            return None
        start_us = max(to_us(row.start), clock(row.created_revision))
        end_us = to_us(row.end) if row.end else None
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


def to_us(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def _tenant_rows(tenants: QuerySet[Tenant]) -> Iterable[tuple[Any, ...]]:
    return tenants.order_by().values_list("number", "name", "tier_id", "suspended", "timezone")


def _policy_rows(policies: QuerySet[Policy]) -> Iterable[tuple[Any, ...]]:
    return policies.values_list("id", "name", "tier_id", "tenant__name", "endpoint_id", "service")


def _limit_rows(limits: QuerySet[Limit]) -> Iterable[tuple[Any, ...]]:
    what = ("policy_id", "name_id", "algorithm", "parameters", "subject", "unit", "mode", "on_failure")
    when = ("changed_revision_id", "carry", "past", "candidate", "adopts_candidate")
    return limits.order_by().values_list(*what, *when)


def _override_rows(overrides: QuerySet[Override]) -> Iterable[tuple[Any, ...]]:
    what = ("id", "tenant__name", "endpoint_id", "start", "end", "limits")
    how = ("multiplier_numerator", "multiplier_denominator", "carry", "created_revision_id", "cancelled_revision_id")
    return overrides.order_by("id").values_list(*what, *how)
