"""Stops a change that takes more than a tenth from somebody, unless it is forced.

What an edit of a tier does to its plain tenants is judged once, by the tier's plan; tenants with limits of
their own are judged one by one. A suspension is no cut: it is meant to refuse everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from django.db.models import QuerySet
from django.utils import timezone

from quotas.models import Revision
from quotas.policy.compare import Cut, Plan, cuts
from quotas.policy.problems import Problem
from quotas.policy.resolve import Index, Layers, moments, resolve
from quotas.policy.spec import Configuration
from quotas.selectors.rows import to_us
from quotas.services.concerned import Concerned
from quotas.services.earlier import States, rewound
from quotas.services.errors import Refused
from quotas.services.targets import Targets
from tenants.models import Tenant

MOST_CUTS = 100  # that an impact lists
MOST_NAMES = 100
MOST_SAID = 10  # that a refusal lists


@dataclass(frozen=True, slots=True)
class OwnedCut:
    owner: str  # `tier pro` (its plain tenants), `tenant acme`, `everyone`
    endpoint: str
    limit: str
    before: str
    after: str
    percent: float

    def __str__(self) -> str:
        loses = f", a cut of {self.percent:g} %" if self.percent < 100 else ""
        return f"limit {self.limit} on {self.endpoint}: {self.before} → {self.after}{loses}"


@dataclass(frozen=True, slots=True)
class Impact:
    """Whom a change hurts, and how; the lists hold the first of them, the counts all."""

    cuts: tuple[OwnedCut, ...] = ()
    cut_count: int = 0
    hurt: tuple[str, ...] = ()
    hurt_count: int = 0


def revision_impact(revision: Revision) -> Impact:
    """Of the newest revision, against what held before it."""
    targets = Targets.of(revision.touched, revision.before, revision.after)
    return impact_of(Concerned.load(targets, revision.before), revision.before)


def check_cuts(impact: Impact, *, force: bool) -> None:
    if impact.cuts and not force:
        raise Refused(_problems(impact))


def impact_of(concerned: Concerned, before: States) -> Impact:
    found = list(_judged(concerned, before))
    every = [OwnedCut(owner.label, **asdict(cut)) for owner, losses in found for cut in losses]
    hurt = _Hurt.of((owner for owner, _ in found), concerned)
    return Impact(tuple(every[:MOST_CUTS]), len(every), hurt.names, hurt.count)


@dataclass(frozen=True, slots=True)
class _Owner:
    tier: str = ""
    tenant: str = ""

    @property
    def label(self) -> str:
        if self.tenant:
            return f"tenant {self.tenant}"
        return f"tier {self.tier}" if self.tier else "everyone"


@dataclass(frozen=True, slots=True)
class _Side:
    configuration: Configuration
    index: Index

    @classmethod
    def of(cls, configuration: Configuration) -> _Side:
        return cls(configuration, Index.of_configuration(configuration))

    def plan(self, layers: Layers, at_us: int) -> Plan:
        return Plan.of_resolved(resolve(layers, at_us), self.configuration.endpoints)

    def of_globals(self) -> Plan:
        return Plan.of_globals(self.index.globals, self.configuration.endpoints)


def _judged(concerned: Concerned, before: States) -> Iterator[tuple[_Owner, list[Cut]]]:
    """Everybody who is hurt, and how."""
    was, now = _Side.of(rewound(concerned.configuration, before)), _Side.of(concerned.configuration)
    now_us = to_us(timezone.now())
    for owner, found in (*_everyone(concerned, was, now), *_tiers(concerned, was, now, now_us)):
        if found and _tenants_of(owner, concerned).exists():
            yield owner, found
    for name in sorted(concerned.tenants & concerned.configuration.tenants.keys()):
        if found := _of_tenant(name, was, now, now_us):
            yield _Owner(tenant=name), found


def _everyone(concerned: Concerned, was: _Side, now: _Side) -> Iterator[tuple[_Owner, list[Cut]]]:
    if concerned.targets.is_common:
        yield _Owner(), cuts(was.of_globals(), now.of_globals())


def _tiers(concerned: Concerned, was: _Side, now: _Side, at_us: int) -> Iterator[tuple[_Owner, list[Cut]]]:
    for tier in sorted(concerned.tiers):
        before, after = was.index.of_tier(tier), now.index.of_tier(tier)
        yield _Owner(tier), cuts(was.plan(before, at_us), now.plan(after, at_us))


def _of_tenant(name: str, was: _Side, now: _Side, now_us: int) -> list[Cut]:
    """At every time from now on at which an override of it starts or ends; the first that it loses is told."""
    tenant, former = now.configuration.tenants[name], was.configuration.tenants[name]
    if tenant.suspended:
        return []
    before, after = was.index.of_tenant(former), now.index.of_tenant(tenant)
    times = sorted({now_us, *(m.from_us for layers in (before, after) for m in moments(layers) if m.from_us > now_us)})
    found = (cuts(was.plan(before, at_us), now.plan(after, at_us)) for at_us in times)
    return next((losses for losses in found if losses), [])


@dataclass(frozen=True, slots=True)
class _Hurt:
    names: tuple[str, ...]
    count: int

    @classmethod
    def of(cls, owners: Iterable[_Owner], concerned: Concerned) -> _Hurt:
        """A tenant that is hurt both by a global limit and by one of its own counts once."""
        owners = list(owners)
        if any(owner == _Owner() for owner in owners):
            owners = [_Owner()]
        names = [owner.tenant for owner in owners if owner.tenant]
        plain = [_tenants_of(owner, concerned) for owner in owners if not owner.tenant]
        listed = [*names[:MOST_NAMES], *(name for rows in plain for name in _names(rows))]
        return cls(tuple(listed[:MOST_NAMES]), len(names) + sum(rows.count() for rows in plain))


def _names(rows: QuerySet[Tenant]) -> Iterable[str]:
    return rows.order_by("name").values_list("name", flat=True)[:MOST_NAMES]


def _tenants_of(owner: _Owner, concerned: Concerned) -> QuerySet[Tenant]:
    """Those that a cut of a tier, or of everyone's limits, hurts."""
    rows = Tenant.objects.filter(suspended=False)
    return rows.filter(tier__name=owner.tier).exclude(name__in=concerned.tenants) if owner.tier else rows


def _problems(impact: Impact) -> list[Problem]:
    way_out = "make it smaller, or force it"
    said = [Problem(cut.owner, "cut", f"{cut}; {way_out}") for cut in impact.cuts[:MOST_SAID]]
    if impact.cut_count > len(said):
        rest = f"and {impact.cut_count - len(said):,} more; {impact.hurt_count:,} tenants are hurt in all"
        said.append(Problem("", "cut", rest))
    return said
