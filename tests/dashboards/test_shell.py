"""What every page has: the menu, the palette, news; and the first steps of an empty installation."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboards.pages import live
from quotas.models import Heartbeat, Limit, Revision
from quotas.own_limits import own_limits_install
from tenants.models import Tenant
from tests.access.people import signed_in
from tests.dashboards.world import PAY, counted, drained, make_world, page, text_of
from tests.quotas.turns import full_queue

pytestmark = pytest.mark.django_db


def test_the_menu_marks_the_page_and_counts_what_there_is(client: Client) -> None:
    make_world()
    text = page(client, "/tenants")
    assert re.search(r'<a href="/tenants" aria-current="page">.*?aria-label="2 tenants">2<', text)


def test_the_palette_finds_tenants_endpoints_policies_and_pages(client: Client) -> None:
    make_world()
    assert 'data-href="/tenants/acme"' in page(client, "/palette?q=ac")
    assert f'data-href="/endpoints/{PAY}"' in page(client, "/palette?q=charge")
    assert 'data-href="/changes?touched=policy:pro-all"' in page(client, "/palette?q=pro")
    assert 'data-href="/changes"' in page(client, "/palette?q=chang")
    assert "No results for “zzz”" in page(client, "/palette?q=zzz")


def test_the_palette_finds_no_more_than_a_few_of_each(client: Client) -> None:
    make_world()
    tier = Tenant.objects.get(name="acme").tier
    Tenant.objects.bulk_create(Tenant(name=f"many-{i:02}", tier=tier) for i in range(20))
    assert page(client, "/palette?q=many").count('role="option"') == 6


@pytest.mark.django_db(transaction=True)
async def test_an_open_page_hears_of_a_drain_and_of_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = iter([1, 1, 2, 2, 3])
    looks = iter(live.PageVersion(None, n, None) for n in marks)
    monkeypatch.setattr(live, "_look_apart", lambda: next(looks, None))
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.0)
    stream = live.events()
    said = [await anext(stream) for _ in range(3)]
    await stream.aclose()  # type: ignore[attr-defined]
    assert said == ["retry: 2000\n\n", "event: fresh\ndata: \n\n", "event: fresh\ndata: \n\n"]


def test_what_is_told_to_open_pages_follows_drains_and_revisions() -> None:
    make_world()
    before = live._look()
    assert before == live._look()
    drained()
    assert live._look() != before


def test_the_first_steps_lead_from_nothing_to_a_limit(valkey: object) -> None:
    own_limits_install("headroom")
    operator = signed_in("olga", "operator")
    assert "Add an endpoint" in page(operator, "/first-run")
    for fields in (
        {"step": "endpoint", "name": "orders:create", "method": "POST", "path": "/v1/orders"},
        {"step": "tenant", "name": "first-tenant", "tier": "free"},
        {"step": "limit", "rate": "2", "burst": "5"},
    ):
        assert operator.post("/first-run", fields).status_code == 302
    assert Limit.objects.get(policy__tier__name="free").parameters == {"rate": 2, "burst": 5, "per": "1s"}
    assert "publishing to Redis" in page(operator, "/first-run")
    newest = Revision.objects.latest("number").number
    Heartbeat.objects.create(name="publisher", at=timezone.now(), detail=str(newest))
    assert "FCALL hr_check 1 hr:{" in page(operator, "/first-run")
    counted("first-tenant", "d", 3, endpoint="orders:create")
    assert "The first 429 was counted." in page(operator, "/first-run")


def test_the_first_steps_skip_no_approval_once_there_are_limits(valkey: object, settings: Any) -> None:
    make_world()
    settings.HEADROOM_FOUR_EYES = True
    written = Revision.objects.count()
    signed_in("olga", "operator").post("/first-run", {"step": "limit", "rate": "1", "burst": "1"})
    assert Revision.objects.count() == written


def test_a_step_that_is_refused_says_why_and_keeps_what_was_typed(valkey: object) -> None:
    operator = signed_in("olga", "operator")
    response = operator.post("/first-run", {"step": "endpoint", "name": "No Good", "method": "GET", "path": "/x"})
    assert response.status_code == 422
    assert 'value="No Good"' in text_of(response.content)
    assert not Revision.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_step_waits_for_its_turn_without_a_transaction(valkey: object, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = signed_in("olga", "operator")
    with full_queue(monkeypatch) as seen:
        fields = {"step": "endpoint", "name": "orders:create", "method": "POST", "path": "/v1/orders"}
        response = operator.post("/first-run", fields)
    assert "another change is being written" in text_of(response.content).lower()
    assert seen == [False]


def test_who_only_looks_is_shown_the_steps_and_no_form(client: Client, valkey: object) -> None:
    assert "Continue" not in page(client, "/first-run")


@pytest.mark.parametrize("path", ["/nothing-here", "/tenants/nobody", "/recommendations/999"])
def test_a_wrong_address_gets_a_page_that_leads_back(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    text = response.content.decode()
    assert "There is nothing at this address" in text
    assert 'href="/"' in text


def test_a_failure_gets_a_page_that_says_where_its_cause_is(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboards.pages.tenants.render", None)
    client.raise_request_exception = False
    response = client.get("/tenants")
    assert response.status_code == 500
    assert "its log has the cause" in response.content.decode()
