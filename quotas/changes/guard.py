"""Stops a change that takes more than a tenth from somebody, or goes below what somebody asks for, unless it is forced.

A tenth of the most that held in the last day: ten small steps are one large one. A suspension is no cut: it is meant
to refuse everything.
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
from quotas.changes.peaks import BelowPeak, below_peaks
from quotas.changes.snapshot import OVERRIDE, State, States, key_of, split_key
from quotas.errors import Refused, refuse
from quotas.models import Override, Revision
from quotas.policies.compare import NOT_ENFORCED, TOLERATED, Cut, cuts
from quotas.policies.problems import Problem

LOOKED_BACK: Final = timedelta(days=1)
MOST_STEPS: Final = 8  # the newest ones and the oldest: enough to see where it comes from

WorstLosses = dict[Group, dict[str, Cut]]  # by the limit's name, the worst


def creeping(judgement: Judgement, before: States) -> Iterator[tuple[Group, list[Cut]]]:
    """Of the limits that this edit makes a little tighter, those that lose more than is tolerated since yesterday."""
    small = {group: _tightened(judgement, group) for group in judgement.groups()}
    if not any(small.values()):
        return
    worst: WorstLosses = {}
    for states in _earlier(before):
        for group, found in Judgement.of(judgement.concerned, states).losses():
            for cut in found:
                if cut.before != NOT_ENFORCED:  # what was not there was judged when it came
                    _keep_worst(worst, group, cut)
    for group, limits in worst.items():
        found = [cut for name, cut in limits.items() if name in small.get(group, ())]
        if found:
            yield group, found


def _tightened(judgement: Judgement, group: Group) -> set[str]:
    """By so little that nobody would ask."""
    found = (cuts(period.before, period.after, above=Fraction(0)) for period in judgement.periods(group))
    return {cut.limit for lost in found for cut in lost if cut.percent <= 100 * TOLERATED}


def _keep_worst(worst: WorstLosses, group: Group, cut: Cut) -> None:
    known = worst.setdefault(group, {}).get(cut.limit)
    if known is None or cut.percent > known.percent:
        since = f"{cut.before} within the last day"
        worst[group][cut.limit] = Cut(cut.endpoint, cut.limit, since, cut.after, cut.percent)


def _earlier(before: States) -> Iterator[States]:
    """What this edit touches, as it was before each step of the last day, the newest first."""
    keys = [*before, *_overrides(before)]
    since = timezone.now() - LOOKED_BACK
    rows = Revision.objects.filter(created__gte=since, touched__overlap=keys).order_by("-number")
    steps = list(rows.values_list("before", flat=True)[:MOST_STEPS])
    oldest = rows.order_by("number").values_list("before", flat=True).first()
    states: dict[str, State] = dict(before)
    for step in [*steps, oldest or {}]:
        states |= {key: state for key, state in step.items() if key in keys}
        yield dict(states)


def _overrides(before: States) -> list[str]:
    """The other overrides of whom an override is about: one that follows another is a step of the same stairs."""
    numbers = [split_key(key)[1] for key in before if split_key(key)[0] == OVERRIDE]
    since = timezone.now() - LOOKED_BACK
    recent = Q(created_revision__created__gte=since) | Q(cancelled_at__gte=since)
    rows = Override.objects.filter(recent, tenant__in=Override.objects.filter(pk__in=numbers).values("tenant"))
    return [key_of(OVERRIDE, number) for number in rows.values_list("pk", flat=True)] if numbers else []


MOST_CUTS = 100  # that an impact lists
MOST_NAMES = 100
MOST_SAID = 10  # that a refusal lists

Losses = list[tuple[Group, list[Cut]]]


@dataclass(frozen=True, slots=True)
class OwnedCut:
    owner: str  # `tier pro` (its plain tenants), `tenant acme`, `everyone`
    endpoint: str
    limit: str
    before: str
    after: str
    percent: float
    peak: str = ""  # who has asked for more than is left, in words

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
class Impact:
    """Whom a change hurts, and how; `cuts` and `hurt` hold the first of them, the counts all."""

    cuts: tuple[OwnedCut, ...] = ()
    cut_count: int = 0
    worst: tuple[WorstCut, ...] = ()
    hurt: tuple[str, ...] = ()
    hurt_count: int = 0


def revision_impact(revision: Revision) -> Impact:
    """Of the newest revision, against what held before it."""
    targets = Targets.of(revision.touched, revision.before, revision.after)
    return impact_of(Concerned.load(targets, revision.before), revision.before)


def impact_of(concerned: Concerned, before: States) -> Impact:
    judgement = Judgement.of(concerned, before)
    losses = _with_crept(list(judgement.losses()), creeping(judgement, before))
    below = list(below_peaks(judgement))
    every = _every([OwnedCut(str(group), **asdict(cut)) for group, found in losses for cut in found], below)
    groups = hurt_groups(group for group, _ in losses)
    small = _above_small_cuts(below, groups)
    found = chain((name for group in groups for name in judgement.names(group, MOST_NAMES)), small)
    names = tuple(islice(found, MOST_NAMES))
    count = sum(judgement.count(group) for group in groups) + len(small)
    return Impact(tuple(every[:MOST_CUTS]), len(every), _worst(every), names, count)


def _with_crept(losses: Losses, crept: Iterable[tuple[Group, list[Cut]]]) -> Losses:
    """What is a large cut by itself is told as that."""
    found = {group: list(lost) for group, lost in losses}
    for group, lost in crept:
        known = {cut.limit for cut in found.get(group, ())}
        found.setdefault(group, []).extend(cut for cut in lost if cut.limit not in known)
    return [(group, lost) for group, lost in found.items() if lost]


def _every(cuts: Sequence[OwnedCut], below: Iterable[BelowPeak]) -> list[OwnedCut]:
    """The large cuts, with the peak that they go below, and the small ones that go below one."""
    peaks = {(str(one.group), one.cut.scope, one.cut.limit): one for one in below}
    every = []
    for cut in cuts:
        one = peaks.pop((cut.owner, cut.endpoint, cut.limit), None)
        every.append(replace(cut, peak=str(one)) if one else cut)
    return every + [
        OwnedCut(owner, scope, limit, one.cut.before, one.cut.after, one.cut.percent, str(one))
        for (owner, scope, limit), one in peaks.items()
    ]


def _above_small_cuts(below: Iterable[BelowPeak], counted: Collection[Group]) -> list[str]:
    """Those whom a small cut hurts because they ask for so much; who is hurt by a large one is counted there."""
    if Group() in counted:
        return []
    return list(dict.fromkeys(name for one in below if one.group not in counted for name in one.names))


def check_cuts(impact: Impact, *, force: bool) -> None:
    if impact.cuts and not force:
        raise Refused(_problems(impact))


def check_accepted(impact: Impact, accepted: Iterable[WorstCut]) -> None:
    """What was forced once is forced as it was then, not as it has become."""
    limits = {(worst.endpoint, worst.limit): worst.percent for worst in accepted}
    grown = [worst for worst in impact.worst if worst.percent > limits.get((worst.endpoint, worst.limit), 0)]
    if grown:
        raise Refused(
            Problem(
                "", "cut", f"limit {worst.limit} on {worst.endpoint} would now lose {worst.percent:g} %; force it again"
            )
            for worst in grown
        )


def check_unnoticed(concerned: Concerned, before: States) -> None:
    """For what stands in shadow: nothing that is denied may depend on it."""
    if not Judgement.of(concerned, before).is_unnoticed():
        message = "a limit of it would replace one that is enforced, which shadow cannot try; use a canary instead"
        raise refuse("mode", "replaces", message)


def hurt_groups(groups: Iterable[Group]) -> list[Group]:
    """Without those that another one holds: who is hurt by a global limit and by one of its own counts once."""
    found = list(groups)
    return [Group()] if Group() in found else sorted(found, key=lambda group: not group.tenant)


def _worst(every: Iterable[OwnedCut]) -> tuple[WorstCut, ...]:
    found: dict[tuple[str, str], float] = {}
    for cut in every:
        key = (cut.endpoint, cut.limit)
        found[key] = max(cut.percent, found.get(key, 0))
    return tuple(WorstCut(*key, percent) for key, percent in sorted(found.items()))


def _problems(impact: Impact) -> list[Problem]:
    said = [Problem(cut.owner, "cut", f"{cut}; make it smaller, or force it") for cut in impact.cuts[:MOST_SAID]]
    if impact.cut_count > len(said):
        hurt = counted(impact.hurt_count, "tenant is", "tenants are")
        rest = f"and {impact.cut_count - len(said):,} more; {hurt} hurt in all"
        said.append(Problem("", "cut", rest))
    return said
