"""Whom a change affects, and the limits of each before and after it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from django.db.models import Q, QuerySet
from django.utils import timezone

from quotas.caller import check_waiting
from quotas.changes.foresight import foreseen
from quotas.changes.snapshot import (
    CHANGE,
    ENDPOINT,
    OVERRIDE,
    POLICY,
    TENANT,
    TIER,
    State,
    States,
    key_of,
    present_states,
    rewound,
    split_key,
)
from quotas.policies.compare import (
    TOLERATED,
    Cut,
    Plan,
    Tightened,
    Unenforced,
    cuts,
    same_enforced,
    tightened,
    unenforced,
)
from quotas.policies.configuration import configuration_part, tenants_with_own_limits
from quotas.policies.diff import ObjectDiff, differences
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.resolve import moments
from quotas.policies.spec import Configuration, to_us
from tenants.models import Tenant, Tier

MOST_NAMES = 100  # that an effect lists


@dataclass(frozen=True, slots=True)
class Targets:
    tenants: frozenset[str]
    newcomers: frozenset[str]  # tenants that have just been created, and have what their tier has
    tiers: frozenset[str]
    is_common: bool  # endpoints or global limits, which every plan holds

    @classmethod
    def of(cls, touched: Iterable[str], before: Mapping[str, State], after: Mapping[str, State]) -> Targets:
        found = {target for key in touched for state in (before[key], after[key]) for target in _targets(key, state)}
        tenants, tiers = (frozenset(name for k, name in found if k == kind) for kind in (TENANT, TIER))
        newcomers = frozenset(name for name in tenants if before.get(key_of(TENANT, name), {}) is None)
        return cls(tenants, newcomers, tiers, any(kind == ENDPOINT for kind, _ in found))


def _targets(key: str, state: State) -> list[tuple[str, str]]:
    kind, name = split_key(key)
    if kind in (TENANT, TIER):
        return [(kind, name)]
    if kind == ENDPOINT:
        return [(ENDPOINT, "")]
    if state is None:
        return []
    if kind == CHANGE:
        return [(TIER, tier) for tier in state.get("tiers", ())]
    if kind == OVERRIDE or state["tenant"]:
        return [(TENANT, state["tenant"])]
    return [(TIER, state["tier"])] if kind == POLICY and state["tier"] else [(ENDPOINT, "")]


class Recorded(Protocol):
    """A proposal, a filed change or a revision."""

    @property
    def touched(self) -> Iterable[str]: ...

    @property
    def before(self) -> States: ...

    @property
    def after(self) -> States: ...


@dataclass(frozen=True, slots=True)
class TouchedTenants:
    count: int
    names: tuple[str, ...] = ()  # the first of them
    is_everyone: bool = False  # endpoints and global limits are in every plan


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does: its diff, and the tenants whose limits it touches."""

    changes: tuple[ObjectDiff, ...] = ()
    tenants: TouchedTenants = TouchedTenants(0)


def effect_of(recorded: Recorded, *, is_written: bool) -> Effect:
    """`is_written`: the tenants that the change creates are in the database."""
    targets = Targets.of(recorded.touched, recorded.before, recorded.after)
    missing = frozenset() if is_written else targets.newcomers
    return Effect(differences(recorded.before, recorded.after), _touched_tenants(targets, missing))


def _touched_tenants(targets: Targets, missing: Collection[str]) -> TouchedTenants:
    # An archived tenant counts only where it is touched itself: by its archiving.
    rows = Tenant.objects.filter(Q(archived_at=None) | Q(name__in=targets.tenants))
    if not targets.is_common:
        rows = rows.filter(Q(name__in=targets.tenants) | Q(tier__name__in=targets.tiers))
    first = rows.order_by("name").values_list("name", flat=True)[:MOST_NAMES]
    names = sorted([*first, *missing])[:MOST_NAMES]
    return TouchedTenants(rows.count() + len(missing), tuple(names), targets.is_common)


@dataclass(frozen=True, slots=True)
class Concerned:
    """What is loaded to judge a change: not the tenants without limits of their own, who share their tier's plan."""

    targets: Targets
    tiers: frozenset[str]
    tenants: frozenset[str]
    configuration: Configuration  # times are the numbers of revisions

    @classmethod
    def load(cls, targets: Targets, before: States, after: States | None = None) -> Concerned:
        """`after`: states that are not in the database, because a rehearsal does not write them."""
        every = Tier.objects.filter(retired=False).values_list("name", flat=True) if targets.is_common else ()
        tiers = frozenset(every) | targets.tiers
        tenants = (targets.tenants - targets.newcomers) | tenants_with_own_limits(tiers=tiers)
        moved = {state["tier"] for states in (before, after or {}) for _, state in present_states(states, TENANT)}
        part = configuration_part(tenants=tenants, tiers=tiers | moved, in_revisions=True)
        return cls(targets, tiers, tenants, foreseen(part, after) if after else part)


@dataclass(frozen=True, slots=True)
class Group:
    """Tenants that share limits: a single one, those of a tier or its canary without own limits, or all tenants."""

    tier: str = ""
    tenant: str = ""
    was_canary: bool = False
    is_canary: bool = False

    def __str__(self) -> str:
        if self.tenant:
            return f"tenant {self.tenant}"
        if not self.tier:
            return "everyone"
        return f"canary of tier {self.tier}" if self.was_canary or self.is_canary else f"tier {self.tier}"


@dataclass(frozen=True, slots=True)
class Period:
    """The plans without and with the edit, from `start_us` to `end_us` (None: no end)."""

    start_us: int
    end_us: int | None
    before: Plan
    after: Plan


@dataclass(frozen=True, slots=True)
class Side:
    configuration: Configuration
    index: PolicyIndex

    @classmethod
    def of(cls, configuration: Configuration) -> Side:
        return cls(configuration, PolicyIndex.of_configuration(configuration))

    def plan(self, layers: Layers, at_us: int) -> Plan:
        return Plan.of_layers(layers, at_us, self.configuration.endpoints)

    def of_globals(self) -> Plan:
        return Plan.of_globals(self.index.globals, self.configuration.endpoints)

    def of_tenant(self, name: str) -> Layers:
        return self.index.of_tenant(self.configuration.tenants[name])


@dataclass(frozen=True, slots=True)
class Judgement:
    concerned: Concerned
    was: Side
    now: Side
    now_us: int
    # Everything that is asked about an edit (what is lost, what creeps, whose peak lies above) asks for these again.
    _periods: dict[Group, tuple[Period, ...]] = field(default_factory=dict, compare=False, repr=False)
    # An edit may touch thousands of tenants that have nothing of their own: these are judged once.
    _alike: dict[tuple[object, ...], tuple[Period, ...]] = field(default_factory=dict, compare=False, repr=False)
    _cuts: dict[tuple[int, Fraction], list[Cut]] = field(default_factory=dict, compare=False, repr=False)
    _tightened: dict[int, list[Tightened]] = field(default_factory=dict, compare=False, repr=False)
    _unenforced: dict[int, list[Unenforced]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, concerned: Concerned, before: States) -> Judgement:
        configuration = concerned.configuration
        return cls(concerned, Side.of(rewound(configuration, before)), Side.of(configuration), to_us(timezone.now()))

    def groups(self) -> Iterator[Group]:
        """Without suspended tenants and without new ones, who have nothing to lose."""
        check_waiting()
        if self.concerned.targets.is_common:
            yield Group()
        for tier in sorted(self.concerned.tiers):
            before, after = (
                (False, True) if tier in side.index.canaries else (False,) for side in (self.was, self.now)
            )
            yield from (Group(tier, "", was, now) for was in before for now in after)
        tenants = self.now.configuration.tenants
        yield from (
            Group(tenant=name)
            for name in sorted(self.concerned.tenants & tenants.keys())
            if not tenants[name].suspended
        )

    def periods(self, group: Group) -> tuple[Period, ...]:
        found = self._periods.get(group)
        if found is None:
            check_waiting()
            found = self._periods[group] = self._shared(group)
        return found

    def cuts_in(self, period: Period, above: Fraction = TOLERATED) -> list[Cut]:
        """Of a period that `periods` returned."""
        key = (id(period), above)
        if key not in self._cuts:
            self._cuts[key] = cuts(period.before, period.after, above)
        return self._cuts[key]

    def tightened_in(self, period: Period) -> list[Tightened]:
        if id(period) not in self._tightened:
            self._tightened[id(period)] = tightened(period.before, period.after)
        return self._tightened[id(period)]

    def unenforced_in(self, period: Period) -> list[Unenforced]:
        if id(period) not in self._unenforced:
            self._unenforced[id(period)] = unenforced(period.before, period.after)
        return self._unenforced[id(period)]

    def _shared(self, group: Group) -> tuple[Period, ...]:
        """Tenants without policies and overrides of their own have what their tiers have. History does not matter."""
        if not group.tenant:
            return tuple(self._judged(group))
        sides = [(side, side.configuration.tenants[group.tenant]) for side in (self.was, self.now)]
        if any(tenant.name in side.index.tenants or tenant.name in side.index.overrides for side, tenant in sides):
            return tuple(self._judged(group))
        key = tuple((tenant.tier, side.index.is_canary(tenant.name, tenant.tier)) for side, tenant in sides)
        if key not in self._alike:
            self._alike[key] = tuple(self._judged(group))
        return self._alike[key]

    def _judged(self, group: Group) -> Iterator[Period]:
        if group.tenant:
            yield from self._of_tenant(group.tenant)
        elif group.tier:
            before = self.was.index.of_tier(group.tier, is_canary=group.was_canary)
            after = self.now.index.of_tier(group.tier, is_canary=group.is_canary)
            yield self._period(before, after, self.now_us, None)
        else:
            yield Period(self.now_us, None, self.was.of_globals(), self.now.of_globals())

    def losses(self) -> Iterator[tuple[Group, list[Cut]]]:
        """Each group that is hurt, with the cuts of its first period that has any."""
        for group in self.groups():
            found = next((lost for period in self.periods(group) if (lost := self.cuts_in(period))), [])
            if found and self.names(group, 1):
                yield group, found

    def unenforced(self) -> Iterator[tuple[Group, list[Unenforced]]]:
        """Each group for which a limit is no longer enforced, in the first period in which that is so."""
        for group in self.groups():
            found = next((lost for period in self.periods(group) if (lost := self.unenforced_in(period))), [])
            if found and self.names(group, 1):
                yield group, found

    def is_unnoticed(self) -> bool:
        """Whether no enforced decision changes."""
        periods = (period for group in self.groups() for period in self.periods(group))
        return all(same_enforced(period.before, period.after) for period in periods)

    def names(self, group: Group, most: int | None = None, among: Collection[str] | None = None) -> list[str]:
        """The group's tenants by name, without suspended ones."""
        if group.tenant:
            return [group.tenant] if among is None or group.tenant in among else []
        rows = self.rows(group) if among is None else self.rows(group).filter(name__in=among)
        names = rows.order_by("name").values_list("name", flat=True)
        if self._is_split(group):
            return [name for name in names if self._is_in(name, group)][:most]
        return list(names[:most])

    def count(self, group: Group) -> int:
        if self._is_split(group):
            return len(self.names(group))
        return 1 if group.tenant else self.rows(group).count()

    def named(self, group: Group, numbers: Collection[int]) -> dict[int, str]:
        """The names of those of `rows` that belong to the group: a canary has only some of its tier."""
        names = dict(Tenant.objects.filter(number__in=numbers).values_list("number", "name")) if numbers else {}
        if not self._is_split(group):
            return names
        return {number: name for number, name in names.items() if self._is_in(name, group)}

    def rows(self, group: Group) -> QuerySet[Tenant]:
        if group.tenant:
            return Tenant.objects.filter(name=group.tenant)
        rows = Tenant.objects.filter(suspended=False, archived_at=None)
        return rows.filter(tier__name=group.tier).exclude(name__in=self.concerned.tenants) if group.tier else rows

    def _is_split(self, group: Group) -> bool:
        return group.tier in self.was.index.canaries or group.tier in self.now.index.canaries

    def _is_in(self, name: str, group: Group) -> bool:
        was, now = (side.index.is_canary(name, group.tier) for side in (self.was, self.now))
        return (was, now) == (group.was_canary, group.is_canary)

    def _of_tenant(self, name: str) -> Iterator[Period]:
        """A new period begins whenever an override of the tenant starts or ends."""
        before, after = self.was.of_tenant(name), self.now.of_tenant(name)
        edges = {moment.from_us for layers in (before, after) for moment in moments(layers)}
        starts = sorted({self.now_us, *(edge for edge in edges if edge > self.now_us)})
        for start_us, end_us in zip(starts, [*starts[1:], None], strict=True):
            yield self._period(before, after, start_us, end_us)

    def _period(self, before: Layers, after: Layers, start_us: int, end_us: int | None) -> Period:
        return Period(start_us, end_us, self.was.plan(before, start_us), self.now.plan(after, start_us))
