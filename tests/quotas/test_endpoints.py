from __future__ import annotations

from collections.abc import Callable

import pytest

from quotas.endpoints import endpoint_create, endpoint_delete, endpoint_update
from quotas.errors import Refused
from quotas.models import Endpoint
from quotas.overrides import override_cancel, override_create
from quotas.policies.configuration import configuration_load
from quotas.policies.edit import policy_create, policy_delete
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
