"""What pools will have promised after an edit: their live promises, with the new shares instead of the old ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import Final, NamedTuple

from django.db.models import Exists, OuterRef, Q

from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.changes.commit import Outcome, Proposed
from quotas.changes.snapshot import POLICY, States, split_key
from quotas.models import Limit
from quotas.policies.chains import Promise, promise
from quotas.policies.export import without_candidates
from quotas.policies.limit_codec import limit_parse, row_limit
from quotas.policies.spec import EVERYWHERE
from quotas.pools.members import members_read, tenant_members
from quotas.pools.queries import SHARING, PoolRow, covers, sharing_limits
from tenants.models import Tenant

MOST_TOLD: Final = 50  # each costs a few queries


class Place(NamedTuple):
    """Where a limit is. Neither a tier nor a tenant: for everyone."""

    tier: str | None
    tenant: str | None
    scope: str
    limit: str


class _Kept(NamedTuple):
    """Whose promise: that of a pool, or of the copy that a tenant has of its tier's pool."""

    pool: Place
    tenant: str


@dataclass(frozen=True, slots=True)
class PoolPromise:
    policy: str
    pool: str
    tenant: str  # whose copy of its tier's pool; empty: the pool as such
    promise: Promise

    @property
    def warnings(self) -> list[str]:
        whose = f" for tenant {self.tenant}" if self.tenant else ""
        return [f"pool {self.pool} of {self.policy}{whose}: {warning}" for warning in self.promise.warnings]


def warnings_of(outcome: Outcome[object]) -> list[str]:
    """What pools could not keep after the edit of a dry run."""
    if not isinstance(outcome, Proposed):
        return []
    promises = promises_after(outcome.proposal.before, outcome.proposal.after)
    return [warning for each in promises for warning in each.warnings]


def promises_after(before: States, after: States) -> list[PoolPromise]:
    """Of pools that an edit changes, or that a share which it changes borrows from; at most MOST_TOLD.

    The states are those of the objects that the edit changes; it is not written yet.
    """
    edit = _Edit(_Limits.of(before), _Limits.of(after))
    found = (edit.promise_of(kept) for kept in sorted(edit.kept, key=str)[:MOST_TOLD])
    return [each for each in found if each is not None]


@dataclass(frozen=True)
class _Limits:
    """Of policies before or after an edit."""

    policies: Mapping[Place, str]
    sharing: Mapping[Place, Algorithm]  # those that share and are switched on

    @classmethod
    def of(cls, states: States) -> _Limits:
        policies: dict[Place, str] = {}
        sharing: dict[Place, Algorithm] = {}
        for key, state in states.items():
            kind, name = split_key(key)
            if kind != POLICY or state is None:
                continue
            for limit, fields in (without_candidates(state) or {})["limits"].items():
                place = Place(state["tier"], state["tenant"], state["endpoint"], limit)
                policies[place] = name
                if fields["algorithm"] in SHARING and fields.get("mode") != "off":
                    sharing[place] = limit_parse(limit, fields).algorithm
        return cls(policies, sharing)


@dataclass(frozen=True)
class _Edit:
    before: _Limits
    after: _Limits

    @cached_property
    def changed(self) -> list[Place]:
        """Limits that share, or did."""
        old, new = self.before.sharing, self.after.sharing
        return [place for place in {**old, **new} if old.get(place) != new.get(place)]

    @cached_property
    def kept(self) -> set[_Kept]:
        found = {_Kept(place, "") for place in self.changed if isinstance(self.after.sharing.get(place), Pool)}
        for place, share in self.shares:
            lender = self.lender(place, share.parent)
            if lender is not None:
                found.add(_Kept(lender, place.tenant or "" if lender.tier else ""))
        return found

    @cached_property
    def shares(self) -> list[tuple[Place, Borrowing]]:
        """All that come or go, with those of tiers."""
        both = [(place, limits.sharing.get(place)) for place in self.changed for limits in (self.before, self.after)]
        own = [(place, each) for place, each in both if isinstance(each, Borrowing)]
        return [*own, *((place, share) for place, share, _ in self.replaced)]

    @cached_property
    def replaced(self) -> list[tuple[Place, Borrowing, int]]:
        """A tenant's first own limit replaces that of its tier; without it, that of its tier holds again."""
        old, new = self.before.policies.keys(), self.after.policies.keys()
        found = []
        for places, count in ((new - old, -1), (old - new, 1)):
            for place in places:
                tier = self.tiers.get(place.tenant or "")
                share = self.of_tiers.get(Place(tier, None, place.scope, place.limit)) if tier else None
                if share is not None:
                    found.append((place, share, count))
        return found

    def lender(self, place: Place, parent: str) -> Place | None:
        """The pool of this name that is nearest: the tenant's, the tier's or that of everyone."""
        tier = place.tier or self.tiers.get(place.tenant or "")
        owners = [(None, place.tenant), (tier, None), (None, None)]
        pools = [each for each in self.pools if each.limit == parent and covers(each.scope, place.scope)]
        found = [each for each in pools if (each.tier, each.tenant) in owners]
        return min(found, key=lambda each: owners.index((each.tier, each.tenant)), default=None)

    @cached_property
    def tiers(self) -> dict[str, str]:
        """Of the tenants that have limits of their own in this edit."""
        names = {place.tenant for place in (*self.before.policies, *self.after.policies) if place.tenant}
        rows = Tenant.objects.filter(name__in=names, archived_at=None) if names else Tenant.objects.none()
        return dict(rows.values_list("name", "tier__name"))

    @cached_property
    def live(self) -> dict[Place, PoolRow]:
        """The pools that the edit may be about."""
        names = {share.parent for _, share in self.shares} | {place.limit for place in self.changed}
        owned = Q(policy__tenant__name__in=list(self.tiers)) | Q(policy__tenant=None)
        rows = sharing_limits().exclude(mode="off").filter(owned, algorithm=Pool.name, name__name__in=names)
        return {_place(row): PoolRow(row) for row in rows} if names else {}

    @cached_property
    def pools(self) -> dict[Place, Pool]:
        """After the edit."""
        kept = {place: row.algorithm for place, row in self.live.items() if place not in self.before.policies}
        return kept | {place: each for place, each in self.after.sharing.items() if isinstance(each, Pool)}

    def promise_of(self, kept: _Kept) -> PoolPromise | None:
        pool, row = self.pools.get(kept.pool), self.live.get(kept.pool)
        if pool is None:
            return None
        told = promise(pool, [])
        if row is not None:
            live = (tenant_members(row, kept.tenant) if kept.tenant else members_read(row)).promise
            told = replace(live, rate=told.rate, reserve=told.reserve)
        told = reduce(lambda so_far, each: _with(so_far, *each), self._shares(kept), told)
        policy = row.policy if row is not None else self.after.policies[kept.pool]
        return PoolPromise(policy, kept.pool.limit, kept.tenant, told)

    def _shares(self, kept: _Kept) -> Iterator[tuple[Borrowing, int]]:
        """Those that come, and with a negative count those that go."""
        for place in self.changed:
            count = self._count(place, kept)
            for limits, sign in ((self.before, -1), (self.after, 1)):
                algorithm = limits.sharing.get(place)
                if count and isinstance(algorithm, Borrowing) and self.lender(place, algorithm.parent) == kept.pool:
                    yield algorithm, sign * count
        for place, share, count in self.replaced:
            is_counted = place.tenant == kept.tenant or not kept.pool.tier
            if is_counted and self.lender(place, share.parent) == kept.pool:
                yield share, count

    def _count(self, place: Place, kept: _Kept) -> int:
        """How many such shares the pool has."""
        if kept.pool.tier and not kept.tenant:
            return int(place.tier == kept.pool.tier)
        if kept.tenant:
            return int(place.tenant == kept.tenant)
        return self.without_own[place] if place.tier else 1

    @cached_property
    def of_tiers(self) -> dict[Place, Borrowing]:
        """The shares that tiers give after the edit."""
        changed = self.before.policies.keys() ^ self.after.policies.keys()
        names = {place.limit for place in changed if place.tenant}
        rows = sharing_limits().exclude(mode="off").filter(policy__tier__name__in=set(self.tiers.values()))
        live = {_place(row): row_limit(row.name.name, row).algorithm for row in rows.filter(name__name__in=names)}
        kept = {place: each for place, each in live.items() if place not in self.before.policies}
        every = kept | {place: each for place, each in self.after.sharing.items() if place.tier}
        return {place: each for place, each in every.items() if isinstance(each, Borrowing)}

    @cached_property
    def without_own(self) -> Mapping[Place, int]:
        """By limit of a tier: how many of its tenants have none of their own instead, as it is now."""
        return defaultdict(int, {place: _without_own(place) for place in self.changed if place.tier})


def _without_own(place: Place) -> int:
    endpoint = None if place.scope == EVERYWHERE else place.scope
    own = Limit.objects.filter(policy__tenant=OuterRef("pk"), name__name=place.limit, policy__endpoint__name=endpoint)
    return Tenant.objects.filter(archived_at=None, tier__name=place.tier).exclude(Exists(own)).count()


def _place(row: Limit) -> Place:
    policy = row.policy
    tier, tenant = policy.tier.name if policy.tier else None, policy.tenant.name if policy.tenant else None
    return Place(tier, tenant, policy.scope, row.name.name)


def _with(told: Promise, share: Borrowing, count: int) -> Promise:
    more = Fraction(share.assured * SECOND_US, share.per_us)
    return replace(told, assured=told.assured + count * more, bursts=told.bursts + count * share.burst)
