"""Tenants that are active for a few minutes a day: the generated trace, and how well limits fit such tenants."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from quotas.backtest.run import BacktestOptions, BacktestReport, backtest
from quotas.backtest.sparse_trace import SparseTenants, sparse_days
from quotas.calibration.counts import DAY_S

pytestmark = pytest.mark.xdist_group("backtest")
TENANTS = 100


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sparse") / "trace.csv"
    call_command("trace_sparse", str(path), "--tenants", str(TENANTS), "--seed", "4")
    return path


@pytest.fixture(scope="module")
def report(trace: Path) -> BacktestReport:
    return backtest(trace, BacktestOptions(train_days=7))


def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others() -> None:
    first, again, other = (next(iter(sparse_days(SparseTenants(5, 1, seed)))) for seed in (3, 3, 4))
    assert first.times_s.tolist() == again.times_s.tolist()
    assert first.tenants == again.tenants
    assert first.times_s.tolist() != other.times_s.tolist()


def test_tenants_are_active_for_a_few_minutes_on_most_days() -> None:
    minutes: Counter[str] = Counter()
    for number, part in enumerate(sparse_days(SparseTenants(50, 7))):
        assert part.times_s.tolist() == sorted(part.times_s.tolist())
        assert number * DAY_S <= part.times_s[0] <= part.times_s[-1] < (number + 1) * DAY_S
        pairs = zip((part.times_s // 60).tolist(), part.tenants, strict=True)
        minutes.update(tenant for _, tenant in set(pairs))
    a_day = sorted(count / 7 for count in minutes.values())
    assert len(a_day) == 50
    assert 2 < a_day[25] < 10
    assert a_day[-1] < 40


def test_fewer_tenants_see_a_429_than_under_their_maximum_scaled_to_the_same_headroom(report: BacktestReport) -> None:
    ours, scaled = report.rules["recommender"], report.same_headroom["max_x1.15"]
    assert scaled.headroom == pytest.approx(ours.headroom, rel=0.03)
    assert ours.tenants_hit < scaled.tenants_hit
    assert ours.rejected < 0.005


def test_a_tier_of_rarely_active_tenants_gets_no_more_than_a_few_times_its_peaks(report: BacktestReport) -> None:
    """Its tenants differ so much that the tier's limit would be eight times the median tenant's peak."""
    assert 1.5 < report.rules["recommender"].headroom < 3


def test_all_rules_can_be_compared_at_a_headroom_of_ones_choice(trace: Path) -> None:
    found = backtest(trace, BacktestOptions(train_days=7, headroom=1.75)).same_headroom
    assert {round(one.headroom, 1) for one in found.values()} == {1.8}
    assert found["recommender"].tenants_hit < found["max_x1.15"].tenants_hit


@pytest.mark.parametrize("words", [("--tenants", "0"), ("--days", "0"), ("--seed", "-1")])
def test_impossible_numbers_are_refused(tmp_path: Path, words: tuple[str, str]) -> None:
    with pytest.raises(CommandError, match="must"):
        call_command("trace_sparse", str(tmp_path / "out.csv"), *words)
    assert not (tmp_path / "out.csv").exists()
