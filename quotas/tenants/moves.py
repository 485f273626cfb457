"""What a move to another tier changes for each tenant, limit by limit, before anything is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from django.utils import timezone

from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from quotas.changes.peaks import PEAKS_SINCE, peaks_above
from quotas.lookups import find_active_tenants, find_tier
from quotas.models import Endpoint
from quotas.models.usage_rates import EVERY_ENDPOINT
from quotas.policies.compare import WINDOWS_S, Plan, Tightened, is_comparable, is_implied, measures_of, tightened_limit
from quotas.policies.configuration import configuration_part
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.limit_words import limit_short, subject_words
from quotas.policies.resolve import Effective
from quotas.policies.spec import EVERYWHERE, Configuration, Limit, to_us
from quotas.tenants.stranded import StrandedChoice, StrandedOverride
from quotas.tenants.stranded import stranded_overrides as stranded_found
from quotas.usage.queries.coverage import days_until
from quotas.usage.queries.daily_demand import busiest_days
from tenants.models import Tenant

Change = Literal["looser", "tighter", "new", "gone", "other"]
MOST_SHOWN: Final = 200  # tenants
MOST_PEAKS: Final = 40  # limits whose demand is looked up


@dataclass(frozen=True, slots=True)
class LimitMove:
    """One limit that changes. A limit that the tenant did not have is new, not a cut of everything."""

    scope: str  # `*` or an endpoint
    limit: str
    before: str  # in words; empty: it had none
    after: str
    change: Change
    peak: str = ""  # in words: it asked for more than will pass
    is_measured: bool = False  # what it asked for is known in the limit's unit and time

    @property
    def is_tighter(self) -> bool:
        return self.change in ("tighter", "new", "other")


@dataclass(frozen=True, slots=True)
class TenantMove:
    tenant: str
    label: str
    tier: str  # that it is on now
    limits: tuple[LimitMove, ...]

    @property
    def looser(self) -> int:
        return sum(not each.is_tighter for each in self.limits)

    @property
    def tighter(self) -> int:
        return sum(each.change in ("tighter", "other") for each in self.limits)

    @property
    def new(self) -> int:
        return sum(each.change == "new" for each in self.limits)

    @property
    def hurt(self) -> tuple[LimitMove, ...]:
        """Limits below what it asked for."""
        return tuple(each for each in self.limits if each.peak)


@dataclass(frozen=True, slots=True)
class MovePreview:
    tier: str
    moves: tuple[TenantMove, ...]  # those who are hurt first, then those who get tighter, by name
    stay: int  # tenants that are on the tier already
    stranded: tuple[StrandedOverride, ...] = ()  # would change nothing on the tier
    left_out: int = 0  # tenants that stay because of them

    @property
    def tighter(self) -> int:
        """Tenants that get at least one limit tighter, or one more."""
        return sum(bool(move.tighter or move.new) for move in self.moves)

    @property
    def hurt(self) -> int:
        """Tenants that have asked for more than will pass."""
        return sum(bool(move.hurt) for move in self.moves)

    @property
    def unmeasured(self) -> tuple[LimitMove, ...]:
        """Tighter and new limits that nobody's demand was compared with, each once."""
        limits = [each for move in self.moves for each in move.limits if each.is_tighter and not each.is_measured]
        return tuple({(each.scope, each.limit, each.after): each for each in limits}.values())

    @property
    def shown(self) -> tuple[TenantMove, ...]:
        return self.moves[:MOST_SHOWN]


def move_preview(*, names: Collection[str], tier: str, stranded_overrides: StrandedChoice = "refuse") -> MovePreview:
    """Tenants without limits of their own are compared once for each tier they come from."""
    target = find_tier(tier)
    rows = find_active_tenants(names)
    every = [row for row in rows if row.tier_id != target.pk]
    stranded = stranded_found(every, tier)
    kept = {each.tenant for each in stranded} if stranded_overrides == "leave_out" else set()
    moving = [row for row in every if row.name not in kept]
    part = configuration_part(tenants=[row.name for row in moving], tiers=[tier])
    compare = _Comparison(part, tier, {each.override for each in stranded})
    found = [(row, compare.of(row.name)) for row in moving]
    peaks = _peaks(found, compare)
    moves = [_with_peaks(row, limits, peaks) for row, limits in found]
    ordered = sorted(moves, key=lambda move: (not move.hurt, not move.tighter, not move.new, move.tenant))
    return MovePreview(tier, tuple(ordered), len(rows) - len(every), tuple(stranded), len(kept))


_Key = tuple[str, str, str, str]  # scope, limit and both words
_Limits = tuple[LimitMove, ...]


class _Comparison:
    def __init__(self, part: Configuration, tier: str, ending: Collection[int]) -> None:
        self._part, self._tier, self._ending = part, tier, ending
        self._index = PolicyIndex.of_configuration(part)
        self._now_us = to_us(timezone.now())
        self._plain: dict[tuple[str, bool, bool], _Limits] = {}
        self.tightened: dict[_Key, Tightened] = {}
        self.daily: dict[_Key, Limit] = {}

    def of(self, name: str) -> _Limits:
        tenant = self._part.tenants[name]
        before = replace(self._index.of_tenant(tenant), handovers=())
        after = replace(self._index.of_tenant(replace(tenant, tier=self._tier)), handovers=())
        after = replace(after, overrides=tuple(each for each in after.overrides if each.id not in self._ending))
        if not (before.is_plain and after.is_plain):
            return tuple(self._compared(before, after))
        is_in = self._index.is_canary
        alike = (tenant.tier, is_in(name, tenant.tier), is_in(name, self._tier))
        if alike not in self._plain:
            self._plain[alike] = tuple(self._compared(before, after))
        return self._plain[alike]

    def _compared(self, before: Layers, after: Layers) -> Iterator[LimitMove]:
        was, now = (Plan.of_layers(layers, self._now_us, self._part.endpoints) for layers in (before, after))
        for scope in sorted({EVERYWHERE, *was.named, *now.named}):
            were, are = was.enforced(scope), now.enforced(scope)
            for name in sorted({*were, *are}):
                old, new = were.get(name), are.get(name)
                if scope in (old.scope if old else "", new.scope if new else ""):
                    yield from self._limit(scope, old, new, were)

    def _limit(
        self, scope: str, old: Effective | None, new: Effective | None, were: Mapping[str, Effective]
    ) -> Iterator[LimitMove]:
        change = _change(old, new, were)
        either = new or old
        if change is None or either is None:
            return
        move = LimitMove(scope, either.limit.name, _words(old, scope), _words(new, scope), change)
        cut = next(tightened_limit(old, new), None) if new is not None else None
        if cut is not None:
            self.tightened[scope, move.limit, move.before, move.after] = cut
        if new is not None and move.is_tighter and _is_daily(new):
            self.daily[scope, move.limit, move.before, move.after] = new.limit
            yield replace(move, is_measured=True)
        else:
            yield replace(move, is_measured=new is not None and cut is not None and _is_short(new.limit.algorithm))


def _change(old: Effective | None, new: Effective | None, were: Mapping[str, Effective]) -> Change | None:
    """None: nothing changes for its requests."""
    if new is None:
        return "gone"
    if old is None:
        return None if is_implied(new, were.values(), (1, 1)) else "new"
    if (old.scope, old.limit.algorithm, old.limit.subject, old.limit.unit) == (
        new.scope,
        new.limit.algorithm,
        new.limit.subject,
        new.limit.unit,
    ):
        return None
    if not is_comparable(old.limit, new.limit) or old.limit.unit != new.limit.unit:
        return "other"
    pairs = list(zip(measures_of(old.limit, 1), measures_of(new.limit, 1), strict=True))
    return "tighter" if any(after < before for before, after in pairs) else "looser"


def _is_daily(new: Effective) -> bool:
    """Whether a day of all requests of the tenant can be held against it."""
    algorithm = new.limit.algorithm
    is_day = algorithm.period == "day" if isinstance(algorithm, CalendarQuota) else False
    return is_day and not new.is_global and not new.limit.subject.alternatives


def _is_short(algorithm: Algorithm) -> bool:
    """Whether it counts over a time that demand is measured for; a day's quota says nothing about a minute."""
    if isinstance(algorithm, CalendarQuota):
        return False
    return getattr(algorithm, "window_us", 0) <= max(WINDOWS_S) * SECOND_US


def _words(effective: Effective | None, scope: str) -> str:
    if effective is None:
        return ""
    words = str(limit_short(effective.limit.algorithm))
    subject = f" per {subject_words(effective.limit.subject)}" if effective.limit.subject.alternatives else ""
    return f"{words}{subject} of *" if effective.scope != scope else f"{words}{subject}"


def _peaks(found: Sequence[tuple[Tenant, _Limits]], compare: _Comparison) -> dict[tuple[int, *_Key], str]:
    """For the tenants that asked for more than will pass: what they asked for, in words."""
    holders: dict[_Key, list[int]] = defaultdict(list)
    for row, limits in found:
        for each in limits:
            key = (each.scope, each.limit, each.before, each.after)
            if key in compare.tightened or key in compare.daily:
                holders[key].append(row.pk)
    scopes = {scope for scope, *_ in holders}
    numbers = dict(Endpoint.objects.filter(name__in=scopes).values_list("name", "number")) if scopes else {}
    closed = days_until() if holders else None
    asked: dict[tuple[int, *_Key], str] = {}
    for key, tenants in list(holders.items())[:MOST_PEAKS]:
        number = EVERY_ENDPOINT if key[0] == EVERYWHERE else numbers.get(key[0])
        if number is None or closed is None:
            continue
        if key in compare.daily:
            told = _asked_in_a_day(compare.daily[key], tenants, number)
        else:
            told = _asked_in_seconds(compare.tightened[key], tenants, number, closed)
        asked |= {(tenant, *key): words for tenant, words in told.items()}
    return asked


def _asked_in_seconds(cut: Tightened, tenants: Collection[int], endpoint: int, closed: datetime) -> dict[int, str]:
    told = {}
    for tenant, tops in peaks_above(cut, Tenant.objects.filter(pk__in=tenants), endpoint, closed).items():
        window = max(cut.most, key=lambda seconds: tops[seconds] / max(cut.most[seconds], 1e-9))
        if tops[window] > cut.most[window]:
            told[tenant] = f"asked for {tops[window]:,} in {window} s; {cut.most[window]:,.0f} will pass"
    return told


def _asked_in_a_day(limit: Limit, tenants: Collection[int], endpoint: int) -> dict[int, str]:
    """Days are those of UTC, in which usage is kept; the quota's may begin a few hours earlier or later."""
    most, since = limit.algorithm.capacity, timezone.now() - PEAKS_SINCE
    days = busiest_days(tenants, endpoint, limit.unit, since=since, above=most)
    return {tenant: f"asked for {top:,} in a day; {most:,} will pass" for tenant, top in days.items()}


def _with_peaks(row: Tenant, limits: _Limits, peaks: Mapping[tuple[int, *_Key], str]) -> TenantMove:
    def told(each: LimitMove) -> LimitMove:
        peak = peaks.get((row.pk, each.scope, each.limit, each.before, each.after))
        return replace(each, peak=peak) if peak else each

    return TenantMove(row.name, row.label, row.tier.name, tuple(map(told, limits)))
