"""A limiter with leases decides as one without, and asks the store far less."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from headroom_edge import Check, Decision
from headroom_edge.core import Conversation, Core
from headroom_edge.decision import LimitRow
from headroom_edge.leases.decision import LeasedDecision
from headroom_edge.lua_library import source
from headroom_edge.request_guard import Guard, RequestVerdict
from tests.headroom_edge.limiter.both import Either, MakeLimiter, OnLoop, OnThreads, until
from tests.headroom_edge.limiter.leased import (
    FIRST_ASK,
    Clock,
    ask,
    block_of,
    book_of,
    cost_used,
    leased,
    usage,
    with_block,
)
from tests.headroom_edge.limiter.world import (
    COSTLY_ENDPOINT,
    ENDPOINT,
    OTHER_TENANT,
    SUSPENDED_TENANT,
    TENANT,
    configuration,
    fcalls,
    limit,
    publish,
)

# The callbacks drive the same conversations as the loop.
pytestmark = pytest.mark.parametrize("make_limiter", [OnThreads, OnLoop], ids=["threads", "loop"], indirect=True)

PLENTY = 1_000_000
ALGORITHMS: list[tuple[str, dict[str, Any]]] = [
    ("token_bucket", {"rate": 1, "per": "1d", "burst": 300}),
    ("gcra", {"rate": 1, "per": "1d", "burst": 300}),
    ("fixed_window", {"limit": 300, "window": "1d"}),
    ("sliding_log", {"limit": 300, "window": "1d"}),
    ("sliding_counter", {"limit": 300, "window": "1d"}),
]


@pytest.fixture
def plenty(valkey: redis.Redis) -> redis.Redis:
    publish(valkey, configuration(limit("hourly", "fixed_window", limit=PLENTY, window="1d", unit="cost")))
    return valkey


@pytest.fixture
def limiter(make_limiter: MakeLimiter, valkey_url: str) -> Either:
    return make_limiter(valkey_url, leases=True, lease_ms=1_000)


@pytest.fixture
def clock(limiter: Either) -> Clock:
    return Clock(limiter)


@pytest.mark.parametrize(("algorithm", "parameters"), ALGORITHMS, ids=[name for name, _ in ALGORITHMS])
def test_the_sums_are_those_of_a_limiter_without_leases(
    valkey: redis.Redis, make_limiter: MakeLimiter, valkey_url: str, algorithm: str, parameters: dict[str, Any]
) -> None:
    found = []
    for leases in (False, True):
        valkey.flushall()
        publish(valkey, configuration(limit("all", algorithm, **parameters)))
        limiter = make_limiter(valkey_url, leases=leases)
        if leases:
            Clock(limiter)
        decisions = ask(limiter, 400)
        assert bool(leased(decisions)) == leases
        assert limiter.degraded == 0
        limiter.close()
        found.append((sum(decision.allowed for decision in decisions), usage(valkey), cost_used(valkey)))
    assert found[0] == found[1]
    assert found[0][0] == 300


def test_a_busy_key_asks_the_store_rarely(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    plenty.config_resetstat()
    decisions = ask(limiter, 1_000)
    assert all(decision.allowed for decision in decisions)
    assert leased(decisions) > 970
    assert fcalls(plenty) < 30
    limiter.close()
    assert usage(plenty) == {"a": 1_000}
    assert plenty_left(plenty) == PLENTY - 1_000


def plenty_left(store: redis.Redis) -> int:
    reply: Any = store.fcall("hr_peek", 1, "hr:{62}", TENANT, ENDPOINT, "1")
    return int(reply[4]) + 1


def test_a_slow_key_stays_direct(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    for _ in range(30):
        clock.now += 0.0143  # seven in the length of a lease
        assert not leased(ask(limiter, 1))
    assert not book_of(limiter)._open


def test_a_plan_is_not_asked_for_until_it_is_busy(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    plenty.config_resetstat()
    for _ in range(20):
        clock.now += 0.15
        ask(limiter, 1)
    assert "cmdstat_fcall_ro" not in plenty.info("commandstats")


def test_the_text_of_a_plan_is_read_again_after_a_minute(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    with_block(limiter)
    plenty.config_resetstat()
    for _ in range(3):
        clock.now += 61
        ask(limiter, 30)
    assert plenty.info("commandstats")["cmdstat_fcall_ro"]["calls"] == 3


def test_blocks_start_at_sixteen_and_double(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    sizes: list[int] = []
    for _ in range(5):
        block = with_block(limiter) if not sizes else block_of(limiter)
        sizes.append(block.granted_calls)
        ask(limiter, block.calls + 1)
    assert sizes == [16, 32, 64, 128, 256]


def test_a_block_ends_by_the_clock_before_the_send(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    block = with_block(limiter)
    assert block.began_s == clock.now
    assert block.end_s - clock.now == pytest.approx(0.1)  # the limit's own bound, shorter than the limiter's
    assert leased(ask(limiter, 1))
    clock.now = block.end_s
    assert not leased(ask(limiter, 1))


def test_a_leased_decision_has_the_whole_face_of_a_decision(valkey: redis.Redis, limiter: Either, clock: Clock) -> None:
    publish(
        valkey,
        configuration(
            limit("calls", "fixed_window", "key", limit=PLENTY, window="1d", unit="requests"),
            limit("cost", "token_bucket", rate=PLENTY, per="1d", burst=PLENTY, unit="cost"),
        ),
    )
    subject = {"key": "k", "ip": "203.0.113.9"}
    with_block(limiter, subject=subject, cost=3, rows=True)
    (got,) = ask(limiter, 1, subject=subject, cost=3, rows=True)
    known = limiter.check_many([Check(TENANT, ENDPOINT, subject, 3)], rows=True)[0]
    assert isinstance(got, LeasedDecision)
    assert isinstance(got, Decision)
    assert (got.allowed, got.reason, got.limit, got.quota) == (True, "ok", "cost", PLENTY)
    assert (got.remaining, got.retry_us, got.wait_us, got.retry_after_ms, got.wait_ms) == (PLENTY - 3 * 17, 0, 0, 0, 0)
    assert (got.revision, got.holder, got.receipt, got.failure, got.degraded) == (1, "", "", None, False)
    assert got.check == Check(TENANT, ENDPOINT, subject, 3)
    assert got.reset_us > 0
    assert [row.name for row in got.rows] == [row.name for row in known.rows] == ["calls", "cost"]
    assert [row.remaining for row in got.rows] == [PLENTY - 17, PLENTY - 3 * 17]
    assert all(isinstance(row, LimitRow) for row in got.rows)
    assert got.headers()["RateLimit-Policy"] == known.headers()["RateLimit-Policy"]
    assert "RateLimit" in got.headers()
    assert "remaining=" in repr(got)
    (bare,) = ask(limiter, 1, subject=subject, cost=3)
    assert bare.rows == ()
    with pytest.raises(AttributeError, match="no attribute 'mood'"):
        bare.mood  # type: ignore[attr-defined] # noqa: B018


def test_default_and_explicit_costs_are_spent_from_one_block(
    plenty: redis.Redis, limiter: Either, clock: Clock
) -> None:
    with_block(limiter, endpoint=COSTLY_ENDPOINT)
    decisions = ask(limiter, 2, endpoint=COSTLY_ENDPOINT) + ask(limiter, 2, endpoint=COSTLY_ENDPOINT, cost=1)
    assert leased(decisions) == 4
    assert [decision.remaining for decision in decisions] == [PLENTY - used for used in (85, 90, 91, 92)]
    limiter.close()
    assert usage(plenty)["a"] == 20
    assert cost_used(plenty)["a"] == 92


MISTAKES: list[dict[str, Any]] = [{"cost": cost} for cost in (0, -1, 1.0, True, "1", [1], float("nan"), 10**9 + 1)] + [
    {"subject": {"key": "k", "IP": "x"}},
    {"subject": {"key": 5}},
    {"subject": {"key": "k", "ip": 5}},
    {"subject": {"key": ["k"]}},
    {"subject": {"key": "k", **{f"d{n}": "x" for n in range(31)}}},
    {"tenant": "Acme"},
    {"tenant": ["acme"]},
    {"endpoint": ""},
    {"priority": "urgent"},
    {"budget_ms": 0},
]


def test_a_lease_accepts_nothing_that_a_check_refuses(
    valkey: redis.Redis, limiter: Either, clock: Clock, make_limiter: MakeLimiter, valkey_url: str
) -> None:
    publish(valkey, configuration(limit("a", "fixed_window", "key", limit=PLENTY, window="1d")))
    direct = make_limiter(valkey_url)
    with_block(limiter, subject={"key": "k"})
    before = block_of(limiter).calls
    for mistake in MISTAKES:
        about: dict[str, Any] = {"tenant": TENANT, "endpoint": ENDPOINT, "subject": {"key": "k"}, **mistake}
        with pytest.raises(ValueError) as expected:  # noqa: PT011 - the texts are compared
            direct.check(**about)
        with pytest.raises(ValueError) as got:  # noqa: PT011
            limiter.check(**about)
        assert str(got.value) == str(expected.value)
    assert block_of(limiter).calls == before


def test_only_the_dimensions_of_the_plan_tell_leases_apart(valkey: redis.Redis, limiter: Either, clock: Clock) -> None:
    publish(valkey, configuration(limit("a", "fixed_window", "key", limit=PLENTY, window="1d")))
    with_block(limiter, subject={"key": "k"})
    assert leased(ask(limiter, 1, subject={"key": "k", "ip": "10.0.0.1"}))
    assert leased(ask(limiter, 1, subject={"ip": "10.0.0.2", "key": "k"}))
    assert leased(ask(limiter, 1, subject={"key": "k", "user": None}))
    assert not leased(ask(limiter, 1, subject={"key": "l"}))
    assert not leased(ask(limiter, 1, subject={"ip": "k"}))
    assert not leased(ask(limiter, 1))


def test_a_holder_and_the_other_calls_ask_the_store(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    block = with_block(limiter)
    about: dict[str, Any] = {"tenant": TENANT, "endpoint": ENDPOINT}
    left = block.calls
    limiter.check(**about, holder="h")
    limiter.check_many([Check(TENANT, ENDPOINT)] * 2)
    limiter.peek(**about)
    with limiter.hold(**about) as decision:
        assert decision.allowed
    assert block.calls == left


@pytest.mark.parametrize(
    "never",
    [
        limit("slots", "concurrency", limit=PLENTY, hold="1m"),
        limit("queue", "leaky_bucket", rate=1_000, per="1s", queue=PLENTY),
        limit("exact", "fixed_window", limit=PLENTY, window="1h", lease_ms=0),
    ],
    ids=["concurrency", "leaky_bucket", "lease: never"],
)
def test_a_plan_with_a_queue_with_slots_or_with_a_limit_that_forbids_it_is_never_leased(
    valkey: redis.Redis, limiter: Either, clock: Clock, never: Any
) -> None:
    publish(valkey, configuration(limit("a", "fixed_window", limit=PLENTY, window="1d"), never))
    assert not leased(ask(limiter, 40))
    assert limiter.degraded == 0


def test_a_denial_is_not_remembered_where_leases_are_forbidden(
    valkey: redis.Redis, limiter: Either, clock: Clock
) -> None:
    publish(valkey, configuration(limit("a", "fixed_window", limit=5, window="1d", lease_ms=0)))
    ask(limiter, FIRST_ASK)
    valkey.config_resetstat()
    ask(limiter, 4)
    assert fcalls(valkey) == 4


def test_a_denial_is_remembered_and_reported(valkey: redis.Redis, limiter: Either, clock: Clock) -> None:
    publish(valkey, configuration(limit("a", "fixed_window", limit=100, window="1d")))
    decisions = ask(limiter, 101)
    assert [decision.allowed for decision in decisions] == [True] * 100 + [False]
    valkey.config_resetstat()
    clock.now += 0.05
    repeated = ask(limiter, 50)
    assert fcalls(valkey) == 0
    first = decisions[-1]
    for decision in repeated:
        assert (decision.allowed, decision.reason, decision.limit, decision.quota) == (False, "limit", "a", 100)
        assert abs(first.retry_us - decision.retry_us - 50_000) <= 1
        assert decision.headers()["Retry-After"]
    assert usage(valkey)["d"] == 1
    limiter.attend()
    assert usage(valkey)["d"] == 51
    clock.now += 1
    valkey.config_resetstat()
    assert not ask(limiter, 1)[0].allowed
    assert fcalls(valkey) == 1


def test_a_remembered_denial_does_not_answer_a_cheaper_request(
    valkey: redis.Redis, limiter: Either, clock: Clock
) -> None:
    publish(valkey, configuration(limit("a", "fixed_window", limit=100, window="1d", unit="cost")))
    with_block(limiter)
    assert not ask(limiter, 1, cost=95)[0].allowed
    assert not ask(limiter, 1, cost=96)[0].allowed
    assert ask(limiter, 1, cost=1)[0].allowed


def test_a_newer_revision_ends_the_leases_of_its_shard(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    with_block(limiter)
    ask(limiter, 3)
    publish(plenty, configuration(limit("hourly", "fixed_window", limit=20, window="1d"), revision=2))
    assert leased(ask(limiter, 1)), "the edit is not known yet"
    limiter.peek(tenant=TENANT, endpoint=COSTLY_ENDPOINT)  # its reply brings the new revision
    assert not book_of(limiter)._open
    assert ask(limiter, 1)[0].quota == 20
    limiter.attend()
    assert usage(plenty)["a"] == FIRST_ASK + 3 + 1 + 1


def test_an_idle_process_gives_back(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    block = with_block(limiter)
    ask(limiter, 4)
    assert plenty_left(plenty) == PLENTY - FIRST_ASK - 16
    limiter.attend()
    assert book_of(limiter)._open
    clock.now += 1
    limiter.attend()
    assert not block.is_open
    assert plenty_left(plenty) == PLENTY - FIRST_ASK - 4
    assert usage(plenty) == {"a": FIRST_ASK + 4}


def test_close_gives_everything_back(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    for endpoint in (ENDPOINT, COSTLY_ENDPOINT):
        assert leased(ask(limiter, 20, endpoint=endpoint, tenant=OTHER_TENANT)) == 4
    assert leased(ask(limiter, 20)) == 4
    limiter.close()
    assert usage(plenty) == {"a": 20}
    assert usage(plenty, OTHER_TENANT) == {"a": 40}
    assert cost_used(plenty, OTHER_TENANT) == {"a": 20 + 100}


def test_a_refund_returns_to_its_block_once(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    block = with_block(limiter)
    (decision,) = ask(limiter, 1, cost=4)
    left, calls = block.left, block.calls
    assert limiter.refund(decision) == 1
    assert (block.left, block.calls) == (left + 4, calls + 1)
    assert limiter.refund(decision) == 0
    (late,) = ask(limiter, 1)
    clock.now += 1
    assert limiter.refund(late) == 0


def test_keys_that_are_pushed_out_are_settled(
    valkey: redis.Redis, make_limiter: MakeLimiter, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headroom_edge.leases.book.LEASES_KEPT", 3)
    publish(valkey, configuration(limit("a", "fixed_window", "key", limit=PLENTY, window="1d")))
    limiter = make_limiter(valkey_url, leases=True)
    Clock(limiter)
    for number in range(10):
        ask(limiter, 20, subject={"key": f"k{number}"})
    assert 3 <= len(book_of(limiter)._open) <= 6
    limiter.close()
    assert usage(valkey) == {"a": 200}


def test_a_store_with_an_older_library_is_asked_as_usual(
    valkey: redis.Redis, make_limiter: MakeLimiter, valkey_url: str
) -> None:
    publish(valkey, configuration(limit("a", "fixed_window", limit=PLENTY, window="1d")))
    older = source().replace("H.define('lease'", "H.define('later'")
    valkey.function_load(older, replace=True)
    try:
        limiter = make_limiter(valkey_url, leases=True)
        decisions = ask(limiter, 30)
    finally:
        valkey.function_load(source(), replace=True)
    assert not leased(decisions)
    assert limiter.degraded == 0
    assert usage(valkey) == {"a": 30}


def test_the_adapters_take_leases_too(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    """They give every request a holder, in case the plan has slots. A plan that has a lease has none."""
    guard = Guard()

    def judge(core: Core) -> Conversation[RequestVerdict]:
        return guard.decide(core, Check(TENANT, ENDPOINT, {"ip": "203.0.113.9"}, holder="h"), 1_000)

    def verdict() -> RequestVerdict:
        return limiter.limiter.converse(judge) if isinstance(limiter, OnThreads) else limiter.run(converse(limiter))

    async def converse(on_loop: OnLoop) -> RequestVerdict:
        return await on_loop.limiter.converse(judge)

    verdicts = [verdict() for _ in range(30)]
    assert leased([verdict.decision for verdict in verdicts if verdict.decision is not None]) == 14
    assert all(verdict.status == 200 and not verdict.holds for verdict in verdicts)
    assert len({verdict.headers["RateLimit-Policy"] for verdict in verdicts}) == 1
    assert [int(verdict.headers["RateLimit"].split("r=")[1].split(";")[0]) for verdict in verdicts] == [
        PLENTY - number for number in range(1, 31)
    ]


def test_without_the_gil_blocks_are_spent_under_the_lock(
    plenty: redis.Redis, limiter: Either, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headroom_edge.leases.book.FREE_THREADED", True)
    assert leased(ask(limiter, 30)) == 14
    assert not book_of(limiter)._fast
    limiter.close()
    assert usage(plenty) == {"a": 30}


def test_a_suspended_tenant_gets_no_lease(plenty: redis.Redis, limiter: Either) -> None:
    decisions = ask(limiter, 20, tenant=SUSPENDED_TENANT)
    assert {decision.reason for decision in decisions} == {"suspended"}


def test_the_heartbeat_names_the_endpoints_with_leases(plenty: redis.Redis, limiter: Either, clock: Clock) -> None:
    heartbeat = limiter.core.chores.heartbeat
    assert heartbeat._about(0)["leases"] == {"ms": 1_000, "endpoints": [], "more": 0}
    with_block(limiter)
    clock.now += 1
    for number in range(30):
        ask(limiter, FIRST_ASK, endpoint=f"{'long ' * 30}{number}")
    about: Any = heartbeat._about(0)["leases"]
    assert len(about["endpoints"]) + about["more"] == 31
    assert 10 <= len(about["endpoints"]) <= 20
    clock.now += 120
    assert heartbeat._about(0)["leases"] == {"ms": 1_000, "endpoints": [], "more": 0}
    limiter.attend()


def test_blocks_end_by_themselves_in_the_background(
    plenty: redis.Redis, make_limiter: MakeLimiter, valkey_url: str, tick_s: Any
) -> None:
    tick_s(0.05)
    limiter = make_limiter(valkey_url, leases=True)
    until(lambda: bool(leased(ask(limiter, 30))))
    until(lambda: not book_of(limiter)._open)
    until(lambda: plenty_left(plenty) == PLENTY - usage(plenty)["a"])


@pytest.mark.parametrize(("bound_ms", "length_s"), [(None, 0.1), (20, 0.02), (1_000, 0.5)])
def test_a_lease_is_as_long_as_limiter_and_limits_allow(
    valkey: redis.Redis, make_limiter: MakeLimiter, valkey_url: str, bound_ms: int | None, length_s: float
) -> None:
    publish(valkey, configuration(limit("a", "fixed_window", limit=PLENTY, window="1d", lease_ms=bound_ms)))
    limiter = make_limiter(valkey_url, leases=True, lease_ms=500)
    clock = Clock(limiter)
    block = with_block(limiter)
    assert block.end_s - clock.now == pytest.approx(length_s)
    (lease,) = book_of(limiter)._open
    assert lease.plan.length_s == length_s


@pytest.mark.parametrize("lease_ms", [9, 1_001, 100.5, True])
def test_a_length_that_cannot_be_is_refused(make_limiter: MakeLimiter, valkey_url: str, lease_ms: Any) -> None:
    with pytest.raises(ValueError, match="lease_ms must be a whole number from 10 to 1,000"):
        make_limiter(valkey_url, leases=True, lease_ms=lease_ms)
