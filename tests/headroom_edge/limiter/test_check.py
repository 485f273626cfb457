from __future__ import annotations

import pytest
import redis

from headroom_edge import Check, LimitRow
from tests.headroom_edge.limiter.both import Either, MakeLimiter
from tests.headroom_edge.limiter.world import (
    COSTLY_ENDPOINT,
    ENDPOINT,
    OTHER_TENANT,
    SUSPENDED_TENANT,
    TENANT,
    configuration,
    limit,
    publish,
)


def test_it_allows_exactly_the_limit(store: redis.Redis, limiter: Either) -> None:
    decisions = [limiter.check(tenant=TENANT, endpoint=ENDPOINT) for _ in range(7)]
    assert [decision.allowed for decision in decisions] == [True] * 5 + [False] * 2
    assert [decision.remaining for decision in decisions] == [4, 3, 2, 1, 0, 0, 0]
    assert limiter.degraded == 0


def test_a_decision_carries_what_the_caller_needs(store: redis.Redis, limiter: Either) -> None:
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert (decision.reason, decision.limit, decision.quota, decision.revision) == ("ok", "hourly", 5, 1)
    assert (decision.retry_after_ms, decision.wait_ms, decision.degraded, decision.failure) == (0, 0, False, None)
    assert 0 < decision.reset_after_ms <= 3_600_000
    for _ in range(5):
        decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert (decision.allowed, decision.reason) == (False, "limit")
    assert decision.retry_after_ms is not None
    assert 0 < decision.retry_after_ms <= 3_600_000


def test_rows_come_when_they_are_asked_for(store: redis.Redis, limiter: Either) -> None:
    (row,) = limiter.check(tenant=TENANT, endpoint=ENDPOINT, rows=True).rows
    assert isinstance(row, LimitRow)
    assert (row.name, row.allowed, row.quota, row.window_s, row.remaining) == ("hourly", True, 5, 3_600, 4)
    assert (row.mode, row.unit, row.subject, row.scope) == ("e", "requests", "tenant", "0")
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT, rows=False).rows == ()


def test_the_cost_is_the_callers_or_the_endpoints(store: redis.Redis, limiter: Either) -> None:
    publish(store, configuration(limit("units", "fixed_window", limit=20, window="1h", unit="cost")))
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).remaining == 19
    assert limiter.check(tenant=TENANT, endpoint=COSTLY_ENDPOINT).remaining == 14
    assert limiter.check(tenant=TENANT, endpoint=COSTLY_ENDPOINT, cost=2).remaining == 12
    too_big = limiter.check(tenant=TENANT, endpoint=ENDPOINT, cost=21)
    assert (too_big.allowed, too_big.reason, too_big.retry_after_ms) == (False, "cost_too_big", None)


def test_subjects_count_apart(store: redis.Redis, limiter: Either) -> None:
    publish(store, configuration(limit("per", "fixed_window", "key|ip", limit=1, window="1h")))
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"ip": "10.0.0.1", "key": "a"}).allowed
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"ip": "10.0.0.1", "key": None}).allowed
    assert not limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": "a"}).allowed


@pytest.mark.parametrize("value", ["\ud800", "{}\r\n\x00", "x" * 100_000])
def test_no_subject_from_the_internet_breaks_a_check(store: redis.Redis, limiter: Either, value: str) -> None:
    publish(store, configuration(limit("per", "fixed_window", "key", limit=1, window="1h")))
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": value}).allowed
    assert not limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": value}).allowed
    assert limiter.degraded == 0


@pytest.mark.parametrize(("tenant", "reason"), [("nobody", "unknown_tenant"), (SUSPENDED_TENANT, "suspended")])
def test_a_tenant_without_a_plan_is_denied(store: redis.Redis, limiter: Either, tenant: str, reason: str) -> None:
    decision = limiter.check(tenant=tenant, endpoint=ENDPOINT)
    assert (decision.allowed, decision.reason, decision.retry_after_ms) == (False, reason, None)
    assert not decision.degraded


def test_a_mistake_raises_and_sends_nothing(store: redis.Redis, limiter: Either) -> None:
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    with pytest.raises(ValueError, match="cost"):
        limiter.check(tenant=TENANT, endpoint=ENDPOINT, cost=0)
    with pytest.raises(ValueError, match="budget_ms must be above 0"):
        limiter.check(tenant=TENANT, endpoint=ENDPOINT, budget_ms=0)
    with pytest.raises(ValueError, match="tenant"):
        limiter.check_many([Check(TENANT, ENDPOINT), Check("No Tenant", ENDPOINT)])
    assert limiter.peek(tenant=TENANT, endpoint=ENDPOINT).remaining == 3


def test_peek_charges_nothing(store: redis.Redis, limiter: Either) -> None:
    assert [limiter.peek(tenant=TENANT, endpoint=ENDPOINT).remaining for _ in range(3)] == [4, 4, 4]
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).remaining == 4


def test_many_checks_are_one_round_trip(store: redis.Redis, limiter: Either) -> None:
    checks = [Check(TENANT, ENDPOINT)] * 6 + [Check(OTHER_TENANT, ENDPOINT), Check("nobody", ENDPOINT)]
    limiter.check_many(checks[:1])
    before = store.info("stats")["total_reads_processed"]
    decisions = limiter.check_many(checks)
    assert store.info("stats")["total_reads_processed"] - before == 2  # theirs, and this one
    assert [decision.allowed for decision in decisions] == [True] * 4 + [False] * 2 + [True, False]
    assert [decision.check for decision in decisions] == checks
    assert limiter.check_many([]) == []


def test_a_refund_gives_back_once(store: redis.Redis, limiter: Either) -> None:
    publish(store, configuration(limit("slow", "token_bucket", rate=1, per="1h", burst=10, unit="cost")))
    decision = limiter.check(tenant=TENANT, endpoint=COSTLY_ENDPOINT, rows=True)
    assert decision.remaining == 5
    assert limiter.refund(decision) == 1
    assert limiter.refund(decision) == 0
    assert limiter.peek(tenant=TENANT, endpoint=ENDPOINT).remaining == 9


def test_a_refund_says_that_it_needs_the_receipt(store: redis.Redis, limiter: Either) -> None:
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    with pytest.raises(ValueError, match="make the check with rows=True"):
        limiter.refund(decision)


def test_a_denied_request_has_nothing_to_refund(store: redis.Redis, limiter: Either) -> None:
    decisions = [limiter.check(tenant=TENANT, endpoint=ENDPOINT) for _ in range(6)]
    assert limiter.refund(decisions[-1]) == 0


def test_reset_forgets_what_was_used(store: redis.Redis, limiter: Either) -> None:
    for _ in range(6):
        limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert limiter.reset(tenant=TENANT, endpoint=ENDPOINT, limit="other") == 0
    assert limiter.reset(tenant=TENANT, endpoint=ENDPOINT) == 1
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).remaining == 4


def test_checks_at_once_get_each_their_own_answer(store: redis.Redis, limiter: Either) -> None:
    limits = limit("thousand", "fixed_window", limit=1_000, window="1h")
    publish(store, configuration(limits))
    found = sorted(decision.remaining for decision in limiter.at_once(64, tenant=TENANT, endpoint=ENDPOINT))
    assert found == list(range(936, 1_000))


def test_it_speaks_over_a_unix_socket_and_another_database(
    valkey: redis.Redis, make_limiter: MakeLimiter, socket_url: str
) -> None:
    publish(valkey, configuration(limit("hourly", "fixed_window", limit=5, window="1h")))
    assert make_limiter(socket_url).check(tenant=TENANT, endpoint=ENDPOINT).remaining == 4
    elsewhere = make_limiter(f"{socket_url}?db=9", fail="closed")
    assert elsewhere.check(tenant=TENANT, endpoint=ENDPOINT).reason == "not_ready"
