"""Where a calendar's periods begin."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.algorithms.calendar_quota import PERIODS, Period, boundaries, first_instant, known_zones

ANCHORS: dict[Period, list[str]] = {
    "day": [""],
    "week": ["mon", "wed", "sun"],
    "month": ["1", "15", "29", "30", "31"],
    "year": ["01-01", "02-29", "12-31"],
}


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def shown(instants: tuple[int, ...], zone: str) -> list[str]:
    return [datetime.fromtimestamp(instant, ZoneInfo(zone)).isoformat(timespec="minutes")[:16] for instant in instants]


def test_anchor_31_is_the_last_day_of_shorter_months() -> None:
    found = boundaries("month", "31", "Asia/Kolkata", utc("2024-01-15"), utc("2024-05-15"))
    assert shown(found, "Asia/Kolkata") == [
        "2023-12-31T00:00",
        "2024-01-31T00:00",
        "2024-02-29T00:00",
        "2024-03-31T00:00",
        "2024-04-30T00:00",
        "2024-05-31T00:00",
    ]


def test_29_february_is_the_28th_in_other_years() -> None:
    found = boundaries("year", "02-29", "UTC", utc("2023-03-01"), utc("2025-03-01"))
    assert shown(found, "UTC") == ["2023-02-28T00:00", "2024-02-29T00:00", "2025-02-28T00:00", "2026-02-28T00:00"]


@pytest.mark.parametrize(
    ("zone", "day", "instant"),
    [
        ("Asia/Beirut", "2026-03-29", "2026-03-28T22:00"),  # 00:00 becomes 01:00
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00"),
        ("America/Toronto", "1919-03-31", "1919-03-31T04:30"),  # 23:30 becomes 00:30: the day starts half past
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00"),  # a day that does not exist: the next one's start
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00"),
        ("America/Havana", "2026-11-01", "2026-11-01T04:00"),  # 01:00 becomes 00:00: the first of two midnights
        ("Asia/Kathmandu", "2026-03-02", "2026-03-01T18:15"),
    ],
)
def test_a_day_begins_with_its_first_instant(zone: str, day: str, instant: str) -> None:
    assert first_instant(date.fromisoformat(day), ZoneInfo(zone)) == utc(instant)


def test_a_day_that_does_not_exist_makes_no_period_of_its_own() -> None:
    found = boundaries("day", "", "Pacific/Apia", utc("2011-12-29T12:00"), utc("2011-12-30T12:00"))
    assert shown(found, "Pacific/Apia") == ["2011-12-29T00:00", "2011-12-31T00:00", "2012-01-01T00:00"]


@st.composite
def calendars(draw: st.DrawFn) -> tuple[Period, str, str]:
    period = draw(st.sampled_from(PERIODS))
    return period, draw(st.sampled_from(ANCHORS[period])), draw(st.sampled_from(sorted(known_zones())))


@given(calendars(), st.integers(0, 4_000_000_000), st.integers(0, 500 * 86_400))
def test_every_span_is_covered_and_every_boundary_is_a_days_first_instant(
    calendar: tuple[Period, str, str], first_s: int, length_s: int
) -> None:
    period, anchor, zone = calendar
    found = boundaries(period, anchor, zone, first_s, first_s + length_s)
    place = ZoneInfo(zone)
    assert found[0] <= first_s < found[1]
    assert found[-2] <= first_s + length_s < found[-1]
    for earlier, later in pairwise(found):
        assert timedelta(0) < timedelta(seconds=later - earlier) <= timedelta(days=366, hours=25)
        assert datetime.fromtimestamp(later - 1, place).date() < datetime.fromtimestamp(later, place).date()


@given(calendars(), st.integers(0, 4_000_000_000))
def test_a_longer_span_has_the_same_boundaries_inside(calendar: tuple[Period, str, str], first_s: int) -> None:
    short = boundaries(*calendar, first_s, first_s + 40 * 86_400)
    wide = boundaries(*calendar, first_s - 400 * 86_400, first_s + 500 * 86_400)
    start = wide.index(short[0])
    assert wide[start : start + len(short)] == short
