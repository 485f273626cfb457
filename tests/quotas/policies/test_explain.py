from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from quotas.overrides import override_create
from quotas.policies.edit import policy_create
from quotas.policies.explain import Explanation, UnknownTenantError, explain
from quotas.tenants import tenant_suspend
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket

pytestmark = pytest.mark.usefixtures("world")

# Which policies exist besides pro-all → where acme's burst on PAY comes from, and what it replaces, in order.
TENANT_PAY = {"name": "acme-pay", "tenant": "acme", "endpoint": PAY}
TENANT_ALL = {"name": "acme-all", "tenant": "acme", "endpoint": "*"}
TIER_PAY = {"name": "pro-pay", "tier": "pro", "endpoint": PAY}
LADDER = [f"tenant acme × {PAY}", "tenant acme × *", f"tier pro × {PAY}", "tier pro × *"]
TABLE = [
    ([], LADDER[3:]),
    ([TIER_PAY], LADDER[2:]),
    ([TENANT_ALL], [LADDER[1], LADDER[3]]),
    ([TENANT_PAY], [LADDER[0], LADDER[3]]),
    ([TENANT_ALL, TIER_PAY], LADDER[1:]),
    ([TENANT_PAY, TIER_PAY], [LADDER[0], LADDER[2], LADDER[3]]),
    ([TENANT_PAY, TENANT_ALL], [LADDER[0], LADDER[1], LADDER[3]]),
    ([TENANT_PAY, TENANT_ALL, TIER_PAY], LADDER),
]


def sources(explanation: Explanation, name: str = "burst") -> list[str]:
    """Where the limit of that name comes from, then what it replaces."""
    explained = next(e for e in explanation.limits if e.effective.limit.name == name)
    return [explained.effective.source, *(lost.source for lost in explained.lost)]


@pytest.mark.parametrize(("policies", "expected"), TABLE)
def test_the_source_and_what_lost(policies: list[dict[str, str]], expected: list[str]) -> None:
    for rate, policy in enumerate(policies, start=1):
        policy_create(limits=[bucket(rate)], **policy, **FORCED)  # type: ignore[arg-type]
    assert sources(explain(tenant="acme", endpoint=PAY)) == expected
    assert sources(explain(tenant="acme", endpoint=PAY), "minute") == LADDER[3:]


def test_global_limits_come_last_and_replace_nothing() -> None:
    policy_create(name="protect", endpoint="payments:*", limits=[bucket(500)], **FORCED)
    limits = explain(tenant="acme", endpoint=PAY).limits
    assert [(e.effective.limit.name, e.effective.source) for e in limits] == [
        ("burst", "tier pro × *"),
        ("minute", "tier pro × *"),
        ("burst", "global × payments:*"),
    ]
    assert len(explain(tenant="acme", endpoint=GET).limits) == 2


def test_an_override_is_named_while_it_lasts() -> None:
    end = timezone.now() + timedelta(hours=1)
    row = override_create(tenant="acme", endpoint=PAY, end=end, limits={"burst": {"rate": 7}}, **FORCED)
    burst = explain(tenant="acme", endpoint=PAY).limits[0]
    assert (burst.effective.scope, [o.id for o in burst.overrides]) == (PAY, [row.pk])
    assert burst.effective.source == "tier pro × *"
    after = explain(tenant="acme", endpoint=PAY, at=end + timedelta(seconds=1)).limits[0]
    assert (after.effective.scope, after.overrides) == ("*", ())


def test_an_override_for_later_is_announced() -> None:
    start = timezone.now() + timedelta(hours=1)
    row = override_create(tenant="acme", endpoint=PAY, start=start, limits={"burst": {"rate": 7}}, **FORCED)
    assert [o.id for o in explain(tenant="acme", endpoint=PAY).upcoming] == [row.pk]
    assert explain(tenant="acme", endpoint=GET).upcoming == ()


def test_an_endpoint_that_is_not_registered_has_the_limits_of_star() -> None:
    policy_create(name="protect", endpoint="payments:*", limits=[bucket(500, "backend")], **FORCED)
    explanation = explain(tenant="acme", endpoint="payments:refund")
    assert not explanation.is_registered
    assert [e.effective.limit.name for e in explanation.limits] == ["burst", "minute"]


def test_a_suspended_tenant() -> None:
    tenant_suspend(name="acme", **SAID)
    assert explain(tenant="acme", endpoint=PAY).is_suspended


def test_an_unknown_tenant() -> None:
    with pytest.raises(UnknownTenantError, match="there is no tenant nobody"):
        explain(tenant="nobody", endpoint=PAY)
