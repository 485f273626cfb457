"""An override that could not do what it says is refused with a sentence that tells why."""

from __future__ import annotations

from typing import Any

import pytest

from quotas.policies.enforceable import override_problem
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.spec import Override, Tenant
from tests.quotas.policies.worlds import limit, tier_policy

PAY = "payments:create"
POLICIES = [
    tier_policy("*", limit("burst", rate=10)),
    tier_policy(PAY, limit("log", "sliding_log", limit=6_000, window="1m")),
]


def layers() -> Layers:
    return PolicyIndex.of(POLICIES, ()).of_tenant(Tenant(1, "acme", "pro"))


def override(endpoint: str, **change: Any) -> Override:
    return Override(1, "acme", endpoint, 100, 200, **change)


FITTING = [
    override("*", limits={"burst": {"burst": 5}}),
    override(PAY, limits={"burst": {"burst": 5}}),
    override("search:query", limits={"burst": {"mode": "off"}}),
    override(PAY, limits={"new": {"algorithm": "gcra", "rate": 1}}),
    override(PAY, multiplier=(3, 2)),
    override("*", multiplier=(1, 100)),
]
MISFITS = [
    (override("*", limits={"brust": {"burst": 5}}), "there is no limit brust on * to change (there: burst)"),
    (override("*", limits={"log": {"limit": 5}}), "there is no limit log on * to change (there: burst)"),
    (override(PAY, limits={"x": {"burst": 5}}), "(there: burst, log); correct the name, or give algorithm"),
    (override("search:query", multiplier=(2, 1)), "search:query has no limit of its own; name limits"),
    (override("*", limits={"burst": {"window": "1s"}}), "limits.burst.window is not a field of token_bucket"),
    (override("*", limits={"burst": {"rate": 0}}), "limits.burst.rate must be a number above 0"),
    (override(PAY, multiplier=(2, 1)), "log × 2/1: "),
    (override("*", limits={"new": {"algorithm": "gcra"}}), "limits.new.rate is missing"),
]


@pytest.mark.parametrize("fitting", FITTING)
def test_it_fits(fitting: Override) -> None:
    assert override_problem(layers(), fitting, now_us=0) is None


@pytest.mark.parametrize(("misfit", "sentence"), MISFITS)
def test_it_does_not_fit(misfit: Override, sentence: str) -> None:
    assert sentence in (override_problem(layers(), misfit, now_us=0) or "")


def test_a_multiplier_for_a_tenant_without_limits_changes_nothing() -> None:
    assert "the tenant has no limit" in (override_problem(Layers({}), override("*", multiplier=(2, 1)), 0) or "")
