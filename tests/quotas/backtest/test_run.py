"""Backtests: what is fitted, what is replayed, and how the numbers come about."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.algorithms.base import SECOND_US
from quotas.backtest import baselines, side_by_side
from quotas.backtest.baselines import PER_SUBJECT, RULES, SubjectMaxima
from quotas.backtest.fitting import RECOMMENDER, fit
from quotas.backtest.run import BacktestOptions, BacktestReport, backtest
from quotas.backtest.scoring import AssignedLimit, rejected_units
from quotas.backtest.trace import SeriesName, TraceError
from quotas.calibration.burst import Point
from quotas.calibration.counts import DAY_S, Counts
from quotas.calibration.parameters import DEFAULTS
from quotas.calibration.sizing import bucket, minute_allowance, minute_window
from quotas.observations.arrays import whole_numbers
from quotas.simulation import synthetic_tenants
from quotas.simulation.fast_replay import ArrivalBatch
from quotas.simulation.synthetic_tenants import SyntheticTenant

START = 20_000 * DAY_S
DAYS = 6
# What they share is made once.
pytestmark = pytest.mark.xdist_group("backtest")


def write(path: Path, tenants: list[SyntheticTenant], days: float = DAYS) -> Path:
    rows = [
        (time, tenant.name)
        for seed, tenant in enumerate(tenants)
        for time in tenant.demand(START, START + days * DAY_S, np.random.default_rng(seed)).tolist()
    ]
    lines = (f"{time / SECOND_US:.6f},{name}\n" for time, name in sorted(rows))
    path.write_text("timestamp,tenant\n" + "".join(lines))
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> BacktestReport:
    tenants = [synthetic_tenants.steady(f"steady-{n}", 0.01 + 0.005 * n) for n in range(5)]
    tenants += [synthetic_tenants.diurnal_weekly("wave", 0.005, 0.05), synthetic_tenants.cron_burst("cron", 0.005, 20)]
    tenants += [
        synthetic_tenants.growing("growth", 0.01, 1.25, START),
        synthetic_tenants.new("late", 0.05, START + 4 * DAY_S),
    ]
    return backtest(write(tmp_path_factory.mktemp("traces") / "trace.csv", tenants), BacktestOptions(train_days=3))


def test_every_rule_is_scored(report: BacktestReport) -> None:
    assert list(report.rules) == [RECOMMENDER, *(rule.name for rule in RULES), PER_SUBJECT]
    assert (report.tenants, report.bad_rows) == (9, 0)
    assert report.train_days == pytest.approx(3, abs=0.01)
    assert report.test_days == pytest.approx(3, abs=0.01)
    for score in (*report.rules.values(), *report.held_out_tenants.values()):
        assert 0 <= score.rejected <= 1
        assert 0 <= score.tenants_hit <= 1
        assert score.headroom > 0


def test_tighter_rules_reject_more(report: BacktestReport) -> None:
    rejected = [report.rules[name].rejected for name in ("max_x1.15", "p99_x1.15", "vpa_p90_24h_x1.15")]
    assert rejected == sorted(rejected)


def test_baselines_are_also_shown_at_the_recommenders_headroom(report: BacktestReport) -> None:
    wanted = report.rules[RECOMMENDER].headroom
    for score in report.same_headroom.values():
        assert score.headroom == pytest.approx(wanted, rel=0.12)  # limits are whole numbers, and here they are small


def test_at_the_same_headroom_the_recommender_rejects_no_more(report: BacktestReport) -> None:
    assert report.rules[RECOMMENDER].rejected <= min(score.rejected for score in report.same_headroom.values())


def test_who_was_not_seen_before_the_cut_is_scored_among_unseen_tenants_only(tmp_path: Path) -> None:
    tenants = [synthetic_tenants.steady("a", 0.02), synthetic_tenants.new("late", 5.0, START + DAY_S)]
    found = backtest(write(tmp_path / "trace.csv", tenants, 2), BacktestOptions(train_days=1))
    assert found.rules["max_x1.15"].rejected < 0.1
    assert found.held_out_tenants == {}  # two tenants cannot be split in halves that say anything


def test_without_a_number_of_days_the_first_half_is_fitted(tmp_path: Path) -> None:
    tenants = [synthetic_tenants.steady("a", 0.02)]
    assert backtest(write(tmp_path / "days.csv", tenants, 5)).train_days == pytest.approx(2, abs=0.01)
    assert backtest(write(tmp_path / "hours.csv", tenants, 0.5)).train_days == pytest.approx(0.25, abs=0.01)


def test_a_trace_too_short_for_its_fit_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.csv", [synthetic_tenants.steady("a", 0.02)], 1)
    with pytest.raises(TraceError, match=r"days, so 7 training days leave nothing to replay"):
        backtest(path, BacktestOptions(train_days=7))


def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("timestamp,tenant\n")
    with pytest.raises(TraceError, match="no usable rows"):
        backtest(path)


def test_costs_count_and_endpoints_are_apart(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = [f"{START + 60 * n},a,{'cheap' if n % 2 else 'dear'},{n % 7},{1 if n % 2 else 50}\n" for n in range(2_000)]
    path.write_text("timestamp,tenant,endpoint,subject,cost\n" + "".join(rows))
    found = backtest(path)
    assert found.series == 2
    assert found.rules["max_x1.15"].rejected == 0
    assert found.rules["max_x1.15"].headroom == pytest.approx((58 / 50 + 2) / 2)


def test_it_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    path = write(tmp_path / "trace.csv", [synthetic_tenants.steady("a", 0.02), synthetic_tenants.steady("b", 0.02)], 1)
    backtest(path, progress=lambda *step: told.append(step))
    assert [step for step in told if step[0] != "reading"] == [
        ("fitting", 1, 2),
        ("fitting", 2, 2),
        ("replaying", 1, 2),
        ("replaying", 2, 2),
    ]


def test_many_series_are_spread_over_the_cores_and_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = [synthetic_tenants.steady(f"t{number}", 0.01) for number in range(6)]
    path = write(tmp_path / "trace.csv", tenants, 1)
    alone = backtest(path)
    monkeypatch.setattr(side_by_side, "FEWEST", 1)
    monkeypatch.setattr(side_by_side, "AT_ONCE", 2)
    told: list[tuple[str, int, int]] = []
    assert backtest(path, progress=lambda *step: told.append(step)) == alone
    assert [done for stage, done, _ in told if stage == "fitting"] == [1, 2, 3, 4, 5, 6]


def operations(path: Path, pairs: int) -> int:
    """Bytecodes of the backtest's own code that run for a trace of so many pairs, each with an endpoint of its own."""
    hours = range(0, 96, 8)
    rows = [f"{START + 3_600 * hour + pair},t{pair % 20},e{pair}\n" for hour in hours for pair in range(pairs)]
    path.write_text("timestamp,tenant,endpoint\n" + "".join(rows))
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if "/quotas/backtest/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        backtest(path)
    finally:
        sys.settrace(before)
    return count


def test_a_pair_costs_the_same_however_many_there_are(tmp_path: Path) -> None:
    few, many = (operations(tmp_path / f"{pairs}.csv", pairs) for pairs in (40, 160))
    assert few < many <= 4.1 * few


limits = st.one_of(
    st.builds(AssignedLimit, st.builds(minute_window, st.integers(1, 12)), st.booleans()),
    st.builds(AssignedLimit, st.builds(bucket, st.builds(Point, st.floats(0.01, 1), st.integers(1, 40)))),
)
rows_in_order = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=30)


@given(rows_in_order, limits)
def test_a_limit_that_is_not_replayed_would_have_denied_nothing(
    rows: list[tuple[int, int, int]], limit: AssignedLimit
) -> None:
    times, subjects, costs = (whole_numbers([row[place] for row in sorted(rows)]) for place in (0, 1, 2))
    batch, cut_us = ArrivalBatch(times * SECOND_US, subjects, costs), 120 * SECOND_US
    fitted = fit(SeriesName("a", "e"), [batch], cut_us, 400 * SECOND_US, DEFAULTS)
    if limit.admits_all(fitted):
        assert rejected_units([batch], cut_us, [limit]) == {limit: 0}


arrivals = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 4)), max_size=60)


@given(arrivals, st.integers(0, 60))
def test_subject_maxima_do_not_depend_on_how_the_trace_is_cut(rows: list[tuple[int, int]], cut: int) -> None:
    rows.sort()
    times, subjects = (whole_numbers([row[place] for row in rows]) for place in (0, 1))
    batch = ArrivalBatch(times * SECOND_US, subjects, np.ones(len(rows), np.int64))
    maxima = SubjectMaxima()
    maxima.add(batch.cut(0, cut))
    maxima.add(batch.cut(cut, len(batch)))
    naive = [Counts.of(times[subjects == subject], 60).peak for subject in sorted(set(subjects.tolist()))]
    assert maxima.values().tolist() == naive


def test_very_many_subjects_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_SUBJECTS", 100)
    draw = np.random.default_rng(1)
    maxima = SubjectMaxima()
    for minute in range(5):
        subjects = whole_numbers(draw.integers(-(2**62), 2**62, 1_000))
        maxima.add(ArrivalBatch(np.full(1_000, minute * 60 * SECOND_US), subjects, np.ones(1_000, np.int64)))
    assert 0 < len(maxima.values()) <= 100


@given(st.floats(2e-3, 1e5), st.integers(1, 10**6))
def test_a_point_becomes_a_bucket_within_a_percent(rate: float, burst: int) -> None:
    found = bucket(Point(rate, burst))
    per_second = found.rate * SECOND_US / found.per_us
    assert rate * (1 - 1e-6) <= per_second <= rate * 1.0101
    assert found.size == burst or found.per_us == DAY_S * SECOND_US


def test_allowances_are_per_minute() -> None:
    assert minute_allowance(bucket(Point(100.0, 50))) == 6_050
    assert minute_allowance(minute_window(12.3)) == 13


def test_tenants_that_all_lie_in_one_half_teach_nobody(tmp_path: Path) -> None:
    names = [name for name in (f"t{n}" for n in range(40)) if crc32(name.encode()) & 1][:4]
    found = backtest(write(tmp_path / "trace.csv", [synthetic_tenants.steady(name, 0.002) for name in names], 2))
    assert found.rules
    assert found.held_out_tenants == {}
