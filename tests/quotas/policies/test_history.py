"""The parameters that a limit has had, across edits, overrides, moves and policies of its own."""

from __future__ import annotations

from dataclasses import replace

from quotas.policies.layers import PolicyIndex
from quotas.policies.resolve import Effective, resolve
from quotas.policies.spec import PAST_GENERATIONS, Carry, Generation, Handover, Limit, Override, Policy, Tenant
from tests.quotas.policies.worlds import limit, tenant_policy, tier_policy

ACME = Tenant(1, "acme", "pro")


def generation(rate: int, since_us: int, carry: Carry = "keep") -> Generation:
    return Generation(limit("burst", rate=rate).algorithm, since_us, carry)


def burst(rate: int, since_us: int, *past: Generation, carry: Carry = "keep") -> Limit:
    return replace(limit("burst", rate=rate), since_us=since_us, past=past, carry=carry)


def line(effective: Effective) -> list[tuple[object, int, str]]:
    """Rate, since, carry; newest first."""
    found = effective.limit
    whole = (Generation(found.algorithm, found.since_us, found.carry), *found.past)
    return [(g.algorithm.describe()["rate"], g.since_us, g.carry) for g in whole]


def history_at(at_us: int, *policies: Policy, overrides: tuple[Override, ...] = (), tenant: Tenant = ACME) -> Effective:
    (effective,) = resolve(PolicyIndex.of(policies, overrides).of_tenant(tenant), at_us).everywhere
    return effective


def test_an_edit_of_the_tier_is_the_history_of_all_its_tenants() -> None:
    edited = tier_policy("*", burst(3, 30, generation(2, 20, "reset"), generation(1, 0)))
    assert line(history_at(40, edited)) == [(3, 30, "keep"), (2, 20, "reset"), (1, 0, "keep")]


class TestAnOverride:
    CHANGE = Override(1, "acme", "*", 100, 200, {"burst": {"rate": 9, "burst": 18}}, carry="proportional")

    def test_it_comes_and_goes_as_generations(self) -> None:
        policy = tier_policy("*", burst(1, 50))
        assert line(history_at(99, policy, overrides=(self.CHANGE,))) == [(1, 50, "keep")]
        assert line(history_at(100, policy, overrides=(self.CHANGE,))) == [(9, 100, "proportional"), (1, 50, "keep")]
        assert line(history_at(200, policy, overrides=(self.CHANGE,))) == [
            (1, 200, "proportional"),
            (9, 100, "proportional"),
            (1, 50, "keep"),
        ]

    def test_an_edit_below_it_shows_when_it_ends(self) -> None:
        policy = tier_policy("*", burst(2, 150, generation(1, 0), carry="reset"))
        assert line(history_at(199, policy, overrides=(self.CHANGE,))) == [(9, 100, "proportional"), (1, 0, "keep")]
        assert line(history_at(200, policy, overrides=(self.CHANGE,)))[0] == (2, 200, "proportional")

    def test_an_edit_below_a_multiplier_shows_at_once(self) -> None:
        twice = replace(self.CHANGE, limits={}, multiplier=(2, 1))
        policy = tier_policy("*", burst(2, 150, generation(1, 0), carry="reset"))
        assert line(history_at(199, policy, overrides=(twice,))) == [
            (4, 150, "reset"),
            (2, 100, "proportional"),
            (1, 0, "keep"),
        ]

    def test_a_limit_that_it_adds_starts_anew_each_time(self) -> None:
        add = replace(self.CHANGE, limits={"burst": {"algorithm": "token_bucket", "rate": 9}})
        again = replace(add, id=2, start_us=300, end_us=400)
        assert line(history_at(300, overrides=(add, again))) == [(9, 300, "proportional")]

    def test_a_period_that_no_longer_fits_leaves_the_limit_as_it_is(self) -> None:
        misfit = replace(self.CHANGE, limits={"burst": {"window": "1s"}})
        assert line(history_at(150, tier_policy("*", burst(1, 0)), overrides=(misfit,))) == [(1, 0, "keep")]


class TestAHandover:
    def moved(self, *past: Generation, since_us: int = 100) -> Tenant:
        return replace(ACME, handovers=(Handover("*", "burst", since_us, "proportional", past),))

    def test_what_held_before_it_is_the_past(self) -> None:
        tenant = self.moved(generation(5, 40), generation(4, 0))
        policy = tier_policy("*", burst(2, 60, generation(1, 0)))
        assert line(history_at(150, policy, tenant=tenant)) == [
            (2, 100, "proportional"),
            (5, 40, "keep"),
            (4, 0, "keep"),
        ]

    def test_edits_after_it_go_on_top(self) -> None:
        policy = tier_policy("*", burst(3, 120, generation(2, 60), generation(1, 0)))
        assert line(history_at(150, policy, tenant=self.moved(generation(5, 40)))) == [
            (3, 120, "keep"),
            (2, 100, "proportional"),
            (5, 40, "keep"),
        ]

    def test_a_limit_made_after_it_has_no_such_past(self) -> None:
        assert line(history_at(150, tier_policy("*", burst(3, 120)), tenant=self.moved(generation(5, 40)))) == [
            (3, 120, "keep")
        ]

    def test_a_policy_of_its_own_has_its_own_past(self) -> None:
        own = tenant_policy("*", burst(8, 130, generation(2, 60)))
        tenant = self.moved(generation(5, 40))
        assert line(history_at(150, tier_policy("*", burst(2, 60)), own, tenant=tenant)) == [
            (8, 130, "keep"),
            (2, 60, "keep"),
        ]


def test_equal_neighbours_are_one_generation() -> None:
    tenant = replace(ACME, handovers=(Handover("*", "burst", 100, "reset", (generation(2, 40),)),))
    assert line(history_at(150, tier_policy("*", burst(2, 60)), tenant=tenant)) == [(2, 40, "keep")]


def test_the_oldest_are_forgotten() -> None:
    past = [generation(rate, rate) for rate in range(19, 0, -1)]
    assert len(history_at(99, tier_policy("*", burst(20, 20, *past))).limit.past) == PAST_GENERATIONS
