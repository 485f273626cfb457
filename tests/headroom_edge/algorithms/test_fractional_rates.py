"""A rate with decimals: kept as whole numbers, shown as typed, and admitted exactly."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.algorithms.base import EXACT_MAX, ParameterError, format_duration, parse_duration_us
from headroom_edge.algorithms.bucket import MOST_DECIMALS
from quotas.errors import accepted
from quotas.matrix.sheet import SheetRow, read_sheet, write_sheet
from quotas.policies.document import read_document
from quotas.policies.export import document_text, states_of
from quotas.policies.limit_codec import (
    algorithm_dump,
    algorithm_load,
    fields_of_stored,
    limit_fields,
    limit_parse,
    stored_of_fields,
)
from quotas.policies.limit_words import limit_short
from quotas.policies.spec import Limit

KINDS = {"token_bucket": "burst", "gcra": "burst", "leaky_bucket": "queue"}


@st.composite
def typed_rates(draw: st.DrawFn) -> tuple[Decimal, str]:
    """What somebody may type: a rate with decimals, and its time."""
    decimals = draw(st.integers(1, MOST_DECIMALS))
    digits = draw(st.integers(1, 10**8).filter(lambda number: number % 10))
    per = draw(st.sampled_from(["1s", "10s", "1m", "5m", "250ms", "1h"]))
    return Decimal(digits).scaleb(-decimals), per


def plain(rate: Decimal) -> str:
    return f"{rate:f}"


@given(typed_rates(), st.sampled_from(sorted(KINDS)), st.integers(1, 5))
def test_it_round_trips_everywhere_and_admits_exactly_the_rational_rate(
    typed: tuple[Decimal, str], name: str, size: int
) -> None:
    rate, per = typed
    fields = {"algorithm": name, "rate": float(plain(rate)), "per": per, KINDS[name]: size}
    try:
        limit = limit_parse("one", fields)
    except ParameterError:
        assert size * parse_duration_us(per) * 10**MOST_DECIMALS > EXACT_MAX  # too fine to count exactly
        return
    algorithm = limit.algorithm
    # Whole numbers, and exactly the rate.
    compiled = algorithm.compiled()
    assert Fraction(compiled["Q"], compiled["P"]) == Fraction(rate) / parse_duration_us(per)
    assert (compiled["n"], type(algorithm.compiled()["P"])) == (size, int)
    # As typed, in every form.
    shown = {**fields, "subject": "tenant", "unit": "requests", "mode": "enforce", "on_failure": "open"}
    assert limit_fields(limit) == shown
    assert json.loads(json.dumps(limit_fields(limit))) == shown
    stored = json.loads(json.dumps(algorithm_dump(algorithm)))
    assert type(stored["parameters"]["rate"]) is int
    assert (algorithm_load(stored), fields_of_stored(stored)) == (algorithm, fields)
    assert stored_of_fields(fields) == stored
    assert str(limit_short(algorithm).main).replace(",", "").startswith(f"{plain(rate)}/")
    text = limit_parse("one", {"algorithm": name, "rate": f"{plain(rate)}/{per}", KINDS[name]: size})
    assert text == limit
    assert limit_fields(text) == shown
    # An older release reads the stored numbers and enforces the same.
    old = {key: value for key, value in stored["parameters"].items() if key != "decimals"}
    assert algorithm_load({**stored, "parameters": old}).compiled() == compiled


@given(typed_rates(), st.sampled_from(sorted(KINDS)))
def test_a_drained_bucket_refills_at_exactly_the_rational_rate(typed: tuple[Decimal, str], name: str) -> None:
    """Each further unit passes at the first whole microsecond at which the rate has earned it, and not before."""
    rate, per = typed
    try:
        algorithm = ALGORITHMS[name].parse({"rate": float(plain(rate)), "per": per, KINDS[name]: 2})
    except ParameterError:
        return
    interval_us, start_us = Fraction(parse_duration_us(per)) / Fraction(rate), 10**15
    assume(interval_us > 1)  # below the clock's step the bucket is full before it can be asked
    state = algorithm.decide(algorithm.decide(None, start_us, 1).charged, start_us, 1).charged
    for n in range(1, 20):
        earned_us = start_us + -(-n * interval_us.numerator // interval_us.denominator)
        assert not algorithm.decide(state, earned_us - 1, 1).verdict.admitted
        found = algorithm.decide(state, earned_us, 1)
        assert found.verdict.admitted
        state = found.charged


@given(st.lists(typed_rates(), min_size=1, max_size=4))
def test_documents_and_sheets_keep_it_as_typed(rates: list[tuple[Decimal, str]]) -> None:
    limits = [
        {"name": f"l{n}", "algorithm": "token_bucket", "rate": float(plain(rate)), "per": per, "burst": 1}
        for n, (rate, per) in enumerate(rates)
    ]
    policy = {"name": "p", "endpoint": "*", "tier": "pro", "limits": limits}
    read = read_document(yaml.safe_dump({"tiers": [{"name": "pro"}], "policies": [policy]}))
    if isinstance(read, list):
        return  # too fine to count exactly
    found: dict[str, Any] = {limit.name: limit for limit in read.policies[0].limits}
    again = accepted(read_document(document_text(states_of(read), "the same", {})))
    assert again == read
    assert [limit_fields(limit) for limit in again.policies[0].limits] == [limit_fields(one) for one in found.values()]
    sheet = write_sheet(("pro", "*", name, limit_fields(limit)) for name, limit in found.items())
    for row in read_sheet(sheet):
        assert isinstance(row, SheetRow)
        limit = limit_parse(row.name, row.fields)
        assert isinstance(limit, Limit)
        assert limit_fields(limit) == limit_fields(found[row.name])


def test_the_example_of_the_manual() -> None:
    limit = limit_parse("one", {"algorithm": "token_bucket", "rate": "4.2/10s", "burst": 8})
    assert algorithm_dump(limit.algorithm)["parameters"] == {"rate": 42, "per": "100s", "decimals": 1, "burst": 8}
    assert str(limit_short(limit.algorithm)) == "4.2/10s burst 8"
    assert limit.algorithm.words() == "4.2/10s sustained, up to 8 at once"
    assert limit_parse("one", {"algorithm": "token_bucket", "rate": 4.2}).algorithm.capacity == 8


def test_a_multiplier_keeps_the_time_where_it_can() -> None:
    base = ALGORITHMS["gcra"].parse({"rate": 4.2, "per": "10s", "burst": 2})
    assert base.scaled(3, 2).describe() == {"rate": 6.3, "per": "10s", "burst": 3}
    assert base.scaled(1, 5).describe() == {"rate": 42, "per": format_duration(500_000_000), "burst": 1}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"rate": 0.1234567}, "has more than 6 decimals"),
        ({"rate": -4.2}, "rate must be above 0"),
        ({"rate": 0.0}, "rate must be a number above 0"),
        ({"rate": "4.2/10s", "per": "1s"}, "has its own time; remove per, or write only 4.2"),
        ({"rate": "4,2/10s"}, "rate must be a number above 0"),
        ({"rate": "4.2/fortnight"}, "rate must be a number above 0"),
        ({"rate": 0.000001, "per": "9000d"}, "too many decimals for so long a per"),
        ({"rate": "5"}, "rate must be a number above 0"),
    ],
)
def test_a_wrong_one_says_what_to_write(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        limit_parse("one", {"algorithm": "token_bucket", "burst": 1, **fields})


@pytest.mark.parametrize("name", ["fixed_window", "sliding_log", "sliding_counter"])
def test_windows_count_whole_units(name: str) -> None:
    with pytest.raises(ParameterError, match="limit must be a whole number"):
        limit_parse("one", {"algorithm": name, "limit": 4.2, "window": "10s"})
