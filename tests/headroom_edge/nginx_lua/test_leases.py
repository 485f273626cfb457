"""Leases in nginx's shared memory: the same sums as without them, over several workers, and never over the limit."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

from headroom_edge import Check, Limiter, keys
from quotas.policies.spec import Limit
from tests.faults.proxy import Proxy
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.world import fcalls, limit, publish
from tests.headroom_edge.nginx_lua.test_faults import outcomes
from tests.headroom_edge.nginx_lua.world import AMPLE, ASKED, LuaNginx, lua_nginx, needs_lua
from tests.headroom_edge.world import Answer, configuration, publish_world

pytestmark = needs_lua
SHARED = "lua_shared_dict headroom 2m;"
LEASED = f'{AMPLE} leases = true, dimensions = {{ "user" }},'
ENDPOINT = "rides:list"
SIZE = 600
PLENTY = 100_000_000


@contextmanager
def leasing(
    folder: Path, url: str, *, workers: int = 2, settings: str = LEASED, shared: str = SHARED
) -> Iterator[LuaNginx]:
    with lua_nginx(folder, url, settings=settings, http=shared, locations=ASKED, workers=workers) as running:
        yield running


# Longer than any block is out, also on a slow machine.
QUIET_SECONDS = 1.0


@dataclass
class Crowd:
    """Callers that ask as fast as they can."""

    nginx: LuaNginx
    answers: list[Answer] = field(default_factory=list)
    errors: int = 0  # connections that a killed worker broke

    def ask(self, **about: str) -> Answer:
        fields = {"x_tenant": "acme", "x_endpoint": ENDPOINT, "x_fail": "closed"} | about
        answer = self.nginx.client.get("/ask", **fields)
        self.answers.append(answer)
        return answer

    def rush(self, each: int, *, callers: int = 6, about: dict[str, str] | None = None) -> None:
        def call() -> None:
            for _ in range(each):
                try:
                    self.ask(**about or {})
                except OSError:
                    self.errors += 1

        threads = [threading.Thread(target=call) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)

    def rush_past(self, size: int, about: dict[str, str] | None = None) -> None:
        """Until so many were allowed, and once more."""

        def has_reached() -> bool:
            self.rush(25, about=about)
            return self.allowed >= size

        until(has_reached)
        self.rush(25, about=about)

    def rush_until_nothing_is_left(self) -> None:
        """A block that comes back leaves room for some more requests, a tenth of a second after it was taken."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET_SECONDS:
            before = self.allowed
            self.rush(25)
            if self.allowed > before:
                quiet_since = time.monotonic()

    @property
    def statuses(self) -> Counter[int]:
        return Counter(answer.status for answer in self.answers)

    @property
    def allowed(self) -> int:
        return self.statuses[200]


def window(size: int, subject: str = "tenant", **about: str) -> Limit:
    return limit("hourly", "fixed_window", subject, limit=size, window="1d", **about)


KINDS: dict[str, tuple[Limit, ...]] = {
    "fixed window": (window(SIZE),),
    "sliding log": (limit("log", "sliding_log", limit=SIZE, window="1d"),),
    "bucket": (limit("bucket", "token_bucket", rate=1, per="1d", burst=SIZE),),
    "several": (window(SIZE), limit("yearly", "calendar_quota", limit=1_000_000, period="year", timezone="UTC")),
}


@pytest.mark.parametrize(
    "kind", ["several", *(pytest.param(kind, marks=pytest.mark.sweep) for kind in KINDS if kind != "several")]
)
def test_as_many_pass_as_without_leases_and_each_is_accounted_once(
    valkey: redis.Redis, valkey_url: str, tmp_path: Path, kind: str
) -> None:
    publish_world(valkey, *KINDS[kind])
    with leasing(tmp_path, valkey_url) as running:
        crowd = Crowd(running)
        if kind == "bucket":  # it keeps what comes back late
            crowd.rush_until_nothing_is_left()
        else:
            crowd.rush_past(SIZE)
    assert crowd.allowed <= SIZE
    if kind != "bucket":
        assert crowd.allowed == SIZE
    assert outcomes(valkey) == {"a": crowd.allowed, "d": crowd.statuses[429]}


def test_most_requests_ask_nobody_also_after_an_idle_time(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, window(PLENTY))
    with leasing(tmp_path, valkey_url) as running:
        crowd = Crowd(running)

        def is_so() -> bool:
            valkey.config_resetstat()
            before = len(crowd.answers)
            crowd.rush(50)
            return fcalls(valkey) < (len(crowd.answers) - before) / 2

        for _ in range(3):
            assert any(is_so() for _ in range(20))
            until(lambda: left(valkey_url) == PLENTY - crowd.allowed)
    assert set(crowd.statuses) == {200}


def test_costs_are_spent_from_a_block_of_their_own(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, window(3_000, unit="cost"))
    with leasing(tmp_path, valkey_url) as running:
        crowd = Crowd(running)
        crowd.rush(40, about={"x_cost": "3"})
        crowd.rush(20)
    assert crowd.statuses == {200: 360}
    assert left(valkey_url) == 3_000 - 3 * 240 - 120
    assert outcomes(valkey) == {"a": 360}


def left(url: str) -> int:
    with Limiter.from_url(url, budget_ms=AMPLE_MS) as limiter:
        return limiter.peek(tenant="acme", endpoint=ENDPOINT).remaining + 1


def test_what_a_block_has_left_comes_back_when_nginx_ends(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, window(100_000))
    with leasing(tmp_path, valkey_url) as running:
        crowd = Crowd(running)
        crowd.rush(50)
    assert (crowd.statuses, left(valkey_url), outcomes(valkey)) == ({200: 300}, 100_000 - 300, {"a": 300})


def test_an_idle_nginx_gives_back(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, window(100_000))
    with leasing(tmp_path, valkey_url) as running:
        crowd = Crowd(running)
        crowd.rush(50)
        until(lambda: left(valkey_url) == 100_000 - 300 and outcomes(valkey) == {"a": 300})


def test_subjects_do_not_share_a_block(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, window(90, "user"))
    with leasing(tmp_path, valkey_url) as running:
        for user in ("ann", "ben", ""):
            crowd = Crowd(running)
            crowd.rush_past(90, {"x_user": user} if user else None)
            assert crowd.allowed == 90


def test_a_full_memory_takes_no_blocks_and_loses_none(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, window(PLENTY, "user"))
    with leasing(tmp_path, valkey_url, shared="lua_shared_dict headroom 12k;") as running:
        crowd = Crowd(running)
        for number in range(25):
            crowd.rush(10, callers=2, about={"x_user": f"{number}" * 200})
    assert crowd.statuses == {200: 500}
    assert outcomes(valkey) == {"a": 500}


def test_an_edit_arrives(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, window(100_000))
    with leasing(tmp_path, valkey_url) as running:
        crowd = Crowd(running)
        crowd.rush(30)
        publish(valkey, replace(configuration(window(10)), revision=2))
        crowd.rush(30)
        until(lambda: crowd.ask().status == 429)


def test_what_is_never_leased_is_asked_for_each_time(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, limit("slots", "concurrency", limit=1_000, hold="1h"), window(150))
    with leasing(tmp_path, valkey_url) as running:
        crowd = Crowd(running)
        crowd.rush(40)
    assert crowd.statuses == {200: 150, 429: 90}


def test_a_denial_of_what_is_never_leased_is_not_remembered(
    valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    publish_world(valkey, limit("slots", "concurrency", limit=20, hold="1h"))
    where: dict[str, Any] = {"tenant": "acme", "endpoint": ENDPOINT}
    holders = [Check(**where, holder=f"h{number}") for number in range(20)]
    after = []
    with leasing(tmp_path, valkey_url, workers=1) as running, Limiter.from_url(valkey_url, budget_ms=AMPLE_MS) as other:
        for _ in range(20):
            Crowd(running).rush(10)
            # nginx releases a slot after its answer.
            until(lambda: all(taken.allowed for taken in other.check_many(holders)))
            full = Crowd(running)
            full.rush(2)
            assert full.statuses == {429: 12}
            other.reset(**where)
            after.append(full.ask().status)
    assert after == [200] * 20


def test_a_denied_request_says_nothing_about_more_important_ones(
    valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    publish_world(valkey, limit("org", "pool", rate=1, per="1h", burst=400))
    with leasing(tmp_path, valkey_url, workers=1) as running:
        crowd = Crowd(running)
        low = [crowd.ask(x_priority="sheddable").status for _ in range(210)]
        mixed = [crowd.ask(x_priority=word).status for _ in range(20) for word in ("sheddable", "normal")]
    assert low == [200] * 200 + [429] * 10
    assert mixed == [429, 200] * 20


def test_the_heartbeat_says_where_leases_are_in_use(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, window(100_000))
    with leasing(tmp_path, valkey_url, workers=1, settings=f"{LEASED} heartbeat_s = 1,") as running:
        crowd = Crowd(running)

        def told() -> list[str]:
            crowd.rush(20)
            found = [json.loads(text) for text in valkey.hgetall(keys.enforcer_info()).values()]
            return [name for about in found for name in about.get("leases", {}).get("endpoints", [])]

        until(lambda: told() == [ENDPOINT])


def test_a_store_that_is_away_is_not_needed_until_the_block_ends(
    valkey: redis.Redis, proxy: Proxy, tmp_path: Path
) -> None:
    publish_world(valkey, window(2_000, on_failure="closed"))
    settings = LEASED.replace(AMPLE, "budget_ms = 100,")
    with leasing(tmp_path, proxy.url, settings=settings) as running:
        crowd = Crowd(running)
        crowd.rush(40)
        proxy.blackhole()
        until(lambda: crowd.ask().status == 503)
        proxy.heal()
        until(lambda: crowd.ask().status == 200)
        crowd.rush(40)
        allowed = crowd.allowed
        until(lambda: outcomes(valkey)["a"] >= allowed)
    assert set(crowd.statuses) == {200, 503}
    assert outcomes(valkey)["a"] <= len(crowd.answers), "no settlement was counted twice"


def wait_for_more(crowd: Crowd, answers: int, callers: threading.Thread) -> None:
    enough = len(crowd.answers) + answers
    until(lambda: len(crowd.answers) > enough or not callers.is_alive())


def kill_a_worker(running: LuaNginx) -> None:
    for worker in psutil.Process(running.process.pid).children()[:1]:
        os.kill(worker.pid, signal.SIGKILL)


def test_killed_workers_never_let_more_through(valkey: redis.Redis, valkey_url: str, tmp_path: Path) -> None:
    publish_world(valkey, window(SIZE))
    with leasing(tmp_path, valkey_url) as running:
        crowd = Crowd(running)
        rounds = threading.Thread(target=crowd.rush, args=(200,))
        rounds.start()
        for _ in range(5):
            wait_for_more(crowd, 100, rounds)
            kill_a_worker(running)
        rounds.join(120)
    assert crowd.allowed <= SIZE


@pytest.mark.faults_long
def test_many_workers_killed_and_restarted_never_let_more_through(
    valkey: redis.Redis, valkey_url: str, tmp_path: Path, figures: Callable[[str], None]
) -> None:
    publish_world(valkey, window(20_000))
    with leasing(tmp_path, valkey_url, workers=4) as running:
        crowd = Crowd(running)
        rush = threading.Thread(target=crowd.rush, args=(5_000,), kwargs={"callers": 8})
        rush.start()
        kills = 0
        while rush.is_alive():
            wait_for_more(crowd, 500, rush)
            kill_a_worker(running)
            kills += 1
    accounted = outcomes(valkey)["a"]
    figures(
        f"{kills} kills: {crowd.allowed} of 20,000 passed, {accounted} accounted, {crowd.errors} broken connections"
    )
    assert crowd.allowed <= 20_000
