"""Refuses a change that cuts somebody's limit by more than a tenth, or below what they ask for, unless it is forced.

A cut is measured against the highest limit of the last day, so that ten small cuts count as one large cut; and against
the highest demand of the last four weeks, however small the cut. A suspension is not a cut: it is meant to deny all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import chain, islice
from typing import Any, Final

from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from headroom_edge.algorithms.base import counted
from quotas.changes.affected import Concerned, Group, Judgement, Targets
from quotas.changes.snapshot import OVERRIDE, State, States, key_of, present_states
from quotas.errors import Refused, refuse
from quotas.models import Endpoint, Override, Revision
from quotas.models.usage_rates import EVERY_ENDPOINT, RatesDay, RatesHour
from quotas.policies.compare import NOT_ENFORCED, TOLERATED, Cut, Tightened
from quotas.policies.problems import Problem
from quotas.policies.spec import EVERYWHERE
from quotas.usage.queries.coverage import days_until
from tenants.models import Tenant

CUTS_SINCE: Final = timedelta(days=1)
MOST_STEPS: Final = 8  # the newest revisions of that day, and its oldest: enough to see where a limit comes from
PEAKS_SINCE: Final = timedelta(days=28)
MOST_LOOKED_AT: Final = 20  # limits that one edit tightens; an edit of more is a large cut as well
MOST_CUTS: Final = 100  # that an impact lists
MOST_NAMES: Final = 100
MOST_SAID: Final = 10  # that a refusal lists

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

    @property
    def needs_force(self) -> bool:
        return self.cut_count > 0


@dataclass(frozen=True, slots=True)
class BelowPeak:
    """A cut, large or small, below what some tenants of a group have asked for."""

    group: Group
    cut: Tightened
    names: tuple[str, ...]  # whose peak lies above, the highest first
    window_s: int
    peak: int  # of the first of them

    def __str__(self) -> str:
        others = f" and {len(self.names) - 1:,} more" if len(self.names) > 1 else ""
        unit = "requests" if self.cut.unit == "requests" else "units of cost"
        asked = f"{self.names[0]}{others} asked for up to {self.peak:,} {unit} in {self.window_s} s"
        return f"{asked}, of which {self.cut.most[self.window_s]:,.0f} would pass"


def revision_impact(revision: Revision) -> Impact:
    """Of the newest revision, against what was enforced before it."""
    targets = Targets.of(revision.touched, revision.before, revision.after)
    return impact_of(Concerned.load(targets, revision.before), revision.before)


def impact_of(concerned: Concerned, before: States) -> Impact:
    judgement = Judgement.of(concerned, before)
    losses = _with_repeated(list(judgement.losses()), _repeated_cuts(judgement, before))
    below = list(_below_peaks(judgement))
    every = _every([OwnedCut(str(group), **asdict(cut)) for group, found in losses for cut in found], below)
    groups = _hurt_groups(group for group, _ in losses)
    small = _above_small_cuts(below, groups)
    found = chain((name for group in groups for name in judgement.names(group, MOST_NAMES)), small)
    names = tuple(islice(found, MOST_NAMES))
    count = sum(judgement.count(group) for group in groups) + len(small)
    return Impact(tuple(every[:MOST_CUTS]), len(every), _worst(every), names, count)


def check_cuts(impact: Impact, *, force: bool) -> None:
    if impact.cuts and not force:
        raise Refused(_problems(impact))


def check_accepted(impact: Impact, accepted: Iterable[WorstCut]) -> None:
    """Force that was given earlier covers the cuts of that time, and no deeper ones."""
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
    """A shadow change must not alter an enforced decision."""
    if not Judgement.of(concerned, before).is_unnoticed():
        message = "one of its limits would replace an enforced one, which shadow cannot try; use a canary instead"
        raise refuse("mode", "replaces", message)


def _problems(impact: Impact) -> list[Problem]:
    """The first cuts and how many more there are. What to do about them is said once, at the end."""
    lines = [(cut.owner, str(cut)) for cut in impact.cuts[:MOST_SAID]]
    if impact.cut_count > len(lines):
        rest = f"and {impact.cut_count - len(lines):,} more"
        lines.append(("", f"{rest}; {counted(impact.hurt_count, 'tenant', 'tenants')} would lose quota"))
    cut, it = ("cut", "it") if impact.cut_count == 1 else ("cuts", "them")
    lines[-1] = (lines[-1][0], f"{lines[-1][1]}; make the {cut} smaller, or apply {it} anyway (force)")
    return [Problem(owner, "cut", line) for owner, line in lines]


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


def _worst(every: Iterable[OwnedCut]) -> tuple[WorstCut, ...]:
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


def _below_peaks(judgement: Judgement) -> Iterator[BelowPeak]:
    """For each group, the cuts of its first tightened period; a bounded number of queries."""
    found = [(group, cut) for group in judgement.groups() for cut in _tightened(judgement, group)][:MOST_LOOKED_AT]
    if not found:
        return
    numbers = dict(Endpoint.objects.filter(name__in={cut.scope for _, cut in found}).values_list("name", "number"))
    closed = days_until()
    for group, cut in found:
        number = EVERY_ENDPOINT if cut.scope == EVERYWHERE else numbers.get(cut.scope)
        if number is not None:
            yield from _above(group, cut, judgement.rows(group), number, closed)


def _tightened(judgement: Judgement, group: Group) -> list[Tightened]:
    if not group.tier and not group.tenant:
        return []  # a global limit counts all tenants together, which is no tenant's peak
    return next((lost for period in judgement.periods(group) if (lost := judgement.tightened_in(period))), [])


def _above(
    group: Group, cut: Tightened, tenants: QuerySet[Tenant], endpoint: int, closed: datetime
) -> Iterator[BelowPeak]:
    peaks = peaks_above(cut, tenants, endpoint, closed)
    if not peaks:
        return
    window = max(cut.most, key=lambda seconds: max(tops[seconds] / cut.most[seconds] for tops in peaks.values()))
    ordered = sorted(peaks, key=lambda tenant: -peaks[tenant][window])
    names = dict(Tenant.objects.filter(number__in=ordered).values_list("number", "name"))
    yield BelowPeak(group, cut, tuple(names[n] for n in ordered), window, peaks[ordered[0]][window])


def peaks_above(
    cut: Tightened, tenants: QuerySet[Tenant], endpoint: int, closed: datetime
) -> dict[int, dict[int, int]]:
    """By tenant and window, the most asked for in four weeks, of those who asked for more than is left.

    `closed`: until when there are rows per day; later hours are read one by one.
    """
    begin = timezone.now() - PEAKS_SINCE
    peaks: dict[int, dict[int, int]] = {}
    for model, since in ((RatesDay, begin), (RatesHour, max(begin, closed))):
        rows: QuerySet[Any] = model._default_manager.filter(start__gte=since, endpoint_number=endpoint)
        for tenant, *tops in _highest(rows.filter(tenant_number__in=tenants.values("number")), cut):
            before = peaks.setdefault(tenant, {})
            for window, top in zip(cut.most, tops, strict=True):
                before[window] = max(top, before.get(window, 0))
    return peaks


def _highest(rows: QuerySet[Any], cut: Tightened) -> Any:
    """Tenants and their peaks, where one lies above the cut; Postgres filters, so that few rows are read."""
    columns: Mapping[int, Any] = {
        window: Coalesce(f"cost_{window}s", f"peak_{window}s") if cut.unit == "cost" else f"peak_{window}s"
        for window in cut.most
    }
    named = {f"asked_{window}": Max(column) for window, column in columns.items()}
    found = rows.order_by().values("tenant_number").annotate(**named)
    above = Q()
    for window, most in cut.most.items():
        above |= Q(**{f"asked_{window}__gt": most})
    return found.filter(above).values_list("tenant_number", *named)
