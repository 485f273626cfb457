"""The limiter inside the process, which stands in for the store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from headroom_edge import Check, keys
from headroom_edge.local import LocalLimiter, LocalVerdict, local_plan
from quotas.policies.compile import Compiler
from quotas.policies.spec import Limit
from tests.headroom_edge.limiter.world import ENDPOINT, NOW_US, OTHER_TENANT, TARGET, TENANT, configuration, limit

SECOND_US = 1_000_000


@dataclass
class Clock:
    now_us: int = NOW_US

    def __call__(self) -> int:
        return self.now_us


def plan_text(*limits: Limit) -> str:
    """What hr_profile answers."""
    compiler = Compiler(TARGET, NOW_US)
    compiler.load(configuration(*limits))
    config = compiler.image.shards[keys.shard_of(TENANT)].config
    (text,) = [value for name, value in config.items() if name.startswith("p:")]
    return text


@dataclass
class Process:
    """A process with its share of a plan."""

    text: str
    share: int = 1

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.limiter = LocalLimiter(self.clock)

    def ask(self, tenant: str = TENANT, cost: int | None = None, holder: str = "", **subject: str) -> LocalVerdict:
        check = Check(tenant, ENDPOINT, subject, cost, holder)
        return self.limiter.decide(local_plan(self.text, self.share), check)

    def allowed(self, count: int, **about: Any) -> int:
        return sum(self.ask(**about).allowed for _ in range(count))


EVERY_ALGORITHM = [
    ("token_bucket", {"rate": 1, "burst": 10}),
    ("gcra", {"rate": 1, "burst": 10}),
    ("leaky_bucket", {"rate": 1, "queue": 10}),
    ("fixed_window", {"limit": 10, "window": "1h"}),
    ("sliding_log", {"limit": 10, "window": "1h"}),
    ("sliding_counter", {"limit": 10, "window": "1h"}),
    ("concurrency", {"limit": 10, "hold": "1h"}),
    ("calendar_quota", {"limit": 10, "period": "month"}),
]


@pytest.mark.parametrize(("algorithm", "fields"), EVERY_ALGORITHM, ids=[name for name, _ in EVERY_ALGORITHM])
def test_every_algorithm_gives_a_process_its_share(algorithm: str, fields: dict[str, Any]) -> None:
    text = plan_text(limit("one", algorithm, **fields))
    assert Process(text).allowed(20) == 10
    assert Process(text, share=5).allowed(20) == 2
    assert Process(text, share=1_000).allowed(20) == 1


def test_the_rate_is_shared_too() -> None:
    process = Process(plan_text(limit("burst", "token_bucket", rate=100, burst=100)), share=4)
    assert process.allowed(200) == 25
    process.clock.now_us += SECOND_US // 10
    assert process.allowed(200) == 2


def test_nothing_is_charged_unless_every_limit_admits() -> None:
    process = Process(
        plan_text(
            limit("wide", "fixed_window", limit=6, window="1h"),
            limit("narrow", "fixed_window", "ip", limit=2, window="1h"),
        )
    )
    assert process.allowed(10, ip="10.0.0.1") == 2
    assert process.allowed(10, ip="10.0.0.2") == 2
    assert process.allowed(10, ip="10.0.0.3") == 2
    assert process.allowed(10, ip="10.0.0.4") == 0


def test_of_several_that_deny_the_longest_wait_is_named() -> None:
    process = Process(
        plan_text(
            limit("minute", "fixed_window", limit=1, window="1m"), limit("hour", "fixed_window", limit=1, window="1h")
        )
    )
    process.ask()
    denied = process.ask()
    assert (denied.allowed, denied.limit) == (False, "hour")
    assert denied.verdict.retry_us > 60 * SECOND_US


def test_a_cost_that_can_never_pass_is_refused_for_good() -> None:
    process = Process(plan_text(limit("burst", "token_bucket", rate=10, burst=10, unit="cost")), share=2)
    assert process.ask(cost=5).allowed
    assert process.ask(cost=6).verdict.retry_us == -1


def test_subjects_are_told_apart_as_in_the_store() -> None:
    process = Process(plan_text(limit("per", "fixed_window", "key|ip", limit=1, window="1h")))
    assert process.ask(key="k1", ip="10.0.0.1").allowed
    assert process.ask(key="k2", ip="10.0.0.1").allowed
    assert process.ask(ip="10.0.0.1").allowed
    assert not process.ask(key="k1", ip="10.0.0.9").allowed
    assert process.ask().allowed
    assert not process.ask().allowed
    assert process.ask(OTHER_TENANT).allowed


def test_ipv6_counts_by_64() -> None:
    process = Process(plan_text(limit("per", "fixed_window", "ip", limit=1, window="1h")))
    assert process.ask(ip="2001:db8::1").allowed
    assert not process.ask(ip="2001:db8::2").allowed
    assert process.ask(ip="2001:db8:0:1::1").allowed
    assert process.ask(ip="::ffff:10.0.0.1").allowed
    assert not process.ask(ip="10.0.0.1").allowed
    assert process.ask(ip="not:an:address").allowed


def test_shadow_and_replaced_limits_do_not_count() -> None:
    text = plan_text(
        limit("quiet", "fixed_window", limit=1, window="1h", mode="shadow"),
        limit("loud", "fixed_window", limit=3, window="1h"),
    )
    assert Process(text).allowed(10) == 3
    plan = json.loads(text)
    for group in plan["g"]:
        for one in group["l"]:
            one["x"] = 1
    assert Process(json.dumps(plan)).allowed(10) == 10


def test_a_slot_comes_back_when_its_holder_releases_it() -> None:
    process = Process(plan_text(limit("inflight", "concurrency", limit=2, hold="1m")))
    assert process.ask(holder="a").allowed
    assert process.ask(holder="b").allowed
    assert not process.ask(holder="c").allowed
    assert process.limiter.release("a") == 1
    assert process.limiter.release("a") == 0
    assert process.limiter.release("stranger") == 0
    assert process.ask(holder="c").allowed
    assert not process.ask(holder="d").allowed


def test_shaping_still_says_how_long_to_wait() -> None:
    process = Process(plan_text(limit("shape", "leaky_bucket", rate=10, queue=10)), share=2)
    assert [process.ask().wait_us for _ in range(3)] == [0, 200_000, 400_000]


def test_without_the_store_a_member_has_its_guaranteed_share_only() -> None:
    pool = limit("org", "pool", "tenant", rate=100, burst=50)
    member = limit("team", "borrowing", "key", assured=10, burst=8, ceiling=40, parent="org")
    process = Process(plan_text(pool, member))
    assert process.allowed(20, key="a") == 8
    assert process.ask(key="a").limit == "team"
    process.clock.now_us += SECOND_US
    assert process.allowed(20, key="a") == 8


def test_without_the_store_all_guaranteed_shares_together_have_the_pool() -> None:
    pool = limit("org", "pool", "tenant", rate=1, burst=10)
    member = limit("team", "borrowing", "key", assured=6, burst=6, parent="org")
    process = Process(plan_text(pool, member))
    assert [process.allowed(10, key=key) for key in ("a", "b")] == [6, 4]


def test_without_the_store_a_member_with_no_share_of_its_own_is_told_to_come_again() -> None:
    pool = limit("org", "pool", "tenant", rate=100, burst=50)
    process = Process(plan_text(pool, limit("team", "borrowing", "key", assured=0, ceiling=40, parent="org")))
    verdict = process.ask(key="a")
    assert (verdict.allowed, verdict.verdict.retry_us) == (False, SECOND_US)


def test_without_the_store_a_pool_is_a_bucket_of_this_process_share() -> None:
    process = Process(plan_text(limit("org", "pool", "tenant", rate=1, burst=40, reserve=10)), share=4)
    assert process.allowed(30) == 10
