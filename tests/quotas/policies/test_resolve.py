"""Precedence, as tables: which limit of a name holds where, counted on what."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest

from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.resolve import FOREVER_US, Resolved, globals_at, moments, resolve
from quotas.policies.spec import Override, Policy, Tenant
from tests.quotas.policies.worlds import global_policy, limit, tenant_policy, tier_policy

ACME = Tenant(1, "acme", "pro")
PAY = "payments:create"
LADDER = {
    "tenant × endpoint": tenant_policy(PAY, limit("burst", rate=1)),
    "tenant × *": tenant_policy("*", limit("burst", rate=2)),
    "tier × endpoint": tier_policy(PAY, limit("burst", rate=3)),
    "tier × *": tier_policy("*", limit("burst", rate=4)),
}


def layers_of(*policies: Policy, overrides: tuple[Override, ...] = (), tenant: Tenant = ACME) -> Layers:
    return PolicyIndex.of(policies, overrides).of_tenant(tenant)


def now(layers: Layers, at_us: int = FOREVER_US - 1) -> Resolved:
    return resolve(layers, at_us)


def shown(resolved: Resolved, endpoint: str) -> dict[str, tuple[str, object]]:
    """Limit name → scope, rate."""
    return {e.limit.name: (e.scope, e.limit.algorithm.describe()["rate"]) for e in resolved.at(endpoint)}


SUBSETS = [names for size in range(1, 5) for names in itertools.combinations(LADDER, size)]


@pytest.mark.parametrize("names", SUBSETS, ids=" + ".join)
def test_the_most_specific_limit_of_a_name_holds(names: tuple[str, ...]) -> None:
    resolved = now(layers_of(*(LADDER[name] for name in names)))
    winner = LADDER[names[0]]  # the ladder is in order, and combinations keep it
    assert shown(resolved, PAY) == {"burst": (winner.endpoint, winner.limits[0].algorithm.describe()["rate"])}
    assert [e.source for e in resolved.at(PAY)] == [winner.source]


@pytest.mark.parametrize("names", SUBSETS, ids=" + ".join)
def test_elsewhere_only_the_policies_on_star_hold(names: tuple[str, ...]) -> None:
    on_star = [LADDER[name] for name in names if name.endswith("*")]
    expected = {"burst": ("*", on_star[0].limits[0].algorithm.describe()["rate"])} if on_star else {}
    assert shown(now(layers_of(*(LADDER[name] for name in names))), "search:query") == expected


def test_limits_of_different_names_add_up() -> None:
    layers = layers_of(
        tier_policy("*", limit("burst", rate=1), limit("daily", rate=2)),
        tier_policy(PAY, limit("burst", rate=3), limit("charges", rate=4)),
        tenant_policy("*", limit("minute", rate=5)),
    )
    assert shown(now(layers), PAY) == {
        "burst": (PAY, 3),
        "charges": (PAY, 4),
        "daily": ("*", 2),
        "minute": ("*", 5),
    }


def test_a_limit_that_is_off_still_takes_the_place_of_the_one_below() -> None:
    resolved = now(layers_of(LADDER["tier × *"], tenant_policy(PAY, limit("burst", rate=9, mode="off"))))
    assert [e.limit.mode for e in resolved.at(PAY)] == ["off"]


def test_the_other_tier_and_the_other_tenant_give_nothing() -> None:
    others = tier_policy("*", limit("burst"), tier="free"), tenant_policy("*", limit("burst"), tenant="bob")
    assert now(layers_of(*others)).at(PAY) == ()


def test_a_plain_tenant_has_what_its_tier_has() -> None:
    index = PolicyIndex.of([LADDER["tier × *"], LADDER["tier × endpoint"]], ())
    assert index.of_tenant(ACME).is_plain
    assert now(index.of_tenant(ACME)) == now(index.of_tier("pro"))


class TestGlobals:
    POLICIES = {
        p.endpoint: p for p in (global_policy("*", limit("all")), global_policy("payments:*", limit("service")))
    }

    def test_those_of_the_endpoint_its_service_and_everyone_all_apply(self) -> None:
        policies = {**self.POLICIES, PAY: global_policy(PAY, limit("all"))}
        assert [(e.limit.name, e.scope) for e in globals_at(policies, PAY)] == [
            ("all", PAY),
            ("service", "payments:*"),
            ("all", "*"),
        ]

    def test_an_endpoint_that_is_not_registered_has_everyones(self) -> None:
        assert [e.scope for e in globals_at(self.POLICIES, "*")] == ["*"]


class Case(NamedTuple):
    override: Override
    pay: dict[str, tuple[str, object]]  # on payments:create
    query: dict[str, tuple[str, object]]  # on search:query


def override(
    endpoint: str = "*", number: int = 1, start_us: int = 100, end_us: int | None = 200, **change: object
) -> Override:
    return Override(number, "acme", endpoint, start_us, end_us, **change)  # type: ignore[arg-type]


BASE = (tier_policy("*", limit("burst", rate=10), limit("daily", rate=20)), tier_policy(PAY, limit("charges", rate=30)))
OVERRIDES = {
    "a name on * changes the limit of *": Case(
        override(limits={"burst": {"rate": 11}}),
        {"charges": (PAY, 30), "burst": ("*", 11), "daily": ("*", 20)},
        {"burst": ("*", 11), "daily": ("*", 20)},
    ),
    "a name on an endpoint changes its own limit": Case(
        override(PAY, limits={"charges": {"rate": 33}}),
        {"charges": (PAY, 33), "burst": ("*", 10), "daily": ("*", 20)},
        {"burst": ("*", 10), "daily": ("*", 20)},
    ),
    "a name that the endpoint has from * becomes the endpoint's own": Case(
        override(PAY, limits={"burst": {"rate": 11}}),
        {"burst": (PAY, 11), "charges": (PAY, 30), "daily": ("*", 20)},
        {"burst": ("*", 10), "daily": ("*", 20)},
    ),
    "a new name adds a limit": Case(
        override(PAY, limits={"extra": {"algorithm": "gcra", "rate": 7}}),
        {"charges": (PAY, 30), "extra": (PAY, 7), "burst": ("*", 10), "daily": ("*", 20)},
        {"burst": ("*", 10), "daily": ("*", 20)},
    ),
    "a multiplier on * scales everything": Case(
        override(multiplier=(3, 1)),
        {"charges": (PAY, 90), "burst": ("*", 30), "daily": ("*", 60)},
        {"burst": ("*", 30), "daily": ("*", 60)},
    ),
    "a multiplier on an endpoint scales its own limits only": Case(
        override(PAY, multiplier=(3, 1)),
        {"charges": (PAY, 90), "burst": ("*", 10), "daily": ("*", 20)},
        {"burst": ("*", 10), "daily": ("*", 20)},
    ),
}


class TestOverrides:
    @pytest.mark.parametrize("case", OVERRIDES.values(), ids=OVERRIDES)
    def test_while_it_lasts(self, case: Case) -> None:
        layers = layers_of(*BASE, overrides=(case.override,))
        for at_us in (100, 199):
            assert shown(now(layers, at_us), PAY) == case.pay
            assert shown(now(layers, at_us), "search:query") == case.query

    @pytest.mark.parametrize("case", OVERRIDES.values(), ids=OVERRIDES)
    def test_before_and_after_nothing_of_it_is_left(self, case: Case) -> None:
        layers = layers_of(*BASE, overrides=(case.override,))
        without = layers_of(*BASE)
        for at_us in (99, 200):
            for endpoint in (PAY, "search:query"):
                assert shown(now(layers, at_us), endpoint) == shown(now(without, at_us), endpoint)

    def test_those_on_an_endpoint_go_over_those_on_star(self) -> None:
        on_endpoint = override(PAY, 1, limits={"charges": {"rate": 5}})
        layers = layers_of(*BASE, overrides=(on_endpoint, override(number=2, multiplier=(2, 1))))
        assert shown(now(layers, 100), PAY)["charges"] == (PAY, 5)

    def test_of_two_on_the_same_the_later_goes_over_the_earlier(self) -> None:
        both = override(number=1, limits={"burst": {"rate": 5}}), override(number=2, multiplier=(2, 1))
        resolved = now(layers_of(*BASE, overrides=both), 100)
        burst = next(e for e in resolved.everywhere if e.limit.name == "burst")
        assert (burst.limit.algorithm.describe()["rate"], burst.overrides) == (10, (1, 2))

    def test_what_an_endpoint_takes_over_from_star_is_scaled_once(self) -> None:
        both = override(PAY, 1, limits={"burst": {"burst": 99}}), override(number=2, multiplier=(2, 1))
        assert shown(now(layers_of(*BASE, overrides=both), 100), PAY)["burst"] == (PAY, 20)

    def test_another_algorithm_brings_its_own_parameters(self) -> None:
        change = override(limits={"burst": {"algorithm": "fixed_window", "limit": 5, "window": "1s"}})
        resolved = now(layers_of(*BASE, overrides=(change,)), 100)
        assert resolved.everywhere[0].limit.algorithm.describe() == {"limit": 5, "window": "1s"}

    def test_globals_are_not_touched(self) -> None:
        index = PolicyIndex.of([global_policy("*", limit("all", rate=1))], [override(multiplier=(2, 1))])
        assert globals_at(index.globals, PAY)[0].limit.algorithm.describe()["rate"] == 1


def test_moments_are_the_starts_and_ends_of_overrides() -> None:
    layers = layers_of(overrides=(override(number=1), override(number=2, start_us=150, end_us=None)))
    assert [tuple(moment) for moment in moments(layers)] == [(0, 99), (100, 149), (150, 199), (200, FOREVER_US - 1)]
    assert [tuple(moment) for moment in moments(layers_of())] == [(0, FOREVER_US - 1)]
