"""Which pools there are. A pool is a limit of the algorithm `pool`, known by its policy's name and its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from django.contrib.postgres.aggregates import StringAgg
from django.db.models import Case, Max, Q, QuerySet, TextField, Value, When
from django.db.models.functions import MD5, Cast, Concat

from headroom_edge.algorithms.base import SECOND_US, format_duration, per_text
from headroom_edge.algorithms.sharing import MOST_LEVELS, Borrowing, Pool
from quotas.models import Endpoint, Limit, Revision
from quotas.policies.limit_codec import row_limit
from quotas.policies.spec import EVERYWHERE
from tenants.models import Tenant

Kind = Literal["shared", "tier", "tenant"]

MOST_POOLS: Final = 200  # in a list; a tenant may have pools of its own, so there is no natural bound
SHARING: Final = (Pool.name, Borrowing.name)


@dataclass(frozen=True)
class PoolRow:
    """A pool as it is stored."""

    row: Limit

    @property
    def policy(self) -> str:
        return self.row.policy.name

    @property
    def name(self) -> str:
        return self.row.name.name

    @property
    def number(self) -> int:
        """As usage names it."""
        return self.row.name_id

    @property
    def scope(self) -> str:
        return self.row.policy.scope

    @property
    def tier(self) -> str | None:
        return self.row.policy.tier.name if self.row.policy.tier else None

    @property
    def tenant(self) -> str | None:
        return self.row.policy.tenant.name if self.row.policy.tenant else None

    @property
    def kind(self) -> Kind:
        """`shared`: one counter for all tenants. `tier`: each tenant of the tier has such a pool. `tenant`: one has."""
        return "tier" if self.tier else "tenant" if self.tenant else "shared"

    @property
    def mode(self) -> str:
        return self.row.mode

    @property
    def unit(self) -> str:
        return self.row.unit

    @cached_property
    def algorithm(self) -> Pool:
        found = row_limit(self.name, self.row).algorithm
        if not isinstance(found, Pool):
            raise TypeError(f"{self.row} is no pool")
        return found

    @property
    def per_us(self) -> int:
        """The time that its rate is for, as it was typed. A rate with decimals is kept in a longer one."""
        return self.algorithm.bucket.typed_per_us

    @property
    def per(self) -> str:
        return format_duration(self.per_us)

    @property
    def seconds(self) -> float:
        """The length of the time that its rate is for."""
        return self.per_us / SECOND_US

    @property
    def rate(self) -> float:
        """Units in that time."""
        return float(self.algorithm.bucket.typed_rate)

    @property
    def unit_words(self) -> str:
        noun = "req" if self.unit == "requests" else "units"
        return f"{noun}/{per_text(self.per_us)}"

    @property
    def place_words(self) -> str:
        return "all endpoints" if self.scope == EVERYWHERE else self.scope

    @cached_property
    def endpoints(self) -> list[int]:
        """The endpoints that count on it, by number. Empty: all."""
        if self.row.policy.endpoint_id is not None:
            return [self.row.policy.endpoint_id]
        if not self.row.policy.service:
            return []
        names = Endpoint.objects.filter(name__startswith=f"{self.row.policy.service}:")
        return list(names.order_by().values_list("number", flat=True)) or [-1]


def covers(scope: str, other: str) -> bool:
    """Whether what is counted on `other` is counted on `scope` too."""
    return scope in (EVERYWHERE, other) or scope == f"{other.partition(':')[0]}:{EVERYWHERE}"


def sharing_limits() -> QuerySet[Limit]:
    """Pools and borrowing limits, with their policies."""
    whole = ("name", "policy__tier", "policy__tenant", "policy__endpoint")
    return Limit.objects.select_related(*whole).filter(algorithm__in=SHARING).order_by("policy__name", "name__name")


def pools_found(
    *, tenant: Tenant | None = None, scope: str | None = None, most: int | None = MOST_POOLS
) -> list[PoolRow]:
    """Shared pools first. `tenant`: only those that hold for it. `scope`: only those that count this endpoint."""
    rows = sharing_limits().filter(algorithm=Pool.name)
    if tenant is not None:
        rows = rows.filter(
            Q(policy__tenant=tenant) | Q(policy__tier=tenant.tier_id) | Q(policy__tier=None, policy__tenant=None)
        )
    if scope is not None:
        service = scope.partition(":")[0]
        everywhere = Q(policy__endpoint=None, policy__service="")
        rows = rows.filter(Q(policy__endpoint__name=scope) | Q(policy__service=service) | everywhere)
    kind = Case(When(policy__tenant__isnull=False, then=2), When(policy__tier__isnull=False, then=1), default=0)
    return pools_of(rows.order_by(kind, "policy__name", "name__name")[:most])


def pools_of(rows: Iterable[Limit]) -> list[PoolRow]:
    found = [PoolRow(row) for row in rows]
    _add_endpoints(found)
    return found


def _add_endpoints(pools: Sequence[PoolRow]) -> None:
    """Those of all services in one query."""
    services = {pool.row.policy.service for pool in pools if pool.row.policy.service}
    rows = Endpoint.objects.order_by().values_list("name", "number") if services else ()
    numbers: dict[str, list[int]] = defaultdict(list)
    for name, number in rows:
        numbers[name.partition(":")[0]].append(number)
    for pool in pools:
        if pool.row.policy.service:
            pool.__dict__["endpoints"] = numbers[pool.row.policy.service] or [-1]


def pool_read(policy: str, limit: str) -> PoolRow | None:
    row = sharing_limits().filter(algorithm=Pool.name, policy__name=policy, name__name=limit).first()
    return None if row is None else PoolRow(row)


@dataclass(frozen=True, slots=True)
class PoolState:
    revision: int  # the newest that gave the pool, or a limit that borrows from it, its parameters
    version: str  # differs once such a limit was added, edited or removed


def pool_state(pool: PoolRow, lenders: Sequence[str]) -> PoolState:
    """`lenders`: the pool and the limits of everyone between it and its members."""
    borrows = Q(algorithm=Borrowing.name, parameters__parent__in=list(lenders))
    rows = Limit.objects.filter(Q(pk=pool.row.pk) | borrows)
    one = Concat(Cast("pk", TextField()), Value(":", TextField()), Cast("changed_revision", TextField()))
    found = rows.aggregate(newest=Max("changed_revision"), version=MD5(StringAgg(one, ",", order_by="pk")))
    return PoolState(int(found["newest"] or 0), str(found["version"] or "")[:16])


def is_change_of(pool: PoolRow, lenders: Collection[str], number: int) -> bool:
    """Whether this revision touched a limit that borrows from one of these, also if it is gone since."""
    row = Revision.objects.filter(number=number).only("before", "after").first()
    states = [state for side in (row.before, row.after) for state in side.values()] if row else []
    limits = [limit for state in states if state and "limits" in state for limit in _limits_within(pool, state)]
    return any(limit.get("parent") in lenders for limit in limits)


def _limits_within(pool: PoolRow, policy: Mapping[str, Any]) -> Collection[Mapping[str, Any]]:
    limits: Mapping[str, Mapping[str, Any]] = policy["limits"] if covers(pool.scope, policy["endpoint"]) else {}
    return limits.values()


def pools_named(text: str, most: int) -> list[PoolRow]:
    """Pools with this text in their name, or in that of their policy."""
    text = text.casefold()
    named = Q(name__name__contains=text) | Q(policy__name__contains=text)
    return [PoolRow(row) for row in sharing_limits().filter(named, algorithm=Pool.name)[:most]]


def pools_above() -> Mapping[int, frozenset[str]]:
    """Number of each limit that can deny for its pool → the pools of that name; several if tiers differ."""
    rows = Limit.objects.filter(algorithm__in=(Pool.name, Borrowing.name), mode="enforce")
    parents: dict[str, set[str]] = defaultdict(set)
    numbers: dict[str, int] = {}
    pools: set[str] = set()
    for number, name, algorithm, parent in rows.values_list(
        "name_id", "name__name", "algorithm", "parameters__parent"
    ).distinct():
        numbers[name] = number
        if algorithm == Pool.name:
            pools.add(name)
        else:
            parents[name].add(parent)
    return {number: frozenset(_above(name, parents, pools)) for name, number in numbers.items()}


def _above(name: str, parents: Mapping[str, Iterable[str]], pools: set[str]) -> set[str]:
    found, names = set[str](), {name}
    for _ in range(MOST_LEVELS):
        found |= names & pools
        names = {parent for each in names for parent in parents.get(each, ())}
    return found
