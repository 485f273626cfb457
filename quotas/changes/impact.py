"""Whom a change hurts: the limits that it cuts, the tenants that it leaves less than they ask for, lost enforcement.

A cut is measured against the highest limit of the last day, so that ten small cuts count as one large cut; and against
the highest demand of the last four weeks, however small the cut. A suspension is not a cut: it is meant to deny all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from fractions import Fraction
from itertools import chain, islice
from typing import Final

from django.db.models import Q
from django.utils import timezone

from headroom_edge.algorithms.base import counted
from quotas.changes.affected import Concerned, Group, Judgement, Targets
from quotas.changes.peaks import BelowPeak, TenantBelow, below_peaks
from quotas.changes.priorities import MOST_LOWERED, LoweredPriority, lowered_priorities
from quotas.changes.snapshot import OVERRIDE, State, States, key_of, present_states
from quotas.models import Override, Revision
from quotas.policies.compare import NOT_ENFORCED, TOLERATED, Cut

CUTS_SINCE: Final = timedelta(days=1)
MOST_STEPS: Final = 8  # the newest revisions of that day, and its oldest: enough to see where a limit comes from
MOST_CUTS: Final = 100  # that an impact lists
MOST_NAMES: Final = 100

Losses = list[tuple[Group, list[Cut]]]
WorstLosses = dict[Group, dict[str, Cut]]  # by the limit's name, the worst cut


@dataclass(frozen=True, slots=True)
class OwnedCut:
    owner: str  # `tier pro` (its tenants without limits of their own), `tenant acme`, `everyone`
    endpoint: str
    limit: str
    before: str
    after: str
    percent: float
    peak: str = ""  # in words: who has asked for more than is left

    @property
    def tenant(self) -> str:
        """Whose own limits it cuts; empty: those of many."""
        kind, _, name = self.owner.partition(" ")
        return name if kind == "tenant" else ""

    def __str__(self) -> str:
        loses = f", a cut of {self.percent:g} %" if self.percent < 100 else ""
        asked = f"; {self.peak}" if self.peak else ""
        return f"limit {self.limit} on {self.endpoint}: {self.before} → {self.after}{loses}{asked}"


@dataclass(frozen=True, slots=True)
class WorstCut:
    endpoint: str
    limit: str
    percent: float  # of whoever loses most


@dataclass(frozen=True, slots=True)
class LostEnforcement:
    owner: str  # as in OwnedCut
    endpoint: str
    limit: str
    before: str
    mode: str  # shadow or off
    tenants: int  # for how many it is no longer enforced

    def __str__(self) -> str:
        does = "is off" if self.mode == "off" else "only counts"
        whom = counted(self.tenants, "tenant", "tenants")
        return f"limit {self.limit} on {self.endpoint}: {self.before} is no longer enforced for {whom}; it {does}"


@dataclass(frozen=True, slots=True)
class Impact:
    """Whom a change hurts, and how; its lists hold the first of them, the counts all."""

    cuts: tuple[OwnedCut, ...] = ()
    cut_count: int = 0
    worst: tuple[WorstCut, ...] = ()
    hurt: tuple[str, ...] = ()
    hurt_count: int = 0
    below: tuple[TenantBelow, ...] = ()  # the highest peak first, each tenant once
    below_count: int = 0
    unenforced: tuple[LostEnforcement, ...] = ()
    lowered: tuple[LoweredPriority, ...] = ()

    @property
    def needs_force(self) -> bool:
        return self.cut_count > 0 or bool(self.unenforced)

    @property
    def is_new_only(self) -> bool:
        """Every cut is a limit where there was none."""
        return bool(self.cuts) and all(cut.before == NOT_ENFORCED for cut in self.cuts)

    @property
    def unenforced_tenants(self) -> int:
        """For the limit that is lost for most of them."""
        return max((lost.tenants for lost in self.unenforced), default=0)


def revision_impact(revision: Revision) -> Impact:
    """Of the newest revision, against what was enforced before it."""
    targets = Targets.of(revision.touched, revision.before, revision.after)
    return impact_of(Concerned.load(targets, revision.before), revision.before)


def impact_of(concerned: Concerned, before: States) -> Impact:
    judgement = Judgement.of(concerned, before)
    losses = _with_repeated(list(judgement.losses()), _repeated_cuts(judgement, before))
    below = list(below_peaks(judgement))
    every = _every([OwnedCut(str(group), **asdict(cut)) for group, found in losses for cut in found], below)
    groups = _hurt_groups(group for group, _ in losses)
    small = _above_small_cuts(below, groups)
    found = chain((name for group in groups for name in judgement.names(group, MOST_NAMES)), small)
    names = tuple(islice(found, MOST_NAMES))
    count = sum(judgement.count(group) for group in groups) + len(small)
    rows = _each_once(row for peak in below for row in peak.rows())
    return Impact(
        tuple(every[:MOST_CUTS]),
        len(every),
        worst_of(every),
        names,
        count,
        tuple(rows[:MOST_NAMES]),
        len(rows),
        tuple(_lost_enforcement(judgement)),
        tuple(islice(lowered_priorities(judgement), MOST_LOWERED)),
    )


def _each_once(rows: Iterable[TenantBelow]) -> list[TenantBelow]:
    """Each tenant where it asks for the most of what would be left."""
    found: dict[str, TenantBelow] = {}
    for row in sorted(rows, key=lambda row: -row.peak / max(row.left, 1e-9)):
        found.setdefault(row.tenant, row)
    return list(found.values())


def _lost_enforcement(judgement: Judgement) -> Iterator[LostEnforcement]:
    found = ((group, lost) for group, each in judgement.unenforced() for lost in each)
    for group, lost in islice(found, MOST_CUTS):
        yield LostEnforcement(str(group), **asdict(lost), tenants=judgement.count(group))


def _with_repeated(losses: Losses, repeated: Iterable[tuple[Group, list[Cut]]]) -> Losses:
    """A limit that this edit alone cuts by more than is tolerated is listed once, as that."""
    found = {group: list(lost) for group, lost in losses}
    for group, lost in repeated:
        known = {cut.limit for cut in found.get(group, ())}
        found.setdefault(group, []).extend(cut for cut in lost if cut.limit not in known)
    return [(group, lost) for group, lost in found.items() if lost]


def _every(cuts: Sequence[OwnedCut], below: Iterable[BelowPeak]) -> list[OwnedCut]:
    """The large cuts, with the peak that they go below, and the small ones that go below one."""
    peaks = {(str(peak.group), peak.cut.scope, peak.cut.limit): peak for peak in below}
    every = []
    for cut in cuts:
        peak = peaks.pop((cut.owner, cut.endpoint, cut.limit), None)
        every.append(replace(cut, peak=str(peak)) if peak else cut)
    return every + [
        OwnedCut(owner, scope, limit, peak.cut.before, peak.cut.after, peak.cut.percent, str(peak))
        for (owner, scope, limit), peak in peaks.items()
    ]


def _hurt_groups(groups: Iterable[Group]) -> list[Group]:
    """Without the groups that another one contains, so that nobody is counted twice."""
    found = list(groups)
    return [Group()] if Group() in found else sorted(found, key=lambda group: not group.tenant)


def _above_small_cuts(below: Iterable[BelowPeak], large: Collection[Group]) -> list[str]:
    """The tenants that only a small cut hurts, because they ask for so much."""
    if Group() in large:
        return []
    return list(dict.fromkeys(name for peak in below if peak.group not in large for name in peak.names))


def worst_of(every: Iterable[OwnedCut]) -> tuple[WorstCut, ...]:
    found: dict[tuple[str, str], float] = {}
    for cut in every:
        key = (cut.endpoint, cut.limit)
        found[key] = max(cut.percent, found.get(key, 0))
    return tuple(WorstCut(*key, percent) for key, percent in sorted(found.items()))


def _repeated_cuts(judgement: Judgement, before: States) -> Iterator[tuple[Group, list[Cut]]]:
    """Limits that this edit cuts by no more than is tolerated, but that lose more than that over the last day."""
    small = {group: _small_cuts(judgement, group) for group in judgement.groups()}
    if not any(small.values()):
        return
    worst: WorstLosses = {}
    for states in _earlier(judgement.concerned, before):
        for group, found in Judgement.of(judgement.concerned, states).losses():
            for cut in found:
                if cut.before != NOT_ENFORCED:  # a new limit was judged when it was added
                    _keep_worst(worst, group, cut)
    for group, limits in worst.items():
        found = [cut for name, cut in limits.items() if name in small.get(group, ())]
        if found:
            yield group, found


def _small_cuts(judgement: Judgement, group: Group) -> set[str]:
    """Limits cut by no more than the tolerated tenth."""
    found = (judgement.cuts_in(period, above=Fraction(0)) for period in judgement.periods(group))
    return {cut.limit for lost in found for cut in lost if cut.percent <= 100 * TOLERATED}


def _keep_worst(worst: WorstLosses, group: Group, cut: Cut) -> None:
    known = worst.setdefault(group, {}).get(cut.limit)
    if known is None or cut.percent > known.percent:
        since = f"{cut.before} within the last day"
        worst[group][cut.limit] = Cut(cut.endpoint, cut.limit, since, cut.after, cut.percent)


def _earlier(concerned: Concerned, before: States) -> Iterator[States]:
    """What this edit touches, as it was before each revision of the last day, the newest first."""
    keys = [*before, *_other_overrides(concerned, before)]
    since = timezone.now() - CUTS_SINCE
    rows = Revision.objects.filter(created__gte=since, touched__overlap=keys).order_by("-number")
    steps = list(rows.values_list("before", flat=True)[:MOST_STEPS])
    oldest = rows.order_by("number").values_list("before", flat=True).first()
    states: dict[str, State] = dict(before)
    for step in [*steps, oldest or {}]:
        states |= {key: state for key, state in step.items() if key in keys}
        yield dict(states)


def _other_overrides(concerned: Concerned, before: States) -> list[str]:
    """Recent overrides of the same tenants: an override that follows another one is a further cut."""
    added = {each.tenant for each in concerned.configuration.overrides if key_of(OVERRIDE, each.id) in before}
    tenants = added | {state["tenant"] for _, state in present_states(before, OVERRIDE)}
    if not tenants:
        return []
    since = timezone.now() - CUTS_SINCE
    recent = Q(created_revision__created__gte=since) | Q(cancelled_at__gte=since)
    rows = Override.objects.filter(recent, tenant__name__in=tenants)
    return [key_of(OVERRIDE, number) for number in rows.values_list("pk", flat=True)]
