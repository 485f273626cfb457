"""The reference limiter over whole plans: what it charges, what it names, what it carries along."""

from dataclasses import replace
from typing import Any

import pytest

from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.algorithms.base import SECOND_US, Algorithm
from quotas.policies.limit_codec import limit_parse
from quotas.policies.spec import Generation, Limit, Policy
from quotas.simulation.reference_limiter import ReferenceLimiter, Request
from quotas.simulation.reference_plan import AppliedLimit, ReferencePlan, applied_at

NOW = 1_772_409_600 * SECOND_US
MINUTE = 60 * SECOND_US


def limit(name: str, algorithm: str, **fields: Any) -> Limit:
    return limit_parse(name, {"algorithm": algorithm, **fields})


def window(name: str, size: int, **fields: Any) -> Limit:
    return limit(name, "fixed_window", limit=size, window="1m", **fields)


def algorithm(name: str, **fields: Any) -> Algorithm:
    return ALGORITHMS[name].parse(fields)


@pytest.fixture
def limiter() -> ReferenceLimiter:
    return ReferenceLimiter()


def test_of_the_limits_that_admit_the_one_with_the_least_left_is_named(limiter: ReferenceLimiter) -> None:
    answer = limiter.check(ReferencePlan.of_limits(window("wide", 9), window("tight", 3), window("as-tight", 3)), NOW)
    assert (answer.allowed, answer.limit, answer.quota, answer.remaining) == (True, "tight", 3, 2)
    assert [row.remaining for row in answer.rows] == [8, 2, 2]


def test_a_plan_without_limits_allows(limiter: ReferenceLimiter) -> None:
    answer = limiter.check(ReferencePlan.of_limits(window("a", 1, mode="off")), NOW)
    assert (answer.allowed, answer.reason, answer.limit) == (True, "ok", "")


def test_when_one_denies_no_other_is_charged(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(window("narrow", 1), limit("burst", "token_bucket", rate=3, burst=9))
    limiter.check(plan, NOW)
    before = limiter.state(plan, NOW, "burst")
    answer = limiter.check(plan, NOW)
    assert (answer.allowed, answer.limit, answer.receipt) == (False, "narrow", None)
    assert [row.remaining for row in answer.rows] == [0, 8]
    assert limiter.state(plan, NOW, "burst") == before


def test_a_cost_that_can_never_pass_is_named_before_the_longest_wait(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(window("full", 5), limit("small", "token_bucket", rate=1, burst=2, unit="cost"))
    for _ in range(5):
        limiter.check(plan, NOW - 30 * SECOND_US)
        limiter.check(plan, NOW)
    answer = limiter.check(plan, NOW, Request(cost=3))
    assert (answer.reason, answer.limit, answer.retry_us) == ("cost_too_big", "small", -1)


def test_requests_count_one_whatever_they_cost(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(window("requests", 9), window("cost", 9, unit="cost"))
    answer = limiter.check(plan, NOW, Request(cost=5))
    assert {row.name: row.remaining for row in answer.rows} == {"requests": 8, "cost": 4}


def test_a_shadow_limit_never_denies_and_is_charged_only_when_all_admit(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(window("live", 3), window("shadow", 2, mode="shadow"))
    answers = [limiter.check(plan, NOW) for _ in range(4)]
    assert [answer.allowed for answer in answers] == [True, True, True, False]
    assert [answer.shadow_denied for answer in answers] == [(), (), ("shadow",), ()]
    assert [row.name for row in answers[0].rows] == ["live"]
    assert limiter.state(plan, NOW, "shadow") == (NOW // MINUTE, 2)


def test_a_shadow_limit_adds_no_wait(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(window("live", 9), limit("shaped", "leaky_bucket", rate=1, queue=9, mode="shadow"))
    assert [limiter.check(plan, NOW).wait_us for _ in range(3)] == [0, 0, 0]


def with_candidate(live: Limit, **fields: Any) -> Limit:
    return replace(live, candidate=algorithm(live.algorithm.name, **fields))


def test_a_candidate_is_judged_beside_the_live_limit_and_also_when_that_denies(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(with_candidate(window("a", 1), limit=3, window="1m"))
    answers = [limiter.check(plan, NOW) for _ in range(4)]
    assert [answer.allowed for answer in answers] == [True, False, False, False]
    assert [answer.candidate_allowed for answer in answers] == [(), ("a",), ("a",), ()]


def test_a_candidate_is_not_charged_when_another_limit_denies(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(with_candidate(window("a", 9), limit=1, window="1m"), window("b", 1))
    assert limiter.check(plan, NOW).candidate_denied == ()
    answer = limiter.check(plan, NOW)
    assert (answer.limit, answer.candidate_allowed, answer.candidate_denied) == ("b", (), ())
    assert limiter.check(
        ReferencePlan.of_limits(with_candidate(window("a", 9), limit=1, window="1m")), NOW
    ).candidate_denied == ("a",)


def test_a_promoted_candidate_brings_its_state_along(limiter: ReferenceLimiter) -> None:
    live = with_candidate(window("a", 9), limit=5, window="1m")
    for _ in range(3):
        limiter.check(ReferencePlan.of_limits(live), NOW)
    promoted = window("a", 5)
    promoted = replace(promoted, adopts_candidate=True, since_us=NOW, past=(Generation(live.algorithm),))
    assert limiter.check(ReferencePlan.of_limits(promoted), NOW).remaining == 1


def test_the_wait_is_the_longest_and_a_slot_is_held_from_the_requests_turn_on(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(
        limit("shaped", "leaky_bucket", rate=1, queue=9), limit("slots", "concurrency", limit=2, hold="10s")
    )
    assert [limiter.check(plan, NOW, Request(holder=holder)).wait_us for holder in "ab"] == [0, SECOND_US]
    assert limiter.check(plan, NOW + 10 * SECOND_US, Request(holder="c")).allowed
    refused = limiter.peek(plan, NOW + 11 * SECOND_US - 1, Request(holder="d"))
    assert (refused.limit, refused.retry_us) == ("slots", SECOND_US)
    assert limiter.peek(plan, NOW + 11 * SECOND_US, Request(holder="d")).allowed


def test_the_same_holder_again_renews_its_slot_and_releases_it_once(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(limit("slots", "concurrency", limit=1, hold="10s"))
    assert limiter.check(plan, NOW, Request(holder="a")).allowed
    assert limiter.check(plan, NOW + 9 * SECOND_US, Request(holder="a")).allowed
    assert not limiter.check(plan, NOW + 18 * SECOND_US, Request(holder="b")).allowed
    assert limiter.release(plan, NOW + 18 * SECOND_US, Request(holder="a")) == 1
    assert limiter.release(plan, NOW + 18 * SECOND_US, Request(holder="a")) == 0
    assert limiter.check(plan, NOW + 18 * SECOND_US, Request(holder="b")).allowed


def test_a_holder_without_a_name_gets_one(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(limit("slots", "concurrency", limit=1, hold="10s"))
    holder = limiter.check(plan, NOW).holder
    assert limiter.release(plan, NOW, Request(holder=holder)) == 1
    assert limiter.check(ReferencePlan.of_limits(window("a", 1)), NOW).holder == ""


REFUNDABLE: dict[str, dict[str, Any]] = {
    "token_bucket": {"rate": 1, "burst": 5},
    "fixed_window": {"limit": 5, "window": "1m"},
    "sliding_counter": {"limit": 5, "window": "1m"},
    "sliding_log": {"limit": 5, "window": "1m"},
}


@pytest.mark.parametrize("name", REFUNDABLE)
def test_a_refund_gives_back_once_while_it_is_still_charged(limiter: ReferenceLimiter, name: str) -> None:
    plan, request = ReferencePlan.of_limits(limit("a", name, unit="cost", **REFUNDABLE[name])), Request(cost=3)
    receipt = limiter.check(plan, NOW, request).receipt
    assert receipt is not None
    assert limiter.refund(plan, NOW + 1, receipt, request) == 1
    assert limiter.refund(plan, NOW + 1, receipt, request) == 0
    assert limiter.peek(plan, NOW + 1, Request(cost=5)).allowed
    late = limiter.check(plan, NOW + 1, request).receipt
    assert late is not None
    assert limiter.refund(plan, NOW + 2 * MINUTE, late, request) == 0


def test_a_late_refund_does_not_let_more_run(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(limit("a", "token_bucket", rate=10, burst=10))
    receipts = [limiter.check(plan, NOW).receipt for _ in range(10)]
    later = NOW + SECOND_US
    assert all(limiter.check(plan, later).allowed for _ in range(10))
    assert [limiter.refund(plan, later, receipt) for receipt in receipts if receipt] == [0] * 10
    assert not limiter.check(plan, later).allowed


def test_a_refund_needs_the_plan_and_the_clock_of_its_decision(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(window("a", 5))
    receipt = limiter.check(plan, NOW).receipt
    assert receipt is not None
    assert limiter.refund(ReferencePlan.of_limits(window("a", 6)), NOW, receipt) == 0
    assert limiter.refund(plan, NOW - 1, receipt) == 0
    assert limiter.refund(ReferencePlan.of_limits(window("a", 5)), NOW, receipt) == 1


def test_a_reset_forgets_one_limit_or_all_but_the_global_ones(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of(
        [AppliedLimit(window("a", 5)), AppliedLimit(window("b", 5)), AppliedLimit(window("g", 5), is_global=True)]
    )
    limiter.check(plan, NOW)
    assert limiter.reset(plan, NOW, "a") == 1
    assert [row.remaining for row in limiter.peek(plan, NOW).rows] == [4, 3, 3]
    assert limiter.reset(plan, NOW, "*") == 2
    assert [row.remaining for row in limiter.peek(plan, NOW).rows] == [4, 4, 3]
    assert limiter.reset(plan, NOW, "*", Request(tenant="stranger")) == 0


def test_a_peek_changes_nothing(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of_limits(window("a", 1), limit("s", "concurrency", limit=1, hold="1m"))
    assert [limiter.peek(plan, NOW).allowed for _ in range(3)] == [True] * 3


def test_global_limits_are_shared_by_all_tenants(limiter: ReferenceLimiter) -> None:
    plan = ReferencePlan.of([AppliedLimit(window("own", 2)), AppliedLimit(window("shield", 3), is_global=True)])
    allowed = [limiter.check(plan, NOW, Request(tenant)).allowed for tenant in ("a", "a", "b", "b")]
    assert allowed == [True, True, True, False]


def test_state_is_carried_through_every_generation_since_it_was_written(limiter: ReferenceLimiter) -> None:
    first = limit("a", "token_bucket", rate=10, burst=10)
    for _ in range(10):
        limiter.check(ReferencePlan.of_limits(first), NOW)
    second = Generation(algorithm("token_bucket", rate=1, burst=20), NOW, "keep")
    half = NOW + 5 * SECOND_US  # by then, 5 of the 10 used have flowed back at 1/s
    third = limit("a", "token_bucket", rate=100, burst=100)
    third = replace(third, since_us=half, carry="proportional", past=(second, Generation(first.algorithm)))
    assert limiter.peek(ReferencePlan.of_limits(third), half).remaining == 74  # 5 of 20 is 25 of 100, and this request


def test_parameters_that_nobody_remembers_start_full(limiter: ReferenceLimiter) -> None:
    limiter.check(ReferencePlan.of_limits(window("a", 5)), NOW)
    assert limiter.check(ReferencePlan.of_limits(window("a", 6)), NOW).remaining == 5


def test_a_changed_subject_or_algorithm_starts_full(limiter: ReferenceLimiter) -> None:
    limiter.check(ReferencePlan.of_limits(window("a", 5)), NOW)
    assert limiter.check(ReferencePlan.of_limits(window("a", 5, subject="ip")), NOW).remaining == 4
    past = (Generation(window("a", 5).algorithm),)
    changed = replace(limit("a", "sliding_log", limit=5, window="1m"), past=past, since_us=NOW)
    assert limiter.check(ReferencePlan.of_limits(changed), NOW).remaining == 4


def test_a_limit_that_was_away_starts_full_and_its_neighbours_do_not_notice(limiter: ReferenceLimiter) -> None:
    both = ReferencePlan.of_limits(window("a", 5), window("b", 5))
    limiter.check(both, NOW)
    limiter.check(ReferencePlan.of_limits(window("b", 5)), NOW)
    assert [row.remaining for row in limiter.check(both, NOW).rows] == [4, 2]


def test_a_replaced_limit_keeps_its_state_in_the_shared_record(limiter: ReferenceLimiter) -> None:
    policies = (
        Policy("all", "*", (window("a", 5), window("b", 9)), tier="t"),
        Policy("one", "x:y", (window("a", 2),), tier="t"),
    )
    shared, own = (ReferencePlan.of(applied_at(policies, "acme", "t", endpoint)) for endpoint in ("*", "x:y"))
    limiter.check(shared, NOW)
    for _ in range(2):
        limiter.check(own, NOW)
    assert {row.name: row.remaining for row in limiter.check(shared, NOW).rows} == {"a": 3, "b": 5}


@pytest.mark.parametrize(
    ("subject", "sent", "same", "other"),
    [
        ("ip", {"ip": "192.0.2.1"}, {"ip": "192.0.2.1", "key": "x"}, {"ip": "192.0.2.2"}),
        ("ip", {"ip": "2001:db8::1"}, {"ip": "2001:DB8:0:0:ffff::2"}, {"ip": "2001:db8:0:1::1"}),
        ("ip", {"ip": "::ffff:192.0.2.1"}, {"ip": "192.0.2.1"}, {"ip": "::ffff:192.0.2.2"}),
        ("ip", {}, {"key": "x"}, {"ip": "192.0.2.1"}),
        ("key|ip", {"key": "k", "ip": "1.1.1.1"}, {"key": "k", "ip": "2.2.2.2"}, {"ip": "1.1.1.1"}),
        ("user+ip", {"user": "u", "ip": "1.1.1.1"}, {"user": "u", "ip": "1.1.1.1"}, {"user": "u"}),
        ("tenant", {"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}, None),
    ],
)
def test_who_counts_as_the_same_subject(
    limiter: ReferenceLimiter,
    subject: str,
    sent: dict[str, str],
    same: dict[str, str],
    other: dict[str, str] | None,
) -> None:
    plan = ReferencePlan.of_limits(window("a", 9, subject=subject))
    limiter.check(plan, NOW, Request("acme", sent))
    assert limiter.peek(plan, NOW, Request("acme", same)).remaining == 7
    if other is not None:
        assert limiter.peek(plan, NOW, Request("acme", other)).remaining == 8
    assert limiter.peek(plan, NOW, Request("zenith", sent)).remaining == 8
