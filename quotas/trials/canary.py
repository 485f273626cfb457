"""A canary beside the rest: the 429s of the tenants that have the change, and of those that do not, before and now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q, Sum
from django.db.models.functions import Coalesce

from headroom_edge.algorithms.base import counted
from quotas.models import Change, Endpoint
from quotas.models.usage import GapRecord, Outcome, UsageMinute
from quotas.policies.spec import EVERYWHERE, Canary
from quotas.trials.counts import ASKED, HOUR, gaps_between, rollup_parts
from quotas.trials.scope import Window
from quotas.trials.verdict import Verdict, enough_hours, percent, planned_hours, short_hours
from quotas.usage.queries.coverage import drained_at, rollup_until
from quotas.usage.queries.periods import Period, period_between
from quotas.usage.queries.traffic import binned
from tenants.models import Tenant

LONGEST_BEFORE: Final = timedelta(days=7)
SHORTEST_BEFORE: Final = timedelta(hours=1)
FEWEST: Final = 100  # requests before a conclusion


@dataclass(slots=True)
class Measured:
    asked: int = 0
    denied: int = 0

    def add(self, asked: int, denied: int) -> None:
        self.asked += asked
        self.denied += denied

    @property
    def share(self) -> float:
        return self.denied / self.asked if self.asked else 0.0


@dataclass(slots=True)
class Group:
    """Tenants with the change, or without it."""

    tenants: int = 0
    before: Measured = field(default_factory=Measured)
    now: Measured = field(default_factory=Measured)

    @property
    def change(self) -> float:
        return self.now.share - self.before.share


@dataclass(slots=True)
class CanaryTenant:
    tenant: str
    before: Measured = field(default_factory=Measured)
    now: Measured = field(default_factory=Measured)


@dataclass(frozen=True, slots=True)
class CanaryPoint:
    start: datetime
    canary: float | None  # share of 429s; None: nobody asked
    rest: float | None


@dataclass(slots=True)
class CanaryCounts:
    begin: datetime
    until: datetime
    before: timedelta  # how long the time before it is that it is compared with
    canary: Group = field(default_factory=Group)
    rest: Group = field(default_factory=Group)
    tenants: list[CanaryTenant] = field(default_factory=list)  # of the canary, those with most requests first
    gaps: Sequence[GapRecord] = ()
    place: str | None = ""  # the endpoint whose requests are counted; empty: all; None: several

    @property
    def earlier(self) -> Window:
        return Window(self.begin - self.before, self.begin)

    @property
    def so_far(self) -> Window:
        return Window(self.begin, self.until)

    @property
    def due_to_change(self) -> float:
        """By how much the share of 429s rose for the canary, without what rose for the rest too."""
        return self.canary.change - self.rest.change

    @property
    def hours(self) -> float:
        return max((self.until - self.begin) / HOUR, 0.0)


@dataclass(frozen=True, slots=True)
class _Numbers:
    canary: dict[int, str]
    rest: dict[int, str]
    places: Q


def canary_read(row: Change, window: Window, now: datetime) -> CanaryCounts:
    end = min(window.end or now, now)
    until = max(min(rollup_until(UsageMinute, drained_at()), end), window.begin)
    before = min(max(until - window.begin, SHORTEST_BEFORE), LONGEST_BEFORE)
    found = CanaryCounts(window.begin, until, before, gaps=gaps_between(window.begin - before, end))
    places = _places(row)
    numbers = _numbers(row, places)
    found.place = "" if EVERYWHERE in places else next(iter(places)) if len(places) == 1 else None
    found.canary.tenants, found.rest.tenants = len(numbers.canary), len(numbers.rest)
    tenants = {number: CanaryTenant(name) for number, name in numbers.canary.items()}
    where = numbers.places & Q(tenant_number__in=[*numbers.canary, *numbers.rest])
    for side, since, to in (("before", window.begin - before, window.begin), ("now", window.begin, end)):
        for number, asked, denied in _sums(where, since, to):
            getattr(found.canary if number in tenants else found.rest, side).add(asked, denied)
            if number in tenants:
                getattr(tenants[number], side).add(asked, denied)
    found.tenants = sorted(tenants.values(), key=lambda one: (-one.now.asked, one.tenant))
    return found


def canary_points(row: Change, counts: CanaryCounts, now: datetime) -> tuple[Period, list[CanaryPoint]]:
    """From the time before it that it is compared with."""
    end = max(counts.until, counts.begin + timedelta(minutes=1))
    period = period_between(counts.begin - counts.before, end, max(now, end))
    numbers, sides = _numbers(row, _places(row)), []
    for tenants in (numbers.canary, numbers.rest):
        rows = period.rollup._default_manager.filter(start__gte=period.begin, start__lt=period.end)
        rows = rows.filter(numbers.places, tenant_number__in=list(tenants), outcome__in=ASKED)
        sums = {"asked": Sum("count"), "denied": Coalesce(Sum("count", filter=Q(outcome=Outcome.DENIED)), 0)}
        found = binned(rows.order_by(), period).values("bin").annotate(**sums)
        sides.append({one["bin"]: one["denied"] / one["asked"] for one in found if one["asked"]})
    canary, rest = sides
    return period, [CanaryPoint(start, canary.get(start), rest.get(start)) for start in period.starts]


def canary_verdict(row: Change, counts: CanaryCounts) -> Verdict:
    """The bar for all requests bounds the rise of 429s that the change explains, in points."""
    now, was, rise = counts.canary.now, counts.canary.before, counts.due_to_change
    lasted = f"{short_hours(counts.hours)} of {short_hours(planned_hours(row, counts.begin))} hours are in"
    said = (
        f"429s of its {counted(counts.canary.tenants, 'tenant', 'tenants')}: {percent(was.share)} before, "
        f"{percent(now.share)} now; of the rest: {percent(counts.rest.before.share)} before, "
        f"{percent(counts.rest.now.share)} now. {lasted}."
    )
    if not counts.canary.tenants:
        return Verdict("wait", "No tenant is in it", f"Raise the share, or promote the change. {lasted}.", "no_traffic")
    if now.asked < FEWEST:
        text = f"{counted(now.asked, 'request', 'requests')} of its tenants so far. {lasted}."
        return Verdict("wait", "Too little traffic to say", text, "no_traffic")
    if rise > row.bar_share:
        title = f"Not safe: 429s rose by {100 * rise:.2g} points, your bar is {100 * row.bar_share:.2g}"
        return Verdict("no", title, said, "above_share")
    worst = worst_tenant(counts)
    if worst is not None and worst.now.share - worst.before.share > row.bar_tenant:
        title = (
            f"Not safe: 429s of {worst.tenant} rose from {percent(worst.before.share)} to {percent(worst.now.share)}"
        )
        return Verdict("no", title, f"Your bar for one tenant is {percent(row.bar_tenant)}. {said}", "above_tenant")
    if counts.hours < enough_hours(row, counts.begin):
        return Verdict("wait", "Going well, but too early", said, "early")
    return Verdict("ok", "Safe to go on: no more 429s than before", said, "safe")


def worst_tenant(counts: CanaryCounts) -> CanaryTenant | None:
    known = [one for one in counts.tenants if one.now.asked >= FEWEST]
    return max(known, key=lambda one: one.now.share - one.before.share, default=None)


def _numbers(row: Change, places: Collection[str]) -> _Numbers:
    canary: dict[int, str] = {}
    rest: dict[int, str] = {}
    share = row.share or 0
    for tier in row.tiers:
        chosen = Canary(row.pk, tier, share, {})
        for number, name in Tenant.objects.filter(tier__name=tier).values_list("number", "name"):
            (canary if chosen.has(name) else rest)[number] = name
    return _Numbers(canary, rest, _requests(places))


def _places(row: Change) -> set[str]:
    states = (side[f"policy:{name}"] for name in row.policies for side in (row.before, row.after))
    return {state["endpoint"] for state in states if state}


def _requests(places: Collection[str]) -> Q:
    if EVERYWHERE in places:
        return Q()
    return Q(endpoint_number__in=list(Endpoint.objects.filter(name__in=places).values_list("number", flat=True)))


def _sums(where: Q, begin: datetime, end: datetime) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    for rows in rollup_parts(where, begin, end):
        grouped: Any = rows.filter(outcome__in=ASKED).order_by().values("tenant_number")
        sums = {"asked": Sum("count"), "denied": Coalesce(Sum("count", filter=Q(outcome=Outcome.DENIED)), 0)}
        found += [(one["tenant_number"], int(one["asked"]), int(one["denied"])) for one in grouped.annotate(**sums)]
    return found
