"""Limits in the words that people read."""

from __future__ import annotations

from typing import Any

import pytest

from headroom_edge.plan.subject import Subject
from quotas.policies.limit_codec import limit_parse
from quotas.policies.limit_words import (
    algorithm_words,
    compact,
    limit_short,
    limit_words,
    most_short,
    override_words,
    sharing_words,
    subject_words,
)
from quotas.policies.spec import Override


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"algorithm": "token_bucket", "rate": 40, "burst": 60}, "40/s burst 60"),
        ({"algorithm": "gcra", "rate": 20, "per": "5m"}, "20/5min burst 1"),
        ({"algorithm": "leaky_bucket", "rate": 5, "queue": 10}, "5/s queue 10"),
        ({"algorithm": "fixed_window", "limit": 12_000, "window": "1m"}, "12k/min"),
        ({"algorithm": "sliding_log", "limit": 30, "window": "30s"}, "30/30s"),
        ({"algorithm": "sliding_counter", "limit": 6_000, "window": "1m"}, "6,000/min"),
        ({"algorithm": "calendar_quota", "limit": 40_000_000, "period": "month"}, "40M/month"),
        ({"algorithm": "concurrency", "limit": 4, "hold": "5m"}, "4 at once hold 5m"),
        (
            {"algorithm": "adaptive_concurrency", "min": 5, "max": 200, "target": "80ms", "hold": "10s"},
            "5 to 200 at once target 80ms",
        ),
        ({"algorithm": "pool", "rate": 4.5, "burst": 20_000}, "4.5/s pool, burst 20k"),
        ({"algorithm": "borrowing", "assured": 200, "parent": "org"}, "200/s guaranteed, more from org"),
        (
            {"algorithm": "borrowing", "ceiling": 12_000, "per": "1m", "parent": "org"},
            "0/min guaranteed, up to 12k/min from org",
        ),
    ],
)
def test_every_algorithm_fits_a_cell(fields: dict[str, Any], text: str) -> None:
    assert str(limit_short(limit_parse("x", fields).algorithm)) == text


@pytest.mark.parametrize(
    ("value", "text"), [(999, "999"), (9_999, "9,999"), (10_000, "10k"), (12_345, "12,345"), (2_500_000, "2.5M")]
)
def test_a_short_number_loses_no_digit(value: int, text: str) -> None:
    assert compact(value) == text


@pytest.mark.parametrize(
    ("subject", "words"),
    [("tenant", "tenant"), ("key|ip", "API key or address"), ("user+ip", "user and address")],
)
def test_a_subject_in_words_for_those_who_do_not_configure_it(subject: str, words: str) -> None:
    assert subject_words(Subject.parse(subject)) == words


def test_a_limit_says_what_it_buys_for_whom_and_whether_it_denies() -> None:
    limit = limit_parse("x", {"algorithm": "token_bucket", "rate": 5, "subject": "key|ip", "mode": "shadow"})
    assert limit_words(limit) == "5/s sustained, up to 10 at once, per API key or address, in shadow"


@pytest.mark.parametrize(
    ("lease", "words"),
    [("never", "never leased"), ("250ms", "leased for at most 250 ms"), ("1s", "leased for at most 1 s")],
)
def test_a_limit_mentions_leases_only_if_it_says_something_of_them(lease: str, words: str) -> None:
    fields = {"algorithm": "gcra", "rate": 5}
    assert "lease" not in limit_words(limit_parse("burst", fields))
    assert limit_words(limit_parse("burst", {**fields, "lease": lease})).endswith(f", enforced, {words}")


def test_an_override_says_what_it_changes() -> None:
    assert override_words(Override(1, "acme", "*", 0, None, multiplier=(3, 2))) == "every limit × 3/2"
    assert override_words(Override(1, "acme", "*", 0, None, {"b": {}, "a": {}})) == "other values for a, b"


def test_algorithms_are_called_by_their_names() -> None:
    assert [algorithm_words(name) for name in ("sliding_log", "gcra")] == ["sliding log", "GCRA"]


def test_a_global_limit_counts_all_tenants_together() -> None:
    fields = {"algorithm": "token_bucket", "rate": 5, "burst": 10}
    words = limit_words(limit_parse("backend", fields), is_global=True)
    assert words == "5/s sustained, up to 10 at once, all tenants together, enforced"
    by_address = limit_words(limit_parse("backend", {**fields, "subject": "ip"}), is_global=True)
    assert by_address == "5/s sustained, up to 10 at once, per address, all tenants together, enforced"


def test_limits_that_share_say_what_they_buy() -> None:
    fields = {"algorithm": "borrowing", "assured": 0, "parent": "org", "ceiling": 50}
    assert sharing_words(limit_parse("x", fields).algorithm) == (
        "Nothing is guaranteed: it gets what org has left.",
        "It borrows up to 50/s in all. When others ask too, its part has the weight 1.",
    )
    lender = fields | {"assured": 40, "burst": 40, "reserve": 20}
    assert sharing_words(limit_parse("x", lender).algorithm)[-1] == (
        "It lends to others itself. "
        "How much it lends at once, by the request's priority: critical 20, high 18, normal 15, sheddable 10."
    )
    assert sharing_words(limit_parse("x", {"algorithm": "gcra", "rate": 5}).algorithm) == ()


@pytest.mark.parametrize(
    ("ceiling", "text"),
    [({"ceiling": 900, "ceiling_burst": 120}, "900/min burst 120"), ({}, "90/min guaranteed, more from org")],
)
def test_use_of_a_share_is_measured_against_its_ceiling(ceiling: dict[str, Any], text: str) -> None:
    fields = {"algorithm": "borrowing", "assured": 90, "per": "1m", "parent": "org"}
    assert str(most_short(limit_parse("share", {**fields, **ceiling}).algorithm)) == text
