"""Overrides that are in force on a limit: the tenants that have them meet other limits than their tier's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from headroom_edge.algorithms.base import Algorithm
from headroom_edge.plan.subject import TENANT
from quotas.models import Override
from quotas.overrides import ACTIVE, overrides_in
from quotas.policies.resolve import PatchError, merged, scaled
from quotas.policies.spec import EVERYWHERE, Limit
from quotas.recommendations.targets import Target


@dataclass(frozen=True, slots=True)
class OverrideValues:
    number: int
    fields: Mapping[str, Any] | None  # that it changes of the limit
    multiplier: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class InForce:
    """Tenant → its overrides of one limit, in the order of application."""

    of_tenant: Mapping[str, list[OverrideValues]] = field(default_factory=dict)

    def limit(self, tenant: str, algorithm: Algorithm) -> Algorithm:
        """What this tenant has where the others have `algorithm`."""
        held = Limit("limit", algorithm, TENANT)
        for one in self.of_tenant.get(tenant, ()):
            try:
                held = scaled(held, *one.multiplier) if one.multiplier else merged("limit", held, one.fields or {})
            except PatchError:  # as in quotas.policies.resolve: it no longer fits
                continue
        return held.algorithm

    @property
    def numbers(self) -> list[int]:
        return sorted(one.number for some in self.of_tenant.values() for one in some)

    def of_one(self, tenant: str) -> InForce:
        return InForce({name: some for name, some in self.of_tenant.items() if name == tenant})


def in_force(target: Target, now: datetime | None = None) -> InForce:
    """The overrides that change this very limit, by its name or all limits of its scope at once."""
    rows = Override.objects.filter(overrides_in(ACTIVE, now or timezone.now()), tenant__in=list(target.names))
    found: dict[str, list[OverrideValues]] = {}
    # Those on `*` are applied first, then those on the endpoint, each in order of creation.
    ordered = sorted(rows.select_related("tenant", "endpoint"), key=lambda row: (row.endpoint_id is not None, row.pk))
    for row in ordered:
        if touches(row, target.limit, target.endpoint):
            found.setdefault(row.tenant.name, []).append(_values(row, target.limit))
    return InForce(found)


def touches(row: Override, limit: str, scope: str) -> bool:
    """Whether the override changes a limit that is defined in this scope."""
    place = row.endpoint.name if row.endpoint else EVERYWHERE
    if row.multiplier_numerator:
        return place in (scope, EVERYWHERE)
    return place == scope and limit in row.limits


def _values(row: Override, limit: str) -> OverrideValues:
    if row.multiplier_numerator and row.multiplier_denominator:
        return OverrideValues(row.pk, None, (row.multiplier_numerator, row.multiplier_denominator))
    return OverrideValues(row.pk, row.limits[limit], None)
