from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from quotas.changes.undo import revision_revert
from quotas.endpoint_use import endpoint_use
from quotas.endpoints import endpoint_create, endpoint_delete, endpoint_update
from quotas.errors import Refused
from quotas.models import Endpoint
from quotas.overrides import override_cancel, override_create
from quotas.policies.configuration import configuration_load
from quotas.policies.edit import policy_create, policy_delete
from tests.dashboards.world import counted
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket, newest, waiting

pytestmark = pytest.mark.usefixtures("world")


def test_it_is_created() -> None:
    endpoint_create(name="fares:quote", method="POST", path="/v1/quotes", hints={"bursty": True}, **SAID)
    state = {"method": "POST", "path": "/v1/quotes", "default_cost": 1, "hints": {"bursty": True}}
    assert newest().after == {"endpoint:fares:quote": state}
    assert waiting() == ["common"]


def test_updating_changes_only_what_is_given() -> None:
    endpoint_update(name=PAY, default_cost=3, **FORCED)
    endpoint = Endpoint.objects.get(name=PAY)
    assert (endpoint.default_cost, endpoint.path) == (3, "/v1/charges")


def test_deleted_and_created_again_it_has_its_old_number() -> None:
    number = Endpoint.objects.get(name=PAY).number
    endpoint_delete(name=PAY, **FORCED)
    assert PAY not in configuration_load().endpoints
    assert endpoint_create(name="fares:quote", **SAID).number not in (number, None)
    assert endpoint_create(name=PAY, **SAID).number == number


def test_a_route_is_free_again_when_its_endpoint_is_gone() -> None:
    endpoint_delete(name=PAY, **FORCED)
    endpoint_create(name="payments:pay", method="POST", path="/v1/charges", **SAID)
    with pytest.raises(Refused, match="is already the route of payments:pay"):
        endpoint_create(name=PAY, method="POST", path="/v1/charges", **SAID)


def test_with_limits_it_cannot_be_deleted() -> None:
    policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(1)], **FORCED)
    with pytest.raises(Refused, match="has limits in pro-pay; delete those policies first"):
        endpoint_delete(name=PAY, **FORCED)
    policy_delete(name="pro-pay", **FORCED)
    endpoint_delete(name=PAY, **FORCED)


def test_with_an_override_it_cannot_be_deleted() -> None:
    override = override_create(tenant="acme", endpoint=PAY, limits={"burst": {"rate": 1}}, **FORCED)
    with pytest.raises(Refused, match=f"has override {override.pk} of acme; cancel it first"):
        endpoint_delete(name=PAY, **FORCED)
    override_cancel(override=override.pk, **FORCED)
    endpoint_delete(name=PAY, **FORCED)
    assert configuration_load().overrides == ()


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: endpoint_create(name="quote", **SAID), "write service:operation"),
    (lambda: endpoint_create(name=GET, **SAID), f"endpoint {GET} already exists"),
    (lambda: endpoint_create(name="a:b", method="FETCH", **SAID), "method cannot be 'FETCH'"),
    (lambda: endpoint_create(name="a:b", path="v1", **SAID), "path must start with /"),
    (
        lambda: endpoint_create(name="a:b", method="GET", path="/v1/rides/{ride}", **SAID),
        f"is already the route of {GET}",
    ),
    (lambda: endpoint_create(name="a:b", default_cost=0, **SAID), "default_cost must be a whole number"),
    (lambda: endpoint_update(name="a:b", default_cost=2, **FORCED), "there is no endpoint a:b"),
    (lambda: endpoint_update(name=GET, colour="red", **FORCED), "colour is not a field of an endpoint"),
    (lambda: endpoint_delete(name="a:b", **FORCED), "there is no endpoint a:b"),
]


@pytest.mark.parametrize(("attempt", "sentence"), REFUSALS)
def test_a_refusal_says_why_and_leaves_nothing_behind(attempt: Callable[[], object], sentence: str) -> None:
    before = newest().number, list(Endpoint.objects.values())
    with pytest.raises(Refused) as refused:
        attempt()
    assert sentence in str(refused.value)
    assert before == (newest().number, list(Endpoint.objects.values()))


class TestRetiredWithItsLimits:
    def test_policies_go_and_overrides_end_in_one_revision_and_come_back_together(self) -> None:
        policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(1000)], **FORCED)
        policy_create(name="acme-pay", tenant="acme", endpoint=PAY, limits=[bucket(2000)], **FORCED)
        override_create(tenant="bolt", endpoint=PAY, limits={"burst": {"rate": 5, "burst": 10}}, **FORCED)
        before = configuration_load()
        endpoint_delete(name=PAY, with_limits=True, **FORCED)
        after = configuration_load()
        assert PAY not in after.endpoints
        assert {policy.name for policy in after.policies} == {"free-all", "pro-all"}
        assert after.overrides == ()
        assert newest().action == "endpoint_delete"
        revision_revert(number=newest().number, **FORCED)
        again = configuration_load()
        assert again.endpoints[PAY] == before.endpoints[PAY]
        assert {policy.name for policy in again.policies} == {policy.name for policy in before.policies}
        assert [(one.tenant, one.endpoint, one.limits) for one in again.overrides] == [
            (one.tenant, one.endpoint, one.limits) for one in before.overrides
        ]

    def test_a_cut_still_needs_force(self) -> None:
        policy_create(name="free-pay", tier="free", endpoint=PAY, limits=[bucket(1000)], **FORCED)
        with pytest.raises(Refused, match="burst"):
            endpoint_delete(name=PAY, with_limits=True, **SAID)
        assert Endpoint.objects.get(name=PAY).retired is False

    def test_what_counts_on_it_is_known_before(self) -> None:
        policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(1000)], **FORCED)
        override_create(tenant="bolt", endpoint=PAY, limits={"burst": {"rate": 5, "burst": 10}}, **FORCED)
        counted("acme", "a", 50)
        counted("acme", "d", 5, limit="burst")
        use = endpoint_use(Endpoint.objects.get(name=PAY), timezone.now())
        assert ([policy.name for policy in use.policies], use.limits) == (["pro-pay"], 1)
        assert [override.tenant.name for override in use.overrides] == ["bolt"]
        assert (use.asked, use.denied, use.tenants, use.busiest) == (55, 5, 1, "acme")
