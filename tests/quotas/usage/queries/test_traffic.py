"""Traffic, point by point: what is known of a point that is not over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quotas.models.usage import DrainState
from quotas.usage.queries.periods import period_read
from quotas.usage.queries.traffic import traffic_read

NOW = datetime(2031, 5, 6, 10, 14, tzinfo=UTC)
BEGUN = datetime(2031, 5, 6, 10, 0, tzinfo=UTC)  # the last point of a day of quarters of an hour


@pytest.mark.parametrize(("minutes", "is_known"), [(1, False), (7, False), (8, True), (14, True)])
@pytest.mark.django_db
def test_a_point_is_drawn_once_half_of_it_was_measured(minutes: int, is_known: bool) -> None:
    DrainState.objects.create(drained_at=BEGUN + timedelta(minutes=minutes), run_id="x")
    last = traffic_read(period_read("24h", "", "", NOW)).moments[-1]
    assert last.start == BEGUN
    assert last.is_known == is_known
    assert (last.rate(last.asked), last.denied_share) == ((0, 0) if is_known else (None, None))


def test_a_series_of_counts_ends_with_the_last_point_that_is_over_and_in() -> None:
    period = period_read("24h", "", "", NOW)
    assert period.starts[-1] == BEGUN
    assert period.starts_over(NOW)[-1] == BEGUN - period.step
    assert period.starts_over(BEGUN + period.step + timedelta(seconds=5))[-1] == BEGUN - period.step
    assert period.starts_over(BEGUN + period.step + timedelta(seconds=20))[-1] == BEGUN
