"""Charts as numbers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.svg import nice_top, spark
from dashboards.templatetags.numbers import ago, number, share


def test_a_line_goes_in_steps_and_breaks_where_nothing_is_known() -> None:
    drawn = spark([1, 2, None, 4])
    assert drawn.line == "M0.0 768.5V768.5H250.0V537.0H500.0M750.0 74.1V74.1H1000.0"
    assert drawn.area == "M0.0 768.5V768.5H250.0V537.0H500.0V1000H0.0ZM750.0 74.1V74.1H1000.0V1000H750.0Z"


def test_a_long_line_is_drawn_from_means() -> None:
    assert spark([1.0, 3.0] * 48).line == spark([2.0] * 48).line
    assert spark([None, None, *[1.0, 3.0] * 47]).line.startswith("M20.8 ")


def test_a_spark_of_nothing_lies_flat() -> None:
    assert spark([0, 0]).line == "M0.0 1000.0V1000.0H500.0V1000.0H1000.0"


@given(st.floats(0, 1e12), st.integers(1, 5))
def test_the_top_of_a_scale_is_not_far_away(largest: float, divisions: int) -> None:
    top = nice_top(largest, divisions)
    assert largest <= top <= max(2.5 * largest, divisions)


@pytest.mark.parametrize(
    ("largest", "top"), [(0, 4), (0.001, 0.04), (0.07, 0.08), (3.1, 3.2), (17, 20), (95, 120), (901, 1200)]
)
def test_the_parts_of_a_scale_are_round(largest: float, top: float) -> None:
    assert nice_top(largest, 4) == pytest.approx(top)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0014, "< 0.01"),
        (0.123, "0.12"),
        (12.34, "12.3"),
        (5, "5"),
        (123.4, "123"),
        (1234567, "1,234,567"),
    ],
)
def test_numbers_have_the_digits_a_reader_needs(value: float, text: str) -> None:
    assert number(value).replace("\N{NO-BREAK SPACE}", " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.00001, "< 0.01 %"),
        (0.0012, "0.12 %"),
        (0.0123, "1.2 %"),
        (0.98, "98 %"),
        (0.9999, "99.99 %"),
        (1.004, "100.4 %"),
        (2.75, "275 %"),
    ],
)
def test_a_share_is_never_rounded_to_nothing_or_to_all(value: float, text: str) -> None:
    assert share(value).replace("\N{NO-BREAK SPACE}", " ") == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0 s"), (2.9, "2 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172800, "2 d")]
)
def test_an_age_is_written_in_its_largest_unit(seconds: float, text: str) -> None:
    assert ago(timedelta(seconds=seconds)).replace("\N{NO-BREAK SPACE}", " ") == f"{text} ago"
