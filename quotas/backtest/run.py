"""Runs a backtest: fits rules on the first days of a trace and replays the rest through their limits.

It scores unseen time (each tenant with its own limits) and unseen tenants (with limits that the other half of the
tenants gives to their tier). A trace has no tiers, so all its tenants form one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.backtest.baselines import PER_SUBJECT, RULES, subject_limit
from quotas.backtest.fitting import RECOMMENDER, FittedSeries, fit
from quotas.backtest.scoring import AssignedLimit, RuleScore, median_headroom, rejected_units, score
from quotas.backtest.side_by_side import in_order
from quotas.backtest.spool import Spool
from quotas.backtest.trace import BadRow, TraceError, TraceReader
from quotas.calibration.counts import DAY_S, MINUTE_S
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.calibration.recommend import Insufficient, pool, recommend
from quotas.calibration.sizing import bucket, minute_window

Progress = Callable[[str, int, int], None]  # stage, done, of how many
Limits = dict[str, dict[int, AssignedLimit]]  # rule → series → its limit

FEWEST_TO_SPLIT = 4  # tenants


@dataclass(frozen=True, slots=True)
class BacktestOptions:
    train_days: float | None = None  # None: the first half
    most_bad: int = 1_000
    parameters: Parameters = DEFAULTS
    scratch: str | None = None  # folder for the spool; None: the system's
    headroom: float | None = None  # to compare all rules at; None: the recommender's


USUAL = BacktestOptions()


@dataclass(frozen=True, slots=True)
class BacktestReport:
    rows: int
    bad_rows: int
    bad: tuple[BadRow, ...]
    tenants: int
    series: int
    train_days: float
    test_days: float
    rules: Mapping[str, RuleScore]
    same_headroom: Mapping[str, RuleScore]  # the baselines, scaled to the recommender's median headroom or the given
    held_out_tenants: Mapping[str, RuleScore] = field(default_factory=dict)


def backtest(path: Path, options: BacktestOptions = USUAL, progress: Progress = lambda *_: None) -> BacktestReport:
    reader = TraceReader(path, options.most_bad)
    with Spool(options.scratch) as spool:
        size = max(1, path.stat().st_size if path.exists() else 1)
        for chunk in reader.chunks(lambda done: progress("reading", done, size)):
            spool.add(chunk)
        if not len(spool):
            raise TraceError("the file has no usable rows")
        spool.seal()
        cut_us = _cut_us(spool, options.train_days)
        fitted = _fit_all(reader, spool, cut_us, options.parameters, progress)
        return _report(reader, spool, cut_us, fitted, options, progress)


def _cut_us(spool: Spool, train_days: float | None) -> int:
    """The time at which the fit ends and the replay begins; the start of a minute, so that no minute is in both."""
    span_us, day_us, minute_us = spool.last_us - spool.first_us, DAY_S * SECOND_US, MINUTE_S * SECOND_US
    if train_days is None:
        half = span_us // 2
        train_us = half // day_us * day_us if half >= day_us else half
    else:
        train_us = round(train_days * day_us)
    cut_us = (spool.first_us + train_us) // minute_us * minute_us
    if not spool.first_us < cut_us <= spool.last_us:
        raise TraceError(
            f"the trace spans {span_us / day_us:.4g} days, so {train_us / day_us:.4g} training days leave nothing to "
            "replay or nothing to fit; choose another number with --train-days"
        )
    return cut_us


def _fit_all(
    reader: TraceReader, spool: Spool, cut_us: int, parameters: Parameters, progress: Progress
) -> list[FittedSeries]:
    fitted, names = [], reader.series()

    def fit_one(number: int) -> FittedSeries:
        return fit(names[number], spool.series(number), cut_us, spool.last_us, parameters)

    for one in in_order(fit_one, len(names)):
        fitted.append(one)
        progress("fitting", len(fitted), len(names))
    return fitted


def _report(
    reader: TraceReader,
    spool: Spool,
    cut_us: int,
    fitted: list[FittedSeries],
    options: BacktestOptions,
    progress: Progress,
) -> BacktestReport:
    parameters = options.parameters
    seen = [number for number, one in enumerate(fitted) if one.estimate is not None and one.test_units > 0]
    own = own_limits(fitted, parameters)
    scaled = _scaled(own, fitted, seen, options.headroom)
    others = unseen_limits(fitted, parameters)
    rejected = _replay(spool, cut_us, fitted, {"own": own, "scaled": scaled, "unseen": others}, progress)
    changes = {rule: sum(one.changes.get(rule, 0) for one in fitted) for rule in own}

    def scores(kind: str, limits: Limits, only: Sequence[int]) -> dict[str, RuleScore]:
        return {
            rule: score(
                [number for number in only if number in limits[rule]],
                rejected[kind, rule],
                fitted,
                limits[rule],
                changes.get(rule, 0) if kind == "own" else 0,
            )
            for rule in limits
        }

    replayed = [number for number, one in enumerate(fitted) if one.test_units > 0]
    return BacktestReport(
        rows=reader.rows,
        bad_rows=reader.bad_rows,
        bad=tuple(reader.bad),
        tenants=len({one.name.tenant for one in fitted}),
        series=len(fitted),
        train_days=(cut_us - spool.first_us) / SECOND_US / DAY_S,
        test_days=(spool.last_us - cut_us) / SECOND_US / DAY_S,
        rules=scores("own", own, seen),
        same_headroom=scores("scaled", scaled, seen),
        held_out_tenants=scores("unseen", others, replayed),
    )


def _replay(
    spool: Spool, cut_us: int, fitted: Sequence[FittedSeries], kinds: Mapping[str, Limits], progress: Progress
) -> dict[tuple[str, str], dict[int, int]]:
    """For each kind and rule: series → rejected units, where there are any."""

    def replay_one(number: int) -> dict[tuple[str, str], int]:
        assigned = {
            (kind, rule): limits[rule][number]
            for kind, limits in kinds.items()
            for rule in limits
            if number in limits[rule] and not limits[rule][number].admits_all(fitted[number])
        }
        found = rejected_units(spool.series(number), cut_us, assigned.values()) if assigned else {}
        return {key: found[limit] for key, limit in assigned.items() if found[limit]}

    rejected: dict[tuple[str, str], dict[int, int]] = {(kind, rule): {} for kind in kinds for rule in kinds[kind]}
    for number, found in enumerate(in_order(replay_one, len(fitted))):
        for key, units in found.items():
            rejected[key][number] = units
        progress("replaying", number + 1, len(fitted))
    return rejected


def own_limits(fitted: Sequence[FittedSeries], parameters: Parameters) -> Limits:
    """The limit of each rule for each tenant in the training data."""
    known = {number: one for number, one in enumerate(fitted) if one.estimate is not None}
    limits: Limits = {RECOMMENDER: {}}
    for numbers in _by_endpoint(known).values():
        estimates = {fitted[number].name.tenant: number for number in numbers}
        found = recommend([e for n in numbers if (e := fitted[n].estimate)], parameters, ignore_gate=True)
        for tenant, limit in found.tenants.items():
            sized = bucket(limit.point) if limit.a_minute is None else minute_window(limit.a_minute)
            limits[RECOMMENDER][estimates[tenant]] = AssignedLimit(sized)
    for rule in RULES:
        limits[rule.name] = {n: AssignedLimit(minute_window(one.baselines[rule.name])) for n, one in known.items()}
    limits[PER_SUBJECT] = {}
    for numbers in _by_endpoint(known).values():
        window = minute_window(subject_limit(fitted[number].subject_maxima for number in numbers))
        limits[PER_SUBJECT] |= {number: AssignedLimit(window, by_subject=True) for number in numbers}
    return limits


def unseen_limits(fitted: Sequence[FittedSeries], parameters: Parameters) -> Limits:
    """The limit of each rule for each tenant, derived from the other half of the tenants only."""
    tenants = {one.name.tenant for one in fitted}
    limits: Limits = {}
    if len(tenants) < FEWEST_TO_SPLIT:
        return limits
    for half in (0, 1):
        teachers = {n: one for n, one in enumerate(fitted) if _half(one) != half and one.estimate is not None}
        pupils = _by_endpoint({n: one for n, one in enumerate(fitted) if _half(one) == half})
        for endpoint, numbers in _by_endpoint(teachers).items():
            for rule, assigned in _tier_limits([fitted[n] for n in numbers], parameters).items():
                limits.setdefault(rule, {}).update(dict.fromkeys(pupils.get(endpoint, ()), assigned))
    # With few tenants all may be in one half. A rule without limits has no score, which is not a score of zero.
    return {rule: found for rule, found in limits.items() if found}


def _tier_limits(teachers: Sequence[FittedSeries], parameters: Parameters) -> dict[str, AssignedLimit]:
    tier = pool([one.estimate for one in teachers if one.estimate], parameters, ignore_gate=True)
    found = {} if isinstance(tier, Insufficient) else {RECOMMENDER: AssignedLimit(bucket(tier.point))}
    for rule in RULES:
        units = [one.baselines[rule.name] for one in teachers]
        pooled = float(np.quantile(units, parameters.pool_quantile, method="lower"))  # as the recommender pools
        found[rule.name] = AssignedLimit(minute_window(pooled))
    units_each = subject_limit(one.subject_maxima for one in teachers)
    return found | {PER_SUBJECT: AssignedLimit(minute_window(units_each), by_subject=True)}


def _scaled(own: Limits, fitted: Sequence[FittedSeries], seen: Sequence[int], headroom: float | None) -> Limits:
    """The baselines, scaled to the recommender's median headroom; or all rules, scaled to a given one."""
    wanted = headroom or median_headroom(own[RECOMMENDER], fitted, seen)
    scaled: Limits = {}
    for rule in (*([RECOMMENDER] if headroom else []), *(rule.name for rule in RULES)):
        there = median_headroom(own[rule], fitted, seen)
        factor = wanted / there if there else 1.0
        scaled[rule] = {number: one.scaled(factor) for number, one in own[rule].items()}
    return scaled


def _by_endpoint(fitted: Mapping[int, FittedSeries]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for number, one in fitted.items():
        groups.setdefault(one.name.endpoint, []).append(number)
    return groups


def _half(one: FittedSeries) -> int:
    return crc32(one.name.tenant.encode()) & 1
