"""Limits that adapt, on the pages of their endpoint and of a tenant."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from quotas.models import AdaptiveReading, Endpoint
from quotas.policies.edit import policy_create
from tenants.models import Tenant
from tests.access.people import signed_in
from tests.quotas.world import FORCED, GET, bucket, limit_of, make_world

PARTS = {"floor": "30%", "ceiling": "100%", "slow": "300ms", "errors": "5%"}
PIN = "/policies/backend/limits/backend/pin"


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("olga", "operator")


@pytest.fixture
def reading(db: None) -> AdaptiveReading:
    make_world()
    policy_create(name="backend", endpoint=GET, limits=[bucket(1_000, "backend", adapt=PARTS)], **FORCED)
    return AdaptiveReading.objects.create(
        at=timezone.now(),
        kind="rate",
        policy="backend",
        limit_name="backend",
        endpoint_number=Endpoint.objects.get(name=GET).number,
        tenant_number=0,
        value=420,
        least=300,
        most=1_000,
        reason="cut so that the backend can work off its queue",
    )


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("page", [f"/endpoints/{GET}", "/tenants/acme"])
def test_a_page_shows_value_bounds_reason_and_timeline(operator: Client, page: str) -> None:
    text = operator.get(page).content.decode()
    assert "42 %" in text
    assert "from 30 % to 100 %" in text
    assert "Cut so that the backend can work off its queue." in text
    assert 'id="adaptive-backend-backend-all"' in text
    assert '<input type="hidden" name="at" value="42%">' in text
    assert "Pin at 42 %" in text


@pytest.mark.usefixtures("reading")
def test_another_endpoint_does_not_show_it(operator: Client) -> None:
    assert "Pin at" not in operator.get("/endpoints/payments:charge").content.decode()


@pytest.mark.usefixtures("reading")
def test_one_click_pins_it_and_one_unpins_it(operator: Client) -> None:
    back = f"/endpoints/{GET}"
    assert operator.post(PIN, {"act": "pin", "next": back})["Location"] == back
    assert limit_of("backend", "backend").adapt == {**PARTS, "pin": "42%"}
    assert "Unpin" in operator.get(back).content.decode()
    operator.post(PIN, {"act": "unpin", "next": back})
    assert limit_of("backend", "backend").adapt == PARTS


@pytest.mark.usefixtures("reading")
def test_a_value_outside_of_the_bounds_changes_nothing(operator: Client) -> None:
    operator.post(PIN, {"act": "pin", "at": "5%", "next": "https://elsewhere.test/"})
    assert limit_of("backend", "backend").adapt == PARTS


@pytest.mark.usefixtures("reading")
def test_a_place_to_go_back_to_that_is_no_path_leads_to_the_overview(operator: Client) -> None:
    assert operator.post(PIN, {"act": "unpin", "next": "nowhere"})["Location"] == "/"


@pytest.mark.usefixtures("reading")
def test_a_viewer_sees_no_button(client: Client) -> None:
    assert "Pin at" not in client.get(f"/endpoints/{GET}").content.decode()
    assert client.post(PIN, {"act": "pin"}).status_code == 403


def test_counters_of_one_tenant_are_lines_on_the_page_of_the_endpoint_and_a_chart_on_its_own(operator: Client) -> None:
    make_world()
    slots = {"name": "in-flight", "algorithm": "adaptive_concurrency", "min": 4, "max": 64, "start": 16, "hold": "10s"}
    policy_create(name="slots", tier="pro", endpoint=GET, limits=[{**slots, "target": "calibrated"}], **FORCED)
    for tenant, value in zip(Tenant.objects.order_by("name"), (16, 9), strict=False):
        AdaptiveReading.objects.create(
            at=timezone.now(),
            kind="concurrency",
            policy="slots",
            limit_name="in-flight",
            endpoint_number=Endpoint.objects.get(name=GET).number,
            tenant_number=tenant.number,
            value=value,
            least=4,
            most=64,
            reason="at its start",
        )
    response = operator.get(f"/endpoints/{GET}")
    (table,) = response.context["adaptive_tables"]
    assert [each.value_words for each in table.lowest] == ["9 at once", "16 at once"]
    assert response.context["adaptive"] == []
    assert "from 4 to 64" in response.content.decode()
    assert 'id="adaptive-slots-in-flight-acme"' in operator.get("/tenants/acme").content.decode()
