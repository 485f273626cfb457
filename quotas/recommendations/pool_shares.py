"""Proposes the shares of a pool from measured demand, with the replayed forecast beside today's shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from itertools import groupby
from math import ceil
from typing import Final

import numpy as np

from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import filled
from quotas.calibration.counts import DAY_S, HOUR_S, MINUTE_S, Counts, joined
from quotas.calibration.estimate import Observed
from quotas.calibration.forecast import GRAINS, arrivals_of
from quotas.calibration.parameters import Parameters
from quotas.calibration.recommend import Insufficient
from quotas.calibration.shares import NOBODY, FittedShares, Need, OtherMembers, fit_shares, need_of, reasons_for
from quotas.long_tasks import Progress
from quotas.observations.arrays import Floats, Ints
from quotas.policies.chains import promise
from quotas.policies.spec import Unit
from quotas.recommendations.calibrate import calibrated_until
from quotas.recommendations.forecast import earlier_data
from quotas.recommendations.measure import is_sudden, iso, observed_tenants
from quotas.recommendations.pool_proposal import MemberProposal, Outcome, PoolForecast, PoolProposal, PoolShare
from quotas.recommendations.settings import calibration_parameters
from quotas.simulation.fast_replay import ArrivalBatch
from quotas.simulation.pool_replay import MemberReplay, PoolMember, replay_pool
from quotas.usage.queries.demand import TrafficScope, days_ago, tenant_loads

MOST_MEASURED: Final = 100  # members: so that a pool of thousands is answered while somebody waits
MOST_ARRIVALS: Final = 500_000  # of one replay
REPLAYED_DAYS: Final = 7
MEASURED_AT: Final = 40  # percent of the work, roughly; the rest is the two replays
# Days that the fit does not see, and how many it must have seen before them. The first that there is enough data for.
HELD_OUT_DAYS: Final = ((7, 6), (2, 2))
MOST_GRAINS: Final = 4 * GRAINS  # of one step
PIECES_S: Final = (HOUR_S, 5 * MINUTE_S, MINUTE_S)  # a replay takes the busiest pieces of time; the longest that fit


def propose_shares(
    pool: Pool,
    members: Sequence[PoolShare],
    *,
    unit: Unit = "requests",
    others: OtherMembers = NOBODY,
    now: datetime | None = None,
    progress: Progress = lambda *_: None,
) -> PoolProposal:
    """`members`: shares right under the pool, of which MOST_MEASURED are measured; the `others` keep theirs.

    `now`: measures up to then; default: the last recorded usage.
    """
    until, parameters = now or calibrated_until(), calibration_parameters()
    measured, held = _Measured(unit, until, parameters), _held(members, others)
    known = [one for one in members if not one.unmeasured]
    for done, observed in enumerate(_observed(known, unit, parameters, until)):
        progress("measuring", MEASURED_AT * done // len(known), 100)
        measured.add(*observed)
    fitted = fit_shares(pool, measured.needs, held.shares, others)
    outcomes, forecast = _forecast(pool, known, held, measured, progress)
    found = tuple(
        replace(_proposal(one, fitted, measured), now=before, then=after)
        for one in members
        for before, after in [outcomes.get(one.key, (None, None))]
    )
    proposed = replace(pool, reserve=fitted.reserve)
    return PoolProposal(pool, proposed, found, _warnings(pool, proposed, fitted, found, others), forecast, until)


@dataclass(frozen=True, slots=True)
class _Held:
    """Today's shares."""

    shares: Mapping[str, Borrowing]
    others: OtherMembers


def _held(members: Sequence[PoolShare], others: OtherMembers) -> _Held:
    if len(members) > MOST_MEASURED:
        raise ValueError(f"{len(members):,} members are too many to measure at once; at most {MOST_MEASURED}")
    return _Held({one.key: one.share for one in members}, others)


def _observed(
    members: Sequence[PoolShare], unit: Unit, parameters: Parameters, until: datetime
) -> Iterator[tuple[PoolShare, Observed]]:
    begin = days_ago(until, parameters.history_days)
    for group in _by_traffic(members):
        traffic, by_name = _traffic(group, unit), {one.tenant: one for one in group}
        names = {one.number: one.tenant for one in group}
        for observed in observed_tenants(traffic, names, group[0].scope, parameters, begin, until):
            yield by_name[observed.tenant], observed


def _by_traffic(members: Sequence[PoolShare]) -> Iterator[list[PoolShare]]:
    """Members whose shares count the same endpoints are read together."""

    def place(one: PoolShare) -> tuple[str, str]:
        return one.scope, one.limit

    for _, group in groupby(sorted(members, key=place), key=place):
        yield list(group)


def _traffic(group: Sequence[PoolShare], unit: Unit) -> TrafficScope:
    return TrafficScope(frozenset(one.number for one in group), group[0].endpoints, unit=unit)


@dataclass(slots=True)
class _Measured:
    """One pass over the members. Only sums are kept of each, so memory does not grow with their traffic."""

    unit: Unit
    until: datetime
    parameters: Parameters
    needs: dict[str, Need] = field(default_factory=dict)
    past: dict[tuple[int, str], Need] = field(default_factory=dict)  # days held out, member → as known before them
    why_not: dict[str, str] = field(default_factory=dict)
    units: Floats = field(init=False)  # of all members, in each of the last minutes
    grains: Ints = field(init=False)  # arrivals that a replay of those minutes has

    def __post_init__(self) -> None:
        minutes = REPLAYED_DAYS * DAY_S // MINUTE_S
        self.units, self.grains = np.zeros(minutes), np.zeros(minutes, np.int64)

    @property
    def end_s(self) -> int:
        return int(self.until.timestamp()) // MINUTE_S * MINUTE_S

    @property
    def first_s(self) -> int:
        return self.end_s - REPLAYED_DAYS * DAY_S

    def add(self, member: PoolShare, observed: Observed) -> None:
        need = need_of(observed, self.until.timestamp(), self.parameters)
        if isinstance(need, Insufficient):
            self.why_not[member.key] = need.reason
        elif is_sudden(observed.demand.minutes, self.until.timestamp()):
            self.why_not[member.key] = (
                "its traffic is suddenly far above its own past; its share stays until it has settled"
            )
        else:
            self.needs[member.key] = need
            any(self._hold_out(member, observed, *days) for days in HELD_OUT_DAYS)
        fine = observed.fine.between(self.first_s, self.end_s)
        places = (fine.starts_s - self.first_s) // MINUTE_S
        np.add.at(self.units, places, fine.units)
        np.add.at(self.grains, places, np.minimum(np.maximum(1, np.rint(fine.units)), GRAINS).astype(np.int64))

    def _hold_out(self, member: PoolShare, observed: Observed, days: int, least_days: int) -> bool:
        """Whether there was enough data before the days that are held out."""
        cut_s = self.end_s - days * DAY_S
        if cut_s - observed.first_s < least_days * DAY_S:
            return False
        earlier = earlier_data(observed, cut_s)
        if not len(earlier.demand.minutes):
            return False
        if not len(earlier.fine):  # seconds are read of the newest time only
            earlier = replace(earlier, fine=earlier.demand.minutes)
        found = need_of(earlier, cut_s, self.parameters, least_days)
        if isinstance(found, Insufficient):
            return False
        self.past[days, member.key] = found
        return True

    def held_out(self) -> tuple[int, dict[str, Need]]:
        """Days that are replayed, and the needs that were known before them; 0: there is too little data.

        Members that were not known then are replayed with their present shares.
        """
        for days, _ in HELD_OUT_DAYS:
            found = {key: need for (held, key), need in self.past.items() if held == days}
            if found:
                return days, found
        return 0, {}

    def busiest_pieces(self, since_s: int) -> list[range]:
        """The busiest pieces of time since then whose arrivals fit one replay, in order of time."""
        for length_s in PIECES_S:
            size = length_s // MINUTE_S
            begin = (since_s - self.first_s) // MINUTE_S
            units = self.units[begin:].reshape(-1, size).sum(axis=1)
            grains = self.grains[begin:].reshape(-1, size).sum(axis=1)
            order = np.argsort(-units, kind="stable")
            fitting = int(np.searchsorted(np.cumsum(grains[order]), MOST_ARRIVALS, side="right"))
            chosen = sorted(int(place) for place in order[:fitting] if units[place] > 0)
            if chosen:
                return [range(since_s + place * length_s, since_s + (place + 1) * length_s) for place in chosen]
        return []


def _forecast(
    pool: Pool, members: Sequence[PoolShare], held: _Held, measured: _Measured, progress: Progress
) -> tuple[dict[str, tuple[Outcome, Outcome]], PoolForecast | None]:
    days, known = measured.held_out()
    since_s = measured.end_s - (days or REPLAYED_DAYS) * DAY_S
    pieces = measured.busiest_pieces(since_s) if measured.needs else []
    if not pieces:
        return {}, None
    shares, fitted = held.shares, fit_shares(pool, known or measured.needs, held.shares, held.others)
    tried, proposed = {**shares, **fitted.shares}, replace(pool, reserve=fitted.reserve)
    loads = [
        (one, _arrivals(fine, one, [(pool, shares[one.key]), (proposed, tried[one.key])]))
        for one, fine in _loads(members, pieces, measured)
    ]
    half = (100 - MEASURED_AT) // 2
    before = _replayed(pool, loads, shares, partial(_tell, progress, "replaying today's shares", MEASURED_AT, half))
    after = _replayed(
        proposed, loads, tried, partial(_tell, progress, "replaying the proposed shares", MEASURED_AT + half, half)
    )
    outcomes = {
        one.key: (Outcome.of(live), Outcome.of(then)) for (one, _), live, then in zip(loads, before, after, strict=True)
    }
    totals = (Outcome.total([pair[which] for pair in outcomes.values()]) for which in (0, 1))
    seconds = sum(len(piece) for piece in pieces)
    return outcomes, PoolForecast(iso(since_s), iso(measured.end_s), bool(days), seconds, *totals)


def _loads(
    members: Sequence[PoolShare], pieces: Sequence[range], measured: _Measured
) -> list[tuple[PoolShare, Counts]]:
    """Each member's requests in these pieces of time, in the finest steps there are."""
    begin, end = (days_ago(measured.until, REPLAYED_DAYS + 1), measured.until)
    starts, stops = (np.array([getattr(piece, name) for piece in pieces]) for name in ("start", "stop"))
    found = []
    for group in _by_traffic(members):
        by_number = {one.number: one for one in group}
        for load in tenant_loads(_traffic(group, measured.unit), begin, end):
            fine = load.fine if len(load.fine) else joined([load.allowed, load.denied], MINUTE_S)
            places = np.searchsorted(starts, fine.starts_s, side="right") - 1
            inside = (places >= 0) & (fine.starts_s < stops[np.maximum(places, 0)])
            if inside.any():
                found.append((by_number[load.tenant], fine.where(inside)))
    return found


def _arrivals(fine: Counts, one: PoolShare, held: Sequence[tuple[Pool, Borrowing]]) -> ArrivalBatch:
    """In grains that no share is too small for, as long as that does not make too many of them."""
    sizes = [
        min(filled(pool.lendable, one.priority), share.burst or pool.burst, share.ceiling_burst or pool.burst)
        for pool, share in held
    ]
    return arrivals_of(fine, max(1, min(sizes), ceil(fine.peak / MOST_GRAINS)))


def _replayed(
    pool: Pool,
    loads: Sequence[tuple[PoolShare, ArrivalBatch]],
    shares: Mapping[str, Borrowing],
    told: Callable[[float], None],
) -> list[MemberReplay]:
    members = [PoolMember(one.key, shares[one.key], batch.times_us, batch.costs, one.priority) for one, batch in loads]
    return replay_pool(pool, members, told=told)


def _tell(progress: Progress, doing: str, start: int, width: int, part: float) -> None:
    progress(doing, start + int(width * part), 100)


def _proposal(one: PoolShare, fitted: FittedShares, measured: _Measured) -> MemberProposal:
    share = fitted.shares.get(one.key)
    if share is not None:
        reasons = reasons_for(measured.needs[one.key], share, fitted.cut_to, measured.parameters)
        if share == one.share:
            return MemberProposal(one, None, ("its share fits", *reasons))
        return MemberProposal(one, share, tuple(reasons))
    if one.key in measured.needs:
        return MemberProposal(one, None, ("there is no room for its share; it stays",))
    nothing = f"insufficient data: no requests in {measured.parameters.history_days} days; its share stays"
    return MemberProposal(one, None, (one.unmeasured or measured.why_not.get(one.key, nothing),))


def _warnings(
    pool: Pool, proposed: Pool, fitted: FittedShares, members: Sequence[MemberProposal], others: OtherMembers
) -> tuple[str, ...]:
    found = fitted.warnings(pool)
    if others.count:
        found.append(
            f"Only the {len(members):,} busiest of {len(members) + others.count:,} members were measured; "
            "the others keep their shares."
        )
    told = promise(proposed, [one.proposed or one.member.share for one in members])
    whole = replace(told, assured=told.assured + Fraction(others.assured), bursts=told.bursts + others.bursts)
    return (*found, *whole.warnings)
