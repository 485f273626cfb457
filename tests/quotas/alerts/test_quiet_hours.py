from __future__ import annotations

from datetime import UTC, datetime

import pytest

from quotas.alerts.quiet_hours import clock_of, minute_of, quiet_until


@pytest.mark.parametrize(
    ("now", "begin", "end", "zone", "over"),
    [
        ("23:00", "22:00", "07:00", "UTC", "07:00 next"),
        ("03:00", "22:00", "07:00", "UTC", "07:00"),
        ("07:00", "22:00", "07:00", "UTC", None),
        ("12:30", "12:00", "13:00", "UTC", "13:00"),
        ("21:30", "22:00", "07:00", "Europe/Berlin", "06:00 next"),
        ("21:30", "22:00", "07:00", "UTC", None),
        ("12:00", "09:00", "09:00", "UTC", None),
    ],
)
def test_quiet_hours_hold_in_the_target_s_zone(now: str, begin: str, end: str, zone: str, over: str | None) -> None:
    hour, minute = map(int, now.split(":"))
    found = quiet_until(datetime(2030, 1, 15, hour, minute, tzinfo=UTC), minute_of(begin), minute_of(end), zone)
    if over is None:
        assert found is None
    else:
        clock, _, day = over.partition(" ")
        assert found is not None
        assert f"{found.astimezone(UTC):%H:%M}" == clock
        assert found.astimezone(UTC).day == (16 if day else 15)


def test_without_both_ends_there_are_no_quiet_hours() -> None:
    assert quiet_until(datetime(2030, 1, 15, tzinfo=UTC), None, None, "UTC") is None


@pytest.mark.parametrize("clock", ["7:00", "24:00", "12:60", "noon", ""])
def test_a_time_of_the_day_is_written_in_one_way(clock: str) -> None:
    with pytest.raises(ValueError, match="22:30"):
        minute_of(clock)
    assert clock_of(1_350) == "22:30"
