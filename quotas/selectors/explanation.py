"""Why a tenant has the limits it has on an endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from quotas.policy.resolve import Effective, Index, Layers, globals_at, resolve
from quotas.policy.spec import EVERYWHERE, Configuration, Limit, Override
from quotas.selectors.configuration import configuration_part
from quotas.selectors.rows import to_us
from tenants.isolation import unrestricted


class UnknownTenantError(LookupError):
    pass


@dataclass(frozen=True, slots=True)
class Lost:
    """A limit of the same name that does not apply, because the other one is more specific."""

    source: str
    limit: Limit


@dataclass(frozen=True, slots=True)
class ExplainedLimit:
    effective: Effective
    overrides: tuple[Override, ...]
    lost: tuple[Lost, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    revision: int
    tenant: str
    tier: str
    is_suspended: bool
    endpoint: str
    is_registered: bool  # if not, only what stands on `*` applies
    limits: tuple[ExplainedLimit, ...]
    upcoming: tuple[Override, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Every limit of a tenant, each once, in the scope in which it is counted."""

    revision: int
    tenant: str
    tier: str
    is_suspended: bool
    limits: tuple[ExplainedLimit, ...]
    upcoming: tuple[Override, ...]


def explain(*, tenant: str, endpoint: str, at: datetime | None = None) -> Explanation:
    """What holds at that time (now, if none is given) as far as is known today."""
    part = _part(tenant)
    index = Index.of_configuration(part)
    layers = index.of_tenant(part.tenants[tenant])
    at_us = to_us(at or timezone.now())
    scope = endpoint if endpoint in part.endpoints else EVERYWHERE
    own = [_explained(effective, layers, scope) for effective in resolve(layers, at_us).at(scope)]
    everyones = [ExplainedLimit(effective, (), ()) for effective in globals_at(index.globals, scope)]
    return Explanation(
        revision=part.revision,
        tenant=tenant,
        tier=part.tenants[tenant].tier,
        is_suspended=part.tenants[tenant].suspended,
        endpoint=endpoint,
        is_registered=scope != EVERYWHERE or endpoint == EVERYWHERE,
        limits=(*own, *everyones),
        upcoming=tuple(o for o in layers.overrides if o.start_us > at_us and o.endpoint in (scope, EVERYWHERE)),
    )


def standing(*, tenant: str, at: datetime | None = None) -> Standing:
    part = _part(tenant)
    index = Index.of_configuration(part)
    layers = index.of_tenant(part.tenants[tenant])
    at_us = to_us(at or timezone.now())
    resolved = resolve(layers, at_us)
    own = [*resolved.everywhere, *(effective for limits in resolved.own.values() for effective in limits)]
    everyones = (e for policy in index.globals.values() for e in globals_at({policy.endpoint: policy}, policy.endpoint))
    return Standing(
        revision=part.revision,
        tenant=tenant,
        tier=part.tenants[tenant].tier,
        is_suspended=part.tenants[tenant].suspended,
        limits=(*(_explained(e, layers, e.scope) for e in own), *(ExplainedLimit(e, (), ()) for e in everyones)),
        upcoming=tuple(o for o in layers.overrides if o.start_us > at_us),
    )


def _part(tenant: str) -> Configuration:
    # A tenant may know its own limits, but the revisions and trials that they come from hold other tenants' too.
    with unrestricted():
        part = configuration_part(tenants=[tenant])
    if tenant not in part.tenants:
        raise UnknownTenantError(f"there is no tenant {tenant}; correct the name")
    return part


def _explained(effective: Effective, layers: Layers, endpoint: str) -> ExplainedLimit:
    rungs = layers.ladder(endpoint, effective.limit.name)
    lost = tuple(Lost(rung.policy.source, rung.limit) for rung in rungs[1:])
    overrides = tuple(o for o in layers.overrides if o.id in effective.overrides)
    return ExplainedLimit(effective, overrides, lost)


def standing_of_tier(tier: str, at: datetime | None = None) -> tuple[Effective, ...]:
    """What a tenant of this tier has that has nothing of its own."""
    index = Index.of_configuration(configuration_part(tiers=[tier]))
    resolved = resolve(index.of_tier(tier), to_us(at or timezone.now()))
    return (*resolved.everywhere, *(effective for limits in resolved.own.values() for effective in limits))
