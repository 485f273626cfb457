"""Every limit of a tier and of everyone, by endpoint: a cell's own limits and those it inherits.

The number of queries does not depend on the number of endpoints, tiers and tenants.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Q

from quotas.models import Endpoint, Limit, Override, Policy
from quotas.overrides import ACTIVE, overrides_in
from quotas.policies import spec
from quotas.policies.limit_codec import row_limit
from tenants.models import Tenant, Tier

OF_TENANT = "@"  # in keys of cells; cannot begin the name of a tier
EVERYONE = ""  # the column of limits that count all tenants together

Place = tuple[str, str]  # tier or EVERYONE, scope


@dataclass(frozen=True, slots=True)
class MatrixLimit:
    limit: spec.Limit
    revision: int  # that gave it its present parameters


@dataclass(frozen=True, slots=True)
class Cell:
    tier: str  # of a tenant's cell: the tier it is on
    scope: str
    policy: str = ""  # empty: there is none
    limits: tuple[MatrixLimit, ...] = ()
    inherited: tuple[MatrixLimit, ...] = ()  # limits of `*` that apply here, and count there
    own: int = 0  # overrides in force and policies of single tenants of the tier
    tenant: str = ""  # the limits are this tenant's own

    @property
    def key(self) -> str:
        """`pro/rides:get`, `/rides:get` (everyone) or `@acme/rides:get`; `cell_read` takes it."""
        return f"{OF_TENANT}{self.tenant}/{self.scope}" if self.tenant else f"{self.tier}/{self.scope}"

    @property
    def owner(self) -> str:
        return self.tenant or self.tier


@dataclass(frozen=True, slots=True)
class Line:
    scope: str  # `*`, `service:*` or an endpoint
    method: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Column:
    tier: str
    number: int  # 0: everyone


@dataclass(frozen=True, slots=True)
class Matrix:
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]

    def cell(self, tier: str, scope: str) -> Cell | None:
        found = (c for line in self.lines if line.scope == scope for c in line.cells if c.tier == tier)
        return next(found, None) or self._service(tier, scope)

    def _service(self, tier: str, scope: str) -> Cell | None:
        """Of a whole service that has no limits yet, and so no line."""
        service = scope.removesuffix(spec.EVERYWHERE)
        if tier != EVERYONE or not service.endswith(":") or service == scope:
            return None
        is_known = any(line.scope.startswith(service) for line in self.lines)
        everywhere = self.cell(tier, spec.EVERYWHERE)
        return Cell(tier, scope, inherited=everywhere.limits if everywhere else ()) if is_known else None


@dataclass(slots=True)
class _Standing:
    """Policies by place."""

    names: dict[Place, str] = field(default_factory=dict)
    limits: dict[Place, list[MatrixLimit]] = field(default_factory=lambda: defaultdict(list))

    def inherited(self, place: Place) -> tuple[MatrixLimit, ...]:
        """Limits of `*` (for everyone: of the service too), without those that the place replaces by name."""
        tier, scope = place
        own = {one.limit.name for one in self.limits[place]}
        above = self.limits[tier, spec.EVERYWHERE] if scope != spec.EVERYWHERE else []
        if tier == EVERYONE and not scope.endswith(spec.EVERYWHERE):
            # Limits for everyone add up; none replaces another.
            return (*self.limits[tier, f"{scope.partition(':')[0]}:*"], *above)
        return tuple(one for one in above if one.limit.name not in own)


def matrix_read(now: datetime) -> Matrix:
    tiers = list(Tier.objects.filter(retired=False).order_by("number").values_list("number", "name"))
    endpoints = dict(Endpoint.objects.filter(retired=False).order_by("name").values_list("name", "method"))
    standing = _standing()
    services = sorted({scope for _, scope in standing.names if scope.endswith(":*")})
    scopes = {spec.EVERYWHERE: "", **dict.fromkeys(services, ""), **endpoints}
    own = _own(now, dict(tiers))
    columns = (*(Column(name, number) for number, name in tiers), Column(EVERYONE, 0))
    lines = tuple(Line(scope, method, _cells(scope, columns, standing, own)) for scope, method in scopes.items())
    return Matrix(columns, lines)


def _cells(scope: str, columns: Sequence[Column], standing: _Standing, own: Mapping[Place, int]) -> tuple[Cell, ...]:
    return tuple(
        Cell(
            tier=column.tier,
            scope=scope,
            policy=standing.names.get((column.tier, scope), ""),
            limits=tuple(standing.limits[column.tier, scope]),
            inherited=standing.inherited((column.tier, scope)),
            own=own.get((column.tier, scope), 0),
        )
        for column in columns
    )


def _standing() -> _Standing:
    found = _Standing()
    places: dict[int, Place] = {}
    for row in Policy.objects.filter(tenant=None).select_related("tier", "endpoint"):
        place = (row.tier.name if row.tier else EVERYONE, row.scope)
        found.names[place] = row.name
        places[row.pk] = place
    rows = Limit.objects.filter(policy__tenant=None).select_related("name").order_by("name__name")
    for limit in rows:
        if limit.policy_id in places:
            found.limits[places[limit.policy_id]].append(
                MatrixLimit(row_limit(limit.name.name, limit), limit.changed_revision_id)
            )
    return found


def _own(now: datetime, tiers: Mapping[int, str]) -> Counter[Place]:
    """Number of overrides and policies of single tenants, by tier and scope."""
    found: Counter[Place] = Counter()
    fields = ("tenant__tier_id", "endpoint__name")
    overrides = Override.objects.filter(overrides_in(ACTIVE, now)).order_by()
    policies = Policy.objects.filter(tenant__archived_at=None).exclude(tenant=None).order_by()
    for rows in (overrides, policies):
        for tier, endpoint, count in rows.values_list(*fields).annotate(Count("id")):
            found[tiers[tier], endpoint or spec.EVERYWHERE] += count
    return found


def tenant_cell_read(tenant: str, scope: str) -> Cell | None:
    """The limits of a tenant's own at a place; None: there is no such tenant or place."""
    row = Tenant.objects.select_related("tier").filter(name=tenant).first()
    known = scope == spec.EVERYWHERE or Endpoint.objects.filter(name=scope, retired=False).exists()
    if row is None or not known:
        return None
    found = _Standing()
    of_both = Policy.objects.filter(Q(tenant=row) | Q(tier=row.tier, tenant=None)).select_related("endpoint")
    places = {one.pk: (tenant if one.tenant_id else "", one.scope) for one in of_both}
    found.names = {place: one.name for one in of_both for place in [places[one.pk]]}
    for limit in Limit.objects.filter(policy__in=places).select_related("name").order_by("name__name"):
        held = MatrixLimit(row_limit(limit.name.name, limit), limit.changed_revision_id)
        found.limits[places[limit.policy_id]].append(held)
    own = tuple(found.limits[tenant, scope])
    # From most to least specific: the first limit of a name counts.
    others = [(tenant, spec.EVERYWHERE), ("", scope), ("", spec.EVERYWHERE)]
    inherited: dict[str, MatrixLimit] = {}
    for place in others:
        if place != (tenant, scope):
            for one in found.limits[place]:
                inherited.setdefault(one.limit.name, one)
    names = {one.limit.name for one in own}
    rest = tuple(one for name, one in inherited.items() if name not in names)
    return Cell(row.tier.name, scope, found.names.get((tenant, scope), ""), own, rest, tenant=tenant)
