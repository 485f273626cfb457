"""The list of tenants: what it finds, how it is sorted, its views, and its export."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from quotas.models import SavedView
from quotas.tenant_summary import measure_tenants
from tenants.models import Tenant, Tier
from tests.access.people import signed_in
from tests.dashboards.world import counted, drained, make_world, page

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world(valkey: object) -> None:
    make_world()
    drained()
    add("delta-shuttle", label="Delta Shuttle", tier="pro", tags=["airport"], contacts=["ops@delta.example"])


def add(name: str, tier: str = "free", **fields: object) -> Tenant:
    return Tenant.objects.create(name=name, tier=Tier.objects.get(name=tier), **fields)


def many(count: int) -> None:
    tier = Tier.objects.get(name="free")
    Tenant.objects.bulk_create(Tenant(name=f"fleet-{n:03}", tier=tier) for n in range(count))


def names(text: str) -> list[str]:
    return re.findall(r'data-pick="([^"]+)"', text)


def lines(response: Any) -> list[dict[str, str]]:
    content = b"".join(response).decode()
    return list(csv.DictReader(io.StringIO(content)))


def test_the_list_finds_any_part_and_says_how_many(client: Client) -> None:
    text = page(client, "/tenants?q=shuttle")
    assert names(text) == ["delta-shuttle"]
    assert "1 tenant<" in text
    assert names(page(client, "/tenants?q=OPS%40")) == ["delta-shuttle"]
    assert "No matching tenants" in page(client, "/tenants?q=nobody")


def test_old_addresses_still_work(client: Client) -> None:
    add("halted", suspended=True, suspended_reason="unpaid")
    assert names(page(client, "/tenants?q=del&tier=pro")) == ["delta-shuttle"]
    assert names(page(client, "/tenants?only=suspended")) == ["halted"]
    assert "bolt" not in names(page(client, "/tenants?after=bolt"))
    assert names(page(client, "/tenants?only=nothing")) == names(page(client, "/tenants"))


def test_it_is_sorted_by_the_figures_of_the_last_minute(client: Client) -> None:
    counted("acme", "a", 60)
    counted("acme", "d", 40, limit="burst")
    counted("bolt", "a", 500)
    assert "Figures appear within a minute" in page(client, "/tenants")
    measure_tenants(timezone.now())
    text = page(client, "/tenants?order=-asked")
    assert names(text)[:2] == ["bolt", "acme"]
    assert 'aria-sort="descending"' in text
    assert "measured" in text
    assert names(page(client, "/tenants?order=-share"))[0] == "acme"
    assert names(page(client, "/tenants?state=denied")) == ["acme"]
    assert "throttled" in page(client, "/tenants?q=acme")


def test_several_tiers_may_be_chosen_and_the_filters_cleared(client: Client) -> None:
    text = page(client, "/tenants?tier=pro&tier=free")
    assert {"acme", "bolt", "delta-shuttle"} <= set(names(text))
    assert "Tier: free, pro" in text
    assert names(page(client, "/tenants?tier=pro&tag=airport")) == ["delta-shuttle"]
    assert ">Clear</a>" in text


def test_pages_lead_on_and_back(client: Client) -> None:
    many(120)
    first = page(client, "/tenants?q=fleet&order=-name")
    address = re.search(r'href="(\?[^"]+)" rel="next"', first)
    assert address is not None
    second = page(client, f"/tenants{address[1].replace('&amp;', '&')}")
    assert names(first)[-1] == "fleet-070"
    assert names(second)[0] == "fleet-069"
    back = re.search(r'href="(\?[^"]+)" rel="prev"', second)
    assert back is not None
    assert names(page(client, f"/tenants{back[1].replace('&amp;', '&')}")) == names(first)


PARAMETERS = ("q", "tier", "state", "only", "tag", "order", "after", "before", "view", "all")


@pytest.mark.parametrize("value", ["'\"<b>", "1~inf"])
def test_garbage_in_all_parameters_is_shown_as_text_or_ignored(client: Client, value: str) -> None:
    check_garbage(client, dict.fromkeys(PARAMETERS, value))


@pytest.mark.sweep
@pytest.mark.parametrize("value", ["", "'\"<b>", "%25", "-", "~", "-1", "9" * 30, "ü" * 300, "nan~1", "1~inf"])
def test_garbage_in_any_parameter_is_shown_as_text_or_ignored(client: Client, value: str) -> None:
    for name in PARAMETERS:
        check_garbage(client, {name: value})


def check_garbage(client: Client, garbage: dict[str, str]) -> None:
    for address in ("/tenants", "/tenants.csv"):
        response = client.get(address, garbage)
        assert response.status_code == 200, garbage
        assert b"'\"<b>" not in b"".join(response), garbage


def test_the_export_follows_the_filters_and_neutralises_formulas(client: Client) -> None:
    add("evil", label="=HYPERLINK(1)", contacts=["+1@x.example"])
    rows = lines(client.get("/tenants.csv?q=evil"))
    assert [row["name"] for row in rows] == ["evil"]
    assert rows[0]["label"] == "'=HYPERLINK(1)"
    assert rows[0]["contacts"].startswith("'+")
    many(1_100)
    assert len(lines(client.get("/tenants.csv?q=fleet&order=-asked"))) == 1_100


def test_the_export_of_ticked_rows_has_these_alone_also_from_other_pages(client: Client) -> None:
    many(120)
    picked = {"names": ["fleet-003", "fleet-119"]}
    assert [row["name"] for row in lines(client.post("/tenants.csv?q=fleet", picked))] == ["fleet-003", "fleet-119"]
    assert len(lines(client.post("/tenants.csv?q=fleet", {"all": "1"}))) == 120
    assert lines(client.post("/tenants.csv?q=fleet")) == []


def save(client: Client, **fields: str) -> int:
    return client.post("/views/tenants", {"name": "Paying", "query": "tier=pro&order=-asked", **fields}).status_code


def test_a_viewer_saves_a_view_of_their_own_and_nobody_else_sees_it(client: Client) -> None:
    response = client.post("/views/tenants", {"name": "Paying", "query": "order=-asked&tier=pro&after=x&junk=1"})
    view = SavedView.objects.get()
    assert (view.query, view.owner) == ("tier=pro&order=-asked", User.objects.get(username="alice"))
    assert response.headers["HX-Redirect"] == f"/tenants?tier=pro&order=-asked&view={view.pk}"
    text = page(client, f"/tenants?tier=pro&order=-asked&view={view.pk}")
    assert re.search(r'aria-current="page">\s*Paying', text)
    assert "View changed" not in text
    assert "Paying" not in page(signed_in("bob", "owner"), "/tenants")


def test_a_changed_view_offers_to_save_and_to_reset(client: Client) -> None:
    save(client)
    view = SavedView.objects.get()
    text = page(client, f"/tenants?tier=free&view={view.pk}")
    assert "View changed" in text
    assert f"?tier=pro&amp;order=-asked&amp;view={view.pk}" in text
    client.post(f"/views/tenants/{view.pk}", {"query": "tier=free"})
    view.refresh_from_db()
    assert view.query == "tier=free"
    client.post(f"/views/tenants/{view.pk}/delete")
    assert not SavedView.objects.exists()


def test_approvers_share_views_and_owners_tidy_them_up(client: Client) -> None:
    assert save(client, shared="on") == 422
    assert not SavedView.objects.exists()
    assert save(signed_in("ann", "approver"), shared="on") == 200
    shared = SavedView.objects.get()
    assert "Paying" in page(client, "/tenants")
    client.post(f"/views/tenants/{shared.pk}/delete")
    client.post(f"/views/tenants/{shared.pk}", {"query": ""})
    shared.refresh_from_db()
    assert shared.query == "tier=pro&order=-asked"
    assert "Delete view" not in page(client, f"/tenants?view={shared.pk}")
    signed_in("bob", "owner").post(f"/views/tenants/{shared.pk}/delete")
    assert not SavedView.objects.exists()


def test_a_view_without_a_name_or_with_a_taken_one_is_refused_in_the_dialog(client: Client) -> None:
    save(client)
    again = client.post("/views/tenants", {"name": "Paying", "query": ""})
    assert again.status_code == 422
    assert b"choose another name" in again.content
    assert save(client, name=" ") == 422
    assert save(client, name="x" * 61) == 422
    assert save(client, query="q=" + "x" * 2_000) == 422
    assert client.post("/views/nowhere", {"name": "x"}).status_code == 404
    assert client.post("/views/tenants/999/delete").status_code == 302
