"""Plans of the reference limiter: the limits of a request, grouped into records by scope and subject as in Redis."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from headroom_edge.algorithms.adapted import AdaptedBucket
from headroom_edge.algorithms.base import Algorithm
from headroom_edge.algorithms.bucket import Gcra, TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.plan.priority import USUAL, Priority
from headroom_edge.plan.subject import Subject
from quotas.policies.adapt import Adapt
from quotas.policies.chains import chains_of
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.resolve import FOREVER_US, Effective, globals_at, resolve
from quotas.policies.spec import EVERYWHERE, Generation, Limit, Policy, repeat_tags

# The range in which the store's clock is exact.
FIRST_S = 0
LAST_S = 4_102_444_800  # the end of the year 2099


def on_calendar(limit: Limit, timezone: str) -> Limit:
    """The limit with the calendar periods of a time zone; its past parameters and its candidate too."""
    return replace(
        limit,
        algorithm=_laid_out(limit.algorithm, timezone),
        candidate=_laid_out(limit.candidate, timezone) if limit.candidate else None,
        past=tuple(Generation(_laid_out(g.algorithm, timezone), g.since_us, g.carry) for g in limit.past),
    )


def _laid_out(algorithm: Algorithm, timezone: str) -> Algorithm:
    if not isinstance(algorithm, CalendarQuota):
        return algorithm
    return algorithm.on(_boundaries(algorithm, timezone))


@lru_cache(maxsize=256)
def _boundaries(algorithm: CalendarQuota, timezone: str) -> tuple[int, ...]:
    return algorithm.boundaries(timezone, FIRST_S, LAST_S)


RecordKey = tuple[str | None, str, str, int, tuple[str, ...]]
Role = Literal["enforce", "shadow", "candidate"]


@dataclass(frozen=True, slots=True)
class AppliedLimit:
    limit: Limit
    scope: str = EVERYWHERE
    is_global: bool = False
    is_replaced: bool = False  # by a limit of the same name on the endpoint; only its state is kept in the record


@dataclass(frozen=True, slots=True)
class LimitIdentity:
    """Identifies a limit within a record."""

    name: str
    is_candidate: bool = False


@dataclass(frozen=True, slots=True)
class PlanMember:
    """A limit in a record, or the candidate beside it."""

    identity: LimitIdentity
    algorithm: Algorithm
    role: Role
    counts_requests: bool
    is_replaced: bool
    adopts: LimitIdentity | None  # the candidate whose state it takes over
    generations: tuple[Generation, ...]  # newest first; the first one is in force
    adapt: Adapt | None = None

    # Tell apart generations with equal parameters (quotas.policies.spec.repeat_tags).
    turns: tuple[int, ...] = field(init=False, compare=False)
    is_concurrency: bool = field(init=False, compare=False)
    is_bucket: bool = field(init=False, compare=False)
    shares: bool = field(init=False, compare=False)  # it is judged with its chain

    def __post_init__(self) -> None:
        object.__setattr__(self, "turns", repeat_tags(self.generations))
        object.__setattr__(self, "is_concurrency", self.algorithm.kind in "ca")
        object.__setattr__(self, "is_bucket", self.algorithm.kind in "tgl")
        object.__setattr__(self, "shares", self.algorithm.kind in "pb")

    def judge(self, factor: int) -> Algorithm | AdaptedBucket:
        """What decides while the limits that adapt have this factor, in 1/1000."""
        if self.adapt is None or not isinstance(self.algorithm, TokenBucket | Gcra):
            return self.algorithm
        bounded = max(self.adapt.least, min(factor, self.adapt.most))
        return AdaptedBucket(self.algorithm, bounded, self.adapt.least)

    def index_of(self, written: "PlanMember") -> int | None:
        """The index of the generation that a record was written under; None: unknown."""
        same = [i for i, generation in enumerate(self.generations) if generation.algorithm == written.algorithm]
        exact = [i for i in same if self.turns[i] == written.turns[0]]
        earlier = [i for i in same if i > 0]  # the turn is no longer known: take the newest earlier one
        return next(iter(exact or earlier or same), None)


@dataclass(frozen=True, slots=True)
class PlanGroup:
    scope: str
    subject: Subject
    is_global: bool
    members: tuple[PlanMember, ...]
    subject_text: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "subject_text", str(self.subject))

    def key(self, tenant: str, values: Mapping[str, str | None]) -> RecordKey:
        owner = None if self.is_global else tenant
        if not self.subject.alternatives:
            return (owner, self.scope, self.subject_text, 0, ())
        return (owner, self.scope, self.subject_text, *self.subject.chosen(values))


class Place(NamedTuple):
    """Of a member: the index of its group, and its index in it."""

    group: int
    member: int


@dataclass(frozen=True, slots=True)
class ReferencePlan:
    """Limits in the order in which they are checked, grouped by (global, scope, subject)."""

    groups: tuple[PlanGroup, ...]
    has_concurrency: bool
    chains: tuple[tuple[Place, ...], ...] = ()  # of limits that share, leaf first
    priority: Priority = USUAL

    @classmethod
    def of(cls, applied: Iterable[AppliedLimit], priority: Priority = USUAL) -> "ReferencePlan":
        """Raises CompileError if limits that share form no chain."""
        applied = tuple(applied)
        grouped: dict[tuple[bool, str, Subject], list[PlanMember]] = {}
        for one in applied:
            if one.limit.mode != "off":
                members = grouped.setdefault((one.is_global, one.scope, one.limit.subject), [])
                members.extend(_members(one))
        groups = tuple(
            PlanGroup(scope, subject, everyone, tuple(found)) for (everyone, scope, subject), found in grouped.items()
        )
        has_concurrency = any(member.is_concurrency for group in groups for member in group.members)
        return cls(groups, has_concurrency, _chains(applied, groups), priority)

    @classmethod
    def of_limits(cls, *limits: Limit) -> "ReferencePlan":
        return cls.of(AppliedLimit(limit) for limit in limits)


def applied_at(policies: Iterable[Policy], tenant: str, tier: str, endpoint: str) -> list[AppliedLimit]:
    """The limits of a tenant without overrides, in the order in which the compiler puts them into a plan.

    Within a record the compiler orders them by number; here they are ordered by name.
    """
    index = PolicyIndex.of(policies, ())
    resolved = resolve(Layers(index.tiers.get(tier, {}), index.tenants.get(tenant, {})), FOREVER_US)
    effective = [*resolved.at(endpoint), *globals_at(index.globals, endpoint)]
    own = {one.limit.name for one in resolved.own.get(endpoint, ())}
    groups = {_group_key(one) for one in effective if one.limit.mode != "off"}
    replaced = [one for one in resolved.everywhere if one.limit.name in own and _group_key(one) in groups]
    members = [AppliedLimit(one.limit, one.scope, one.is_global) for one in effective]
    members += [AppliedLimit(one.limit, one.scope, is_replaced=True) for one in replaced]
    return sorted(members, key=lambda one: (*_group_key(one), one.limit.name))


def _chains(applied: Iterable[AppliedLimit], groups: tuple[PlanGroup, ...]) -> tuple[tuple[Place, ...], ...]:
    """In the order in which the compiler puts them into a plan."""
    in_force = [one for one in applied if one.limit.mode != "off" and not one.is_replaced]
    effective = [Effective(one.limit, one.scope, one.scope, is_global=one.is_global) for one in in_force]
    places = {
        (group.is_global, group.scope, member.identity): Place(number, index)
        for number, group in enumerate(groups)
        for index, member in enumerate(group.members)
        if not member.is_replaced
    }
    return tuple(
        sorted(
            tuple(places[one.is_global, one.scope, LimitIdentity(one.limit.name)] for one in chain.path)
            for chain in chains_of(effective, EVERYWHERE)
        )
    )


def _group_key(one: Effective | AppliedLimit) -> tuple[bool, str, str]:
    return one.is_global, one.scope, str(one.limit.subject)


def _members(applied: AppliedLimit) -> Iterator[PlanMember]:
    limit = applied.limit
    candidate = LimitIdentity(limit.name, is_candidate=True)
    counts_requests = limit.unit == "requests"
    yield PlanMember(
        LimitIdentity(limit.name),
        limit.algorithm,
        "enforce" if limit.mode == "enforce" else "shadow",
        counts_requests,
        applied.is_replaced,
        candidate if limit.adopts_candidate else None,
        (Generation(limit.algorithm, limit.since_us, limit.carry), *limit.past),
        limit.adapt,
    )
    if limit.candidate is not None:
        generation = Generation(limit.candidate, 0, "reset")
        yield PlanMember(
            candidate,
            limit.candidate,
            "candidate",
            counts_requests,
            applied.is_replaced,
            None,
            (generation,),
            limit.adapt,
        )
