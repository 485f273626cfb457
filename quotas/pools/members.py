"""Who gets a share of a pool, and how much: in pages, so that a pool of a large tier opens as fast as a small one.

Of a shared pool the members are tenants: those of a tier whose limits borrow from the pool, and those with a borrowing
limit of their own. Of a tenant's pool they are its limits that borrow from it. Limits of everyone that borrow from a
shared pool are nodes between it and its tenants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Any, Final

from django.db.models import BigIntegerField, Count, Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone

from headroom_edge.algorithms.base import SECOND_US, Algorithm, parse_duration_us
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import highest
from quotas.keyset import KeysetPage, SortColumn, keyset_page
from quotas.lookups import find_active_tenant
from quotas.models import Limit, Policy
from quotas.policies.chains import Promise, promise
from quotas.policies.configuration import configuration_part
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.limit_codec import row_limit
from quotas.policies.resolve import Effective, resolve
from quotas.policies.spec import EVERYWHERE, Endpoint, to_us
from quotas.pools.queries import PoolRow, covers, sharing_limits
from tenants.models import Tenant

ORDERS: Final = {
    "name": SortColumn("name"),
    "asked": SortColumn("summary__asked", "int", tie="summary__tenant_id"),
}
PAGE: Final = 25


@dataclass(frozen=True, slots=True)
class Share:
    """A borrowing limit of one tenant, or of everyone (`tenant` is empty)."""

    tenant: str
    number: int  # of the tenant; 0 for a node of everyone
    limit: str
    scope: str
    parent: str  # the limit that it borrows from
    level: int  # 2: right under the pool
    algorithm: Borrowing
    subject: str
    source: str  # `tier pro × *`
    policy: str  # that gives it
    is_own: bool = False  # from a policy of the tenant's own
    priority: str = ""  # of its requests; empty: the endpoint's, which differ
    overrides: tuple[int, ...] = ()
    children: tuple[Share, ...] = ()

    @property
    def is_counted_apart(self) -> bool:
        """Usage knows tenants and endpoints, not the other dimensions of a subject."""
        return self.subject == "tenant"

    def assured(self, pool: Pool) -> Fraction:
        """Guaranteed, in the time that the pool's rate is for."""
        return _in_time_of(pool, self.algorithm.assured, self.algorithm.per_us)

    def ceiling(self, pool: Pool) -> Fraction | None:
        most = self.algorithm.ceiling
        return None if most is None else _in_time_of(pool, most, self.algorithm.per_us)


@dataclass(frozen=True, slots=True)
class Members:
    nodes: Sequence[Share]  # limits of everyone between the pool and its tenants, parents first
    shares: Sequence[Share]  # of this page
    count: int  # in all, also on other pages
    promise: Promise  # what the pool has promised to all of them
    next: str = ""  # cursors
    previous: str = ""

    @property
    def is_whole(self) -> bool:
        return not (self.next or self.previous)

    @property
    def limits(self) -> frozenset[str]:
        """The names of the limits that a denial may name."""
        return frozenset(share.limit for share in every_share((*self.nodes, *self.shares)))

    def under(self, lender: str) -> list[Share]:
        return [share for share in self.shares if share.parent == lender]


def _in_time_of(pool: Pool, units: int, per_us: int) -> Fraction:
    return Fraction(units * pool.bucket.typed_per_us, per_us)


def members_read(
    pool: PoolRow, *, order: str = "-asked", after: str = "", before: str = "", size: int = PAGE
) -> Members:
    """Of a tier's pool: the limits that borrow from it, as a tenant without anything of its own has them."""
    if pool.kind == "shared":
        return _SharedMembers.of(pool).page(order, after, before, size)
    if pool.kind == "tier":
        part = configuration_part(tiers=[str(pool.tier)])
        layers = PolicyIndex.of_configuration(part).of_tier(str(pool.tier))
        return _inside(pool, _Plan(layers, None, part.endpoints))
    return tenant_members(pool, str(pool.tenant))


def tenant_members(pool: PoolRow, tenant: str) -> Members:
    """Of the pool of one tenant: its own, or the one that its tier gives it."""
    part = configuration_part(tenants=[tenant])
    layers = PolicyIndex.of_configuration(part).of_tenant(part.tenants[tenant])
    row = Tenant.objects.select_related("tier").get(name=tenant)
    return _inside(pool, _Plan(layers, row, part.endpoints))


def shares_of(pool: PoolRow, tenants: Sequence[str]) -> list[Share]:
    """The shares of these tenants, of everyone, and of the tenant or tier whose pool it is, with what is below them."""
    if pool.kind != "shared":
        return every_share(members_read(pool).shares)
    found = _SharedMembers.of(pool)
    return every_share((*found.nodes, *found.shares_of(_active(tenants))))


def shares_now(pool: PoolRow, tenants: Collection[str]) -> list[Share]:
    """The same, without tenants that are gone."""
    rows = Tenant.objects.filter(name__in=tenants, archived_at=None).order_by("name")
    return shares_of(pool, list(rows.values_list("name", flat=True)))


def _active(names: Sequence[str]) -> list[Tenant]:
    rows = {row.name: row for row in Tenant.objects.select_related("tier").filter(name__in=names)}
    for name in names:
        if name not in rows or rows[name].archived_at is not None:
            find_active_tenant(name)  # refuses it
    return [rows[name] for name in names]


def every_share(shares: Iterable[Share]) -> list[Share]:
    """With those below them."""
    found: list[Share] = []
    for share in shares:
        found += [share, *every_share(share.children)]
    return found


def _inside(pool: PoolRow, plan: _Plan) -> Members:
    found = plan.shares(pool.scope, {pool.name: 1})
    return Members((), found, len(found), promise(pool.algorithm, [share.algorithm for share in found]))


@dataclass(frozen=True)
class _Plan:
    """The limits of one tenant, or of a tier."""

    layers: Layers
    tenant: Tenant | None
    endpoints: Mapping[str, Endpoint]

    def shares(self, scope: str, lenders: Mapping[str, int]) -> list[Share]:
        """What borrows from one of the lenders (name → level) within the scope, with what borrows from it in turn."""
        resolved = resolve(self.layers, to_us(timezone.now()))
        every = [*resolved.everywhere, *(one for own in resolved.own.values() for one in own)]
        return list(self._under(every, scope, lenders))

    def _under(self, every: Sequence[Effective], scope: str, lenders: Mapping[str, int]) -> Iterator[Share]:
        for effective in sorted(every, key=lambda one: (one.scope, one.limit.name)):
            algorithm = effective.limit.algorithm
            if not isinstance(algorithm, Borrowing) or effective.limit.mode == "off":
                continue
            if algorithm.parent in lenders and covers(scope, effective.scope):
                level = lenders[algorithm.parent] + 1
                below = {effective.limit.name: level}
                yield self._share(effective, algorithm, level, tuple(self._under(every, effective.scope, below)))

    def _share(self, effective: Effective, algorithm: Borrowing, level: int, children: tuple[Share, ...]) -> Share:
        policy = self.layers.ladder(effective.scope, effective.limit.name)[0].policy
        tenant = self.tenant
        return Share(
            tenant=tenant.name if tenant else "",
            number=tenant.number if tenant else 0,
            limit=effective.limit.name,
            scope=effective.scope,
            parent=algorithm.parent,
            level=level,
            algorithm=algorithm,
            subject=str(effective.limit.subject),
            source=effective.source,
            policy=policy.name,
            is_own=policy.tenant is not None,
            priority=self._priority(effective.scope),
            overrides=effective.overrides,
            children=children,
        )

    def _priority(self, scope: str) -> str:
        endpoint = self.endpoints.get(scope)
        return highest(endpoint.priority if endpoint else "", self.layers.highest)


@dataclass(frozen=True)
class _SharedMembers:
    pool: PoolRow
    nodes: list[Share]
    of_tiers: list[Limit]  # limits of tiers that borrow from the pool or a node
    lenders: dict[str, int] = field(default_factory=dict)  # name → level

    @classmethod
    def of(cls, pool: PoolRow) -> _SharedMembers:
        nodes = list(_nodes(pool))
        lenders = {pool.name: 1} | {node.limit: node.level for node in nodes}
        rows = sharing_limits().exclude(mode="off").filter(policy__tier__isnull=False)
        tiers = list(rows)
        # A tier's own limit of that name is nearer than the shared one.
        nearer = {(row.policy.tier_id, row.name.name) for row in tiers}
        found = [
            row
            for row in tiers
            if _parent(row) in lenders
            and covers(pool.scope, row.policy.scope)
            and (row.policy.tier_id, _parent(row)) not in nearer
        ]
        return cls(pool, nodes, found, lenders)

    def page(self, order: str, after: str, before: str, size: int) -> Members:
        rows = self.tenants().filter(summary__isnull=False)
        page: KeysetPage[Tenant] = keyset_page(
            rows.select_related("tier"), ORDERS, order=order, after=after, before=before, size=size
        )
        shares = self.shares_of(page.rows)
        is_whole = not (page.next or page.previous)
        count = len(page.rows) if is_whole else rows.count()
        told = self._promise(shares) if is_whole else self._promise_of_all()
        return Members(self.nodes, shares, count, told, page.next, page.previous)

    def shares_of(self, tenants: Sequence[Tenant]) -> list[Share]:
        part = configuration_part(tenants=[tenant.name for tenant in tenants])
        index = PolicyIndex.of_configuration(part)
        plans = (_Plan(index.of_tenant(part.tenants[row.name]), row, part.endpoints) for row in tenants)
        return [share for plan in plans for share in plan.shares(self.pool.scope, self.lenders)]

    def tenants(self) -> QuerySet[Tenant]:
        """Without archived ones. An override that makes a limit borrow makes nobody a member."""
        own = Q(Exists(self._own().filter(policy__tenant=OuterRef("pk"))))
        return Tenant.objects.filter(archived_at=None).filter(reduce(or_, self._of_tiers(), own))

    def _own(self) -> QuerySet[Limit]:
        """Tenants' own limits that borrow from the pool."""
        rows = Limit.objects.exclude(mode="off").filter(
            algorithm=Borrowing.name, parameters__parent__in=list(self.lenders), policy__tenant__isnull=False
        )
        if self.pool.scope == EVERYWHERE:
            return rows
        return rows.filter(policy__endpoint__in=self.pool.endpoints)

    def _of_tiers(self) -> Iterator[Q]:
        for row in self.of_tiers:
            yield Q(tier=row.policy.tier_id) & ~Q(Exists(self._replaced(row).filter(policy__tenant=OuterRef("pk"))))

    def _replaced(self, row: Limit) -> QuerySet[Limit]:
        """Tenants' own limits that hold instead of the tier's, and do not borrow from the pool."""
        instead = Limit.objects.filter(
            policy__tenant__isnull=False, name=row.name_id, policy__endpoint=row.policy.endpoint_id
        )
        return instead.exclude(algorithm=Borrowing.name, parameters__parent__in=list(self.lenders))

    def _promise(self, shares: Sequence[Share]) -> Promise:
        nodes = [node for node in self.nodes if node.parent == self.pool.name]
        near = [share for share in shares if share.parent == self.pool.name]
        return promise(self.pool.algorithm, [share.algorithm for share in (*nodes, *near)])

    def _promise_of_all(self) -> Promise:
        """The same, summed in the database, without overrides."""
        told = promise(self.pool.algorithm, [node.algorithm for node in self.nodes if node.parent == self.pool.name])
        assured, bursts = told.assured, told.bursts
        counts = self._without_own()
        for row in self.of_tiers:
            algorithm = row_limit(row.name.name, row).algorithm
            if isinstance(algorithm, Borrowing) and algorithm.parent == self.pool.name:
                count = counts[_counted(row)]
                assured += count * Fraction(algorithm.assured * SECOND_US, algorithm.per_us)
                bursts += count * algorithm.burst
        for each in self._own_sums():
            assured += Fraction(int(each["shares"]) * SECOND_US, parse_duration_us(each["per"]))
            bursts += int(each["bursts"])
        return Promise(told.rate, assured, bursts, told.reserve)

    def _without_own(self) -> dict[str, int]:
        """How many tenants have each limit of a tier, and none of their own instead."""
        found: dict[str, int] = Tenant.objects.filter(archived_at=None).aggregate(
            **{_counted(row): Count("pk", filter=self._has(row)) for row in self.of_tiers}
        )
        return found

    def _has(self, row: Limit) -> Q:
        own = Limit.objects.filter(
            policy__tenant=OuterRef("pk"), name=row.name_id, policy__endpoint=row.policy.endpoint_id
        )
        return Q(tier=row.policy.tier_id) & ~Q(Exists(own))

    def _own_sums(self) -> QuerySet[Any, Any]:
        rows = self._own().filter(parameters__parent=self.pool.name, policy__tenant__archived_at=None)
        return (
            rows.order_by()
            .annotate(per=KT("parameters__per"))
            .values("per")
            .annotate(shares=_total("parameters__assured"), bursts=_total("parameters__burst"), rows=Count("pk"))
        )


def _counted(row: Limit) -> str:
    return f"of_{row.pk}"


def _total(path: str) -> Coalesce:
    return Coalesce(Sum(Cast(KT(path), BigIntegerField())), 0)


def _parent(row: Limit) -> str:
    return str(row.parameters.get("parent", ""))


def _nodes(pool: PoolRow) -> Iterator[Share]:
    """Limits of everyone that borrow from a shared pool, parents first."""
    rows = [
        row for row in sharing_limits().exclude(mode="off").filter(**_EVERYONE) if covers(pool.scope, row.policy.scope)
    ]
    lenders = {pool.name: 1}
    for level in (2, 3):
        found = [row for row in rows if lenders.get(_parent(row)) == level - 1]
        for row in found:
            algorithm: Algorithm = row_limit(row.name.name, row).algorithm
            if isinstance(algorithm, Borrowing):
                yield _node(row, row.policy, algorithm, level)
        lenders |= {row.name.name: level for row in found}


_EVERYONE: Final = {"policy__tier": None, "policy__tenant": None}


def _node(row: Limit, policy: Policy, algorithm: Borrowing, level: int) -> Share:
    return Share(
        tenant="",
        number=0,
        limit=row.name.name,
        scope=policy.scope,
        parent=algorithm.parent,
        level=level,
        algorithm=algorithm,
        subject=row.subject,
        source=f"global × {policy.scope}",
        policy=policy.name,
    )
