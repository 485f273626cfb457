"""Why a tenant has its limits on an endpoint, and what would happen to a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from headroom_edge import Check, Decision, Limiter
from headroom_edge.decision import LimitRow
from headroom_edge.errors import StoreRefusedError
from headroom_edge.keys import endpoint_number
from headroom_edge.plan.paths import LONGEST_PATH, USUAL, EndpointFinder, target_path
from headroom_edge.plan.routes import Route
from quotas.errors import refuse
from quotas.models import Endpoint
from quotas.policies.configuration import configuration_part
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.resolve import Effective, globals_at, resolve
from quotas.policies.spec import EVERYWHERE, Configuration, Limit, Override, to_us
from tenants.isolation import unrestricted

BUDGET_MS = 1_000
UNREGISTERED = "-"  # no endpoint has this name, so only the limits on * apply


class UnknownTenantError(LookupError):
    pass


@dataclass(frozen=True, slots=True)
class Lost:
    """A limit that does not apply, because one of the same name is more specific."""

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
    is_registered: bool  # False: only limits on `*` apply
    limits: tuple[ExplainedLimit, ...]
    upcoming: tuple[Override, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Every limit of a tenant once, in the scope in which it counts."""

    revision: int
    tenant: str
    tier: str
    is_suspended: bool
    limits: tuple[ExplainedLimit, ...]
    upcoming: tuple[Override, ...]


def explain(*, tenant: str, endpoint: str, at: datetime | None = None) -> Explanation:
    """What applies at that time (default: now), as far as is known today."""
    part = _part(tenant)
    index = PolicyIndex.of_configuration(part)
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
    index = PolicyIndex.of_configuration(part)
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
    # A tenant may see its own limits, but not their revisions and trials, which name other tenants.
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
    """The limits of a tenant of this tier without anything of its own."""
    index = PolicyIndex.of_configuration(configuration_part(tiers=[tier]))
    resolved = resolve(index.of_tier(tier), to_us(at or timezone.now()))
    return (*resolved.everywhere, *(effective for limits in resolved.own.values() for effective in limits))


@dataclass(frozen=True, slots=True)
class Verdict:
    explained: ExplainedLimit
    row: LimitRow | None  # None: the store does not enforce it (yet)


def verdicts(explanation: Explanation, rows: Sequence[LimitRow]) -> Iterator[Verdict]:
    """A tenant's limit and a global one may share name and scope. Both sides list the global ones last."""
    left = list(rows)
    texts = _scope_texts(explanation.endpoint)
    for explained in explanation.limits:
        effective = explained.effective
        wanted = effective.limit.name, texts.get(effective.scope)
        row = next((row for row in left if (row.name, row.scope) == wanted), None)
        if row is not None:
            left.remove(row)
        yield Verdict(explained, row)


def _scope_texts(endpoint: str) -> dict[str, str]:
    """As records name them."""
    texts = {EVERYWHERE: "0"}
    number = Endpoint.objects.filter(name=endpoint, retired=False).values_list("number", flat=True).first()
    if number is not None:
        service = endpoint.partition(":")[0]
        texts |= {endpoint: endpoint_number(number), f"{service}:*": f"@{service}"}
    return texts


@dataclass(frozen=True, slots=True)
class Answer:
    explanation: Explanation  # of the configuration
    decision: Decision  # of the store
    verdicts: tuple[Verdict, ...]  # each limit, in the configuration and in the store


def request_explain(
    *, limiter: Limiter, tenant: str, endpoint: str, subject: Mapping[str, str], cost: int | None = None
) -> Answer:
    """Raises UnknownTenantError, or StoreRefusedError if the store cannot answer."""
    called = UNREGISTERED if endpoint == EVERYWHERE else endpoint
    try:
        Check(tenant, called, subject, cost)
    except ValueError as error:
        field = next((name for name in ("tenant", "endpoint", "cost") if str(error).startswith(name)), "subject")
        raise refuse(field, field, str(error)) from None
    explanation = explain(tenant=tenant, endpoint=endpoint)
    decision = limiter.peek(tenant=tenant, endpoint=called, subject=subject, cost=cost, rows=True, budget_ms=BUDGET_MS)
    if decision.degraded:
        raise StoreRefusedError(decision.reason)
    return Answer(explanation, decision, tuple(verdicts(explanation, decision.rows)))


def endpoint_of(*, method: str, path: str) -> str:
    """The endpoint that serves the path, as the gateway finds it. `*`: none is registered."""
    if len(path) > LONGEST_PATH:
        raise refuse("path", "too_long", f"the path has {len(path):,} characters; the maximum is {LONGEST_PATH:,}")
    rows = Endpoint.objects.filter(retired=False).exclude(path="").values_list("name", "method", "path")
    found = EndpointFinder([Route(*row) for row in rows]).find(method, target_path(path), USUAL)
    return found or EVERYWHERE
