"""Limits that follow the health of their endpoint: the loop of hr_observe, its factor, and what a check makes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from headroom_edge import keys
from headroom_edge.algorithms.bucket import Gcra, TokenBucket
from headroom_edge.observations import bucket_of
from headroom_edge.plan.subject import Subject
from quotas.policies.adapt import Adapt
from quotas.policies.spec import Limit, Policy, Tenant
from tests.headroom_edge.lua.backends import ENDPOINT, SECOND_US, Backend, copy_factors, observe, publish, states
from tests.headroom_edge.lua.world import NOW_US, TENANT, World, tier_policy

EVERYONE = Subject.parse("tenant")
ADAPT = Adapt(floor=100, ceiling=1_000, slow_us=300_000, errors=50)
BACKEND = Limit("backend", TokenBucket(1_000, SECOND_US, 100), EVERYONE, adapt=ADAPT)
SHARD = keys.shard_of(TENANT)
GOOD, SLOW = f"{bucket_of(50_000)}:100", f"{bucket_of(500_000)}:100"


def everyone(limit: Limit) -> Policy:
    return Policy("everyone", ENDPOINT, (limit,))


def set_factor(world: World, factor: int, until_us: int = NOW_US + 10 * SECOND_US) -> None:
    """Of every loop."""
    loops: Any = world.client.hgetall(keys.config(SHARD))
    names = [name.decode().removeprefix("a:") for name in loops if name.startswith(b"a:")]
    text = "".join(f"{name} {factor} {until_us // 1_000} drain;" for name in names)
    world.client.set(keys.factors(SHARD), text)


def at(second: int) -> int:
    return NOW_US + second * SECOND_US + 300_000


class TestTheLoop:
    @pytest.mark.parametrize(
        "phases", [(3, 7), pytest.param((9, 8), marks=pytest.mark.sweep)], ids=["copied soon", "copied late"]
    )
    def test_it_settles_below_what_a_slower_backend_can_answer(self, world: World, phases: tuple[int, int]) -> None:
        publish(world, everyone(BACKEND))
        backend = Backend(world, lambda s: 600 if s >= 5 else 1_200, lambda _: 1_000)
        backend.run(65, report_at=phases[0], copy_at=phases[1])
        assert backend.served(25, 65) >= 0.95 * 600
        assert backend.bad(25, 65) <= 0.05

    def test_limits_of_each_tenant_settle_too(self, world: World) -> None:
        names = tuple(f"t{n}" for n in range(10))
        world.tenants = {name: Tenant(n, name, "pro") for n, name in enumerate(names, start=1)}
        own = Limit("own", TokenBucket(150, SECOND_US, 20), EVERYONE, adapt=ADAPT)
        publish(world, tier_policy(own, endpoint=ENDPOINT))
        backend = Backend(world, lambda s: 600 if s >= 5 else 1_200, lambda _: 1_000, tenants=names)
        backend.run(55)
        assert backend.served(25, 55) >= 0.9 * 600
        assert backend.bad(25, 55) <= 0.1

    def test_it_returns_to_the_whole_limit_when_the_backend_has_recovered(self, world: World) -> None:
        publish(world, everyone(BACKEND))
        backend = Backend(world, lambda s: 600 if 5 <= s < 25 else 1_200, lambda _: 1_000)
        backend.run(25)
        assert states(world, backend.now_us)[0].factor < 650
        backend.run(105)
        assert states(world, backend.now_us)[0].factor == 1_000
        assert backend.served(100, 105) == pytest.approx(1_000, rel=0.02)

    def test_noise_below_the_threshold_cuts_nothing(self, world: World) -> None:
        publish(world, everyone(BACKEND))
        backend = Backend(world, lambda _: 1_200, lambda _: 1_000, errors=lambda served: served * 2 // 100)
        for second in range(1, 31):
            backend.run(second)
            assert all(state.factor == 1_000 for state in states(world, backend.now_us))
        assert backend.bad(0, 30) == pytest.approx(0.02)

    def test_few_answers_prove_nothing(self, world: World) -> None:
        publish(world, everyone(BACKEND))
        for second in range(30):
            observe(world, at(second), ["0", "2", f"{bucket_of(50_000)}:11", ENDPOINT, "0", "5", "9:1", ENDPOINT])
        assert states(world, at(30))[0].factor == 1_000

    def test_slow_answers_are_bad_and_answers_of_other_endpoints_are_not_counted(self, world: World) -> None:
        publish(world, everyone(BACKEND))
        for second in range(5):
            observe(world, at(second), ["0", "2", GOOD, ENDPOINT, "0", "5", SLOW, "rides:book"])
        assert states(world, at(5))[0].factor == 1_000
        observe(world, at(5), ["0", "2", SLOW, ENDPOINT])
        assert (states(world, at(5))[0].factor, states(world, at(5))[0].mode) == (100, "drain")

    def test_it_never_leaves_its_bounds(self, world: World) -> None:
        publish(world, everyone(replace(BACKEND, adapt=replace(ADAPT, floor=400, ceiling=800))))
        for second in range(10):
            observe(world, at(second), ["0", "2", GOOD, ENDPOINT])
        assert states(world, at(10))[0].factor == 800
        for second in range(10, 40):
            observe(world, at(second), ["0", "5", SLOW, ENDPOINT])
        assert states(world, at(40))[0].factor == 400

    def test_without_answers_for_ten_seconds_it_is_dead(self, world: World) -> None:
        publish(world, everyone(BACKEND))
        backend = Backend(world, lambda _: 600, lambda _: 1_000)
        backend.run(15)
        text = copy_factors(world, backend.now_us)
        assert text
        last_us = states(world, backend.now_us)[0].until_us
        assert last_us <= backend.now_us + 10 * SECOND_US
        backend.run(28, reports=False)
        assert states(world, backend.now_us) == []
        # A publisher that died leaves its last text behind, which ends by itself.
        world.client.set(keys.factors(SHARD), text)
        backend.queue = 0.0
        backend.run(30, reports=False, copy_at=-1)
        assert backend._admitted() == 100  # all that was asked for in a tenth of a second

    def test_a_step_of_the_clock_starts_it_anew(self, world: World) -> None:
        publish(world, everyone(BACKEND))
        for second in range(100, 104):
            observe(world, at(second), ["0", "5", GOOD, ENDPOINT])
        assert states(world, at(104))[0].factor < 1_000
        observe(world, at(0), ["0", "2", GOOD, ENDPOINT])
        assert states(world, at(0))[0].factor == 1_000

    def test_many_endpoints_with_many_loops_are_judged_in_turn(self, world: World) -> None:
        names = [f"rides:{number}" for number in range(1_000)]
        rows = {name: [[f"{name}-{n}", 1_000, 100, 50, 300, 1_000] for n in range(5)] for name in names}
        world.client.hset(keys.loops(), mapping={name: json.dumps(loops) for name, loops in rows.items()})
        for _ in range(20):
            observe(world, at(0), [word for name in names for word in ("0", "5", GOOD, name)])
        found = states(world, at(0))
        assert (len(found), {state.factor for state in found}) == (5_000, {700})

    def test_endpoints_without_adapting_limits_have_no_state(self, world: World) -> None:
        publish(world, everyone(replace(BACKEND, adapt=None)))
        observe(world, at(0), ["0", "5", GOOD, ENDPOINT])
        assert not world.client.exists(keys.loop_states())


class TestTheFactor:
    def test_it_scales_the_cost_exactly(self, world: World) -> None:
        world.configure(everyone(replace(BACKEND, algorithm=TokenBucket(7, SECOND_US, 10))))
        set_factor(world, 300, until_us=NOW_US + 1_000 * SECOND_US)
        passed = sum(world.check(NOW_US + step * 10_000).allowed for step in range(6_000))
        # 3 at once (10 × 0.3), and 2.1 per second until the last one at 59.99 s.
        assert passed == 3 + 125

    def test_a_meter_with_a_burst_of_one_is_spaced_further_apart(self, world: World) -> None:
        world.configure(everyone(replace(BACKEND, algorithm=Gcra(10, SECOND_US, 1))))
        set_factor(world, 500)
        assert world.check(NOW_US).allowed
        assert not world.check(NOW_US + 199_999).allowed
        assert world.check(NOW_US + 200_000).allowed

    def test_a_denial_by_the_factor_alone_is_of_the_limit_and_tells_when_to_retry(self, world: World) -> None:
        world.configure(everyone(replace(BACKEND, unit="cost", algorithm=TokenBucket(10, SECOND_US, 10))))
        set_factor(world, 500)
        assert world.check(NOW_US, 4).remaining == 1
        denied = world.check(NOW_US, 4)
        assert (denied.allowed, denied.reason, denied.limit) == (False, "limit", "backend")
        assert denied.retry_us == 600_000
        assert not world.check(NOW_US + 599_999, 4).allowed
        assert world.check(NOW_US + 600_000, 4).allowed

    def test_whether_a_cost_fits_at_all_is_judged_without_it(self, world: World) -> None:
        world.configure(everyone(replace(BACKEND, unit="cost", algorithm=TokenBucket(10, SECOND_US, 10))))
        set_factor(world, 200)
        assert world.check(NOW_US, 11).reason == "cost_too_big"
        assert world.check(NOW_US, 10).allowed  # from a full bucket, with a wait of 5 s behind it
        assert world.check(NOW_US, 10).retry_us == 5 * SECOND_US

    def test_a_pin_needs_no_signal(self, world: World) -> None:
        pinned = replace(BACKEND, algorithm=TokenBucket(10, SECOND_US, 10), adapt=ADAPT.pinned(200))
        publish(world, everyone(pinned))
        assert not world.client.exists(keys.loops())
        assert [world.check(NOW_US).allowed for _ in range(4)] == [True, True, False, False]

    def test_a_ceiling_holds_without_a_signal(self, world: World) -> None:
        world.configure(
            everyone(replace(BACKEND, algorithm=TokenBucket(10, SECOND_US, 10), adapt=replace(ADAPT, ceiling=500)))
        )
        assert sum(world.check(NOW_US).allowed for _ in range(10)) == 5

    def test_a_refund_gives_back_what_was_charged_then(self, world: World) -> None:
        world.configure(everyone(replace(BACKEND, unit="cost", algorithm=TokenBucket(10, SECOND_US, 10))))
        set_factor(world, 500)
        allowed = world.check(NOW_US, 4, rows=True)
        set_factor(world, 1_000)
        assert world.peek(NOW_US).remaining == 1
        assert world.ask("refund", NOW_US, ENDPOINT, allowed.receipt) == 1
        assert world.peek(NOW_US).remaining == 9

    def test_nothing_is_leased_while_it_is_in_force(self, world: World) -> None:
        world.configure(
            tier_policy(replace(BACKEND, algorithm=TokenBucket(10_000, SECOND_US, 10_000)), endpoint=ENDPOINT)
        )
        words = (ENDPOINT, 1, 100, 100, 100, 0, 0, 0, 0, "")
        assert world.ask("lease", NOW_US, *words)[-1][0] > 0
        set_factor(world, 999)
        assert world.ask("lease", NOW_US, *words)[-1][0] == 0

    @pytest.mark.parametrize("text", ["", "garbage", "00 x 5 drain;", "zz 500 99999999999999 drain;"])
    def test_a_text_that_nobody_wrote_is_no_factor(self, world: World, text: str) -> None:
        world.configure(everyone(replace(BACKEND, algorithm=TokenBucket(10, SECOND_US, 10))))
        world.client.set(keys.factors(SHARD), text)
        assert sum(world.check(NOW_US).allowed for _ in range(12)) == 10


class TestLive:
    def rows(self, world: World) -> list[Any]:
        return [list(map(_text, row)) for row in world.ask("live", NOW_US, ENDPOINT)]

    def test_it_tells_the_factor_its_bounds_and_until_when(self, world: World) -> None:
        world.configure(everyone(BACKEND))
        assert self.rows(world) == [["backend", "rate", 1_000, 100, 1_000, "free", 0, 0]]
        set_factor(world, 420)
        assert self.rows(world) == [["backend", "rate", 420, 100, 1_000, "drain", 0, NOW_US + 10 * SECOND_US]]

    def test_a_pin_is_told(self, world: World) -> None:
        world.configure(everyone(replace(BACKEND, adapt=ADAPT.pinned(200))))
        assert self.rows(world) == [["backend", "rate", 200, 200, 200, "pinned", 0, 0]]


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
