"""What a limit buys, as numbers for the headers, for people, and for the store."""

import pytest

from headroom_edge.algorithms import ALGORITHMS, FIELDS, KINDS
from headroom_edge.algorithms.base import Algorithm, ParameterError, format_duration, parse_duration_us


def parse(name: str, **fields: object) -> Algorithm:
    return ALGORITHMS[name].parse(dict(fields))


# name, fields, capacity, quota and seconds of the header, longest idle life of the state in ms
TABLE = [
    ("token_bucket", {"rate": 100, "burst": 200}, 200, 200, 2, 3_000),
    ("token_bucket", {"rate": 100, "burst": 200, "max_wait": "250ms"}, 200, 200, 2, 3_250),
    ("token_bucket", {"rate": 5, "per": "1m"}, 10, 10, 120, 121_000),
    ("gcra", {"rate": 100}, 1, 100, 1, 1_010),  # a burst under a second: the rate per second
    ("gcra", {"rate": 1, "per": "1h"}, 1, 1, 3_600, 3_601_000),
    ("leaky_bucket", {"rate": 3_000, "queue": 5_000}, 5_000, 5_000, 2, 2_667),
    ("fixed_window", {"limit": 100, "window": "1m"}, 100, 100, 60, 121_000),
    ("fixed_window", {"limit": 3, "window": "250ms"}, 3, 12, 1, 1_500),
    ("fixed_window", {"limit": 3, "window": "1500ms"}, 3, 3, 2, 4_000),
    ("sliding_log", {"limit": 10_000, "window": "1m"}, 10_000, 10_000, 60, 121_000),
    ("sliding_counter", {"limit": 50, "window": "60s"}, 50, 50, 60, 181_000),
    ("concurrency", {"limit": 20, "hold": "30s"}, 20, 20, None, 61_000),
    ("calendar_quota", {"limit": 9, "period": "day"}, 9, 9, 86_400, 180_001_000),
    ("calendar_quota", {"limit": 9, "period": "week"}, 9, 9, 604_800, 1_216_801_000),
    ("calendar_quota", {"limit": 9, "period": "month"}, 9, 9, 2_678_400, 5_364_001_000),
    ("calendar_quota", {"limit": 9, "period": "year"}, 9, 9, 31_622_400, 63_252_001_000),
]


@pytest.mark.parametrize(("name", "fields", "capacity", "quota", "seconds", "ttl_ms"), TABLE)
def test_capacity_header_and_life(
    name: str, fields: dict[str, object], capacity: int, quota: int, seconds: int | None, ttl_ms: int
) -> None:
    algorithm = parse(name, **fields)
    assert algorithm.capacity == capacity
    assert (algorithm.window.quota, algorithm.window.seconds) == (quota, seconds)
    assert algorithm.ttl_ms() == ttl_ms


@pytest.mark.parametrize(("name", "fields"), [row[:2] for row in TABLE])
def test_the_fields_survive_the_way_back(name: str, fields: dict[str, object]) -> None:
    algorithm = parse(name, **fields)
    assert parse(name, **algorithm.describe()) == algorithm
    assert set(algorithm.describe()) <= set(FIELDS[algorithm.name])
    assert str(algorithm.capacity) in algorithm.words().replace(",", "")


def test_every_kind_has_a_letter_of_its_own() -> None:
    assert len(KINDS) == len(ALGORITHMS)
    assert {kind: algorithm.name for kind, algorithm in KINDS.items()}["q"] == "calendar_quota"


def test_the_interval_is_in_lowest_terms() -> None:
    assert parse("token_bucket", rate=3_000, burst=5).compiled() == {"P": 1_000, "Q": 3, "n": 5, "mw": 0}
    assert parse("gcra", rate=60, per="1m").compiled() == {"P": 1_000_000, "Q": 1, "n": 1, "mw": 0}


SCALED: list[tuple[str, dict[str, object], tuple[int, int], dict[str, object]]] = [
    ("token_bucket", {"rate": 100, "burst": 200}, (3, 2), {"rate": 150, "per": "1s", "burst": 300}),
    ("token_bucket", {"rate": 5, "burst": 5}, (1, 2), {"rate": 5, "per": "2s", "burst": 2}),
    ("gcra", {"rate": 1}, (1, 3), {"rate": 1, "per": "3s", "burst": 1}),
    ("leaky_bucket", {"rate": 10, "queue": 7}, (2, 1), {"rate": 20, "per": "1s", "queue": 14}),
    ("fixed_window", {"limit": 7, "window": "1m"}, (1, 2), {"limit": 3, "window": "1m"}),
    ("sliding_log", {"limit": 1, "window": "1m"}, (1, 100), {"limit": 1, "window": "1m"}),
    ("sliding_counter", {"limit": 10, "window": "1m"}, (5, 4), {"limit": 12, "window": "1m"}),
    ("concurrency", {"limit": 4, "hold": "30s"}, (3, 1), {"limit": 12, "hold": "30s"}),
    ("calendar_quota", {"limit": 4, "period": "day"}, (1, 3), {"limit": 1, "period": "day", "timezone": "tenant"}),
]


@pytest.mark.parametrize(("name", "fields", "factor", "expected"), SCALED)
def test_a_multiplier_scales_the_rate_exactly_and_rounds_capacity_down(
    name: str, fields: dict[str, object], factor: tuple[int, int], expected: dict[str, object]
) -> None:
    assert parse(name, **fields).scaled(*factor).describe() == expected


def test_a_multiplier_keeps_the_longest_wait() -> None:
    bucket = parse("token_bucket", rate=10, burst=10, max_wait="1s").scaled(2, 1)
    assert bucket.describe() == {"rate": 20, "per": "1s", "burst": 20, "max_wait": "1s"}


@pytest.mark.parametrize("factor", [(0, 1), (-1, 1), (1, 0)])
def test_a_multiplier_must_be_above_zero(factor: tuple[int, int]) -> None:
    for name, fields, *_ in SCALED:
        with pytest.raises(ParameterError, match="multiplier must be above 0; suspend the tenant"):
            parse(name, **fields).scaled(*factor)


def test_a_multiplier_cannot_take_a_log_beyond_its_bound() -> None:
    with pytest.raises(ParameterError, match="use sliding_counter"):
        parse("sliding_log", limit=5_001, window="1m").scaled(2, 1)


@pytest.mark.parametrize("text", ["250ms", "1s", "90s", "5m", "36h", "1d"])
def test_durations_are_written_in_their_largest_whole_unit(text: str) -> None:
    assert parse_duration_us(format_duration(parse_duration_us(text))) == parse_duration_us(text)


@pytest.mark.parametrize("text", ["", "0s", "1", "s", "1.5s", "-1s", "1w", "1S", " 1s", "1s ", "01s", "1e3s", "٣s"])
def test_anything_else_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write one like 250ms"):
        parse_duration_us(text)
