from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headroom_edge import Check, Decision, Profile
from headroom_edge.headers import quoted

CHECK = Check("acme", "search")


def row(name: str, quota: int, window_s: int, remaining: int, reset_us: int, unit: str = "requests") -> list[Any]:
    """As hr_check gives it with ALL."""
    return [
        name.encode(), 1, quota, window_s, remaining, reset_us, 0, 0, b"e", unit.encode(), b"tenant", b"0",
    ]  # fmt: skip


def decision(*rows: list[Any], **facts: Any) -> Decision:
    first = rows[0] if rows else row("burst", 100, 60, 40, 1)
    plain = Decision(CHECK, True, "ok", first[0].decode(), first[2], first[4], first[5], 0, 0, 7, raw_rows=rows)
    return replace(plain, **facts)


def test_every_limit_is_a_policy_and_an_item() -> None:
    fields = decision(row("burst", 100, 60, 40, 599_000), row("daily", 1_000, 86_400, 12, 3_600_000_000)).headers()
    assert fields == {
        "RateLimit-Policy": '"burst";q=100;w=60, "daily";q=1000;w=86400',
        "RateLimit": '"burst";r=40;t=1, "daily";r=12;t=3600',
    }


def test_a_full_limit_has_no_time() -> None:
    assert decision(row("burst", 100, 60, 100, 0)).headers()["RateLimit"] == '"burst";r=100'
    assert decision(row("window", 100, 60, 100, 5_000_000)).headers()["RateLimit"] == '"window";r=100'


def test_times_are_never_earlier_than_the_truth() -> None:
    assert decision(row("burst", 9, 60, 1, 1)).headers()["RateLimit"] == '"burst";r=1;t=1'
    assert decision(row("burst", 9, 60, 1, 1_000_001)).headers()["RateLimit"] == '"burst";r=1;t=2'


def test_concurrency_has_a_unit_and_neither_window_nor_time() -> None:
    fields = decision(row("inflight", 10, 0, 3, 0)).headers()
    assert fields["RateLimit-Policy"] == '"inflight";q=10;qu="concurrent-requests"'
    assert fields["RateLimit"] == '"inflight";r=3'


def test_cost_is_not_a_registered_unit() -> None:
    fields = decision(row("tokens", 5_000, 60, 3, 1, unit="cost")).headers()
    assert fields["RateLimit-Policy"] == '"tokens";q=5000;w=60;headroom-unit=cost'


@pytest.mark.parametrize(("retry_us", "seconds"), [(1, "1"), (1_000_000, "1"), (1_000_001, "2"), (0, "1")])
def test_a_denied_request_is_told_when_to_come_back(retry_us: int, seconds: str) -> None:
    fields = decision(row("burst", 9, 60, 0, 1), allowed=False, retry_us=retry_us).headers()
    assert fields["Retry-After"] == seconds


def test_what_can_never_pass_is_not_told_to_come_back() -> None:
    assert "Retry-After" not in decision(row("burst", 9, 60, 9, 0), allowed=False, retry_us=-1).headers()


def test_an_allowed_request_has_no_retry_after() -> None:
    assert "Retry-After" not in decision(row("burst", 9, 60, 1, 1)).headers()


def test_without_rows_the_binding_limit_is_told() -> None:
    assert decision().headers() == {"RateLimit": '"burst";r=40;t=1'}


def test_without_a_limit_nothing_is_told() -> None:
    assert Decision(CHECK, True, "ok", "", 0, 0, 0, 0, 0, 7).headers() == {}


@pytest.mark.parametrize("triple", ["RateLimit", "X-RateLimit"])
def test_a_profile_adds_the_older_triple(triple: Any) -> None:
    fields = decision(row("burst", 100, 60, 40, 1_500_000)).headers(Profile(triple=triple))
    assert fields["RateLimit"] == '"burst";r=40;t=2'
    assert [fields[f"{triple}-{name}"] for name in ("Limit", "Remaining", "Reset")] == ["100", "40", "2"]


def test_the_triple_can_stand_alone_and_count_from_the_epoch() -> None:
    profile = Profile(draft=None, triple="X-RateLimit", reset="epoch", clock=lambda: 1_800_000_000.25)
    assert decision(row("burst", 100, 60, 40, 1_500_000)).headers(profile) == {
        "X-RateLimit-Limit": "100",
        "X-RateLimit-Remaining": "40",
        "X-RateLimit-Reset": "1800000002",
    }


def test_a_degraded_answer_says_so_and_invents_no_numbers() -> None:
    closed = Decision(CHECK, False, "unavailable", "", 0, 0, 0, 1_000_000, 0, 0, failure="closed")
    assert closed.headers() == {"Headroom-Degraded": "closed", "Retry-After": "1"}
    local = Decision(CHECK, True, "ok", "burst", 9, 3, 1, 0, 0, 7, failure="local")
    assert local.headers() == {"Headroom-Degraded": "local"}


@pytest.mark.parametrize(
    ("name", "text"), [("a b", '"a b"'), ('a"b', r'"a\"b"'), ("a\\b", r'"a\\b"'), ("é\r\nX: y", '"???X: y"')]
)
def test_no_name_can_break_out_of_its_field(name: str, text: str) -> None:
    assert quoted(name) == text
