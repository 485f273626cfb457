"""Tiers: the list, one tier, new ones, and retiring with a place for every tenant."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.test import Client

from dashboards.pages.changes.summary import summary_of
from quotas.changes.undo import revision_revert
from quotas.models import Policy
from quotas.tenants import NewTenant, tenants_create, tier_create, tier_update
from tenants.models import Tenant, Tier
from tests.access.people import signed_in
from tests.dashboards.world import make_world, page, text_of
from tests.quotas.world import FORCED, SAID, newest

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner(valkey: object) -> Client:
    make_world()
    return signed_in("ann-owner", "owner")


class TestTheList:
    def test_each_tier_has_its_tenants_limits_and_what_it_may_ask(self, owner: Client) -> None:
        tier_update(name="pro", label="Professional", description="fleets", **SAID)
        text = page(owner, "/tiers")
        assert "Professional" in text
        assert "/tenants?tier=pro" in text
        assert "10/s burst 20" in text
        assert "No limit for everyone bounds that." in text

    @pytest.mark.parametrize("order", ["-name", "tenants", "-limits", "may", "-asked", "share", "nonsense"])
    def test_it_is_sorted_by_every_column(self, owner: Client, order: str) -> None:
        page(owner, f"/tiers?order={order}")

    def test_it_is_searched(self, owner: Client) -> None:
        assert 'href="/tiers/pro"' not in page(owner, "/tiers?q=free")
        assert "No tier matches" in page(owner, "/tiers?q=nothing")

    def test_the_csv_has_the_same(self, owner: Client) -> None:
        response = owner.get("/tiers.csv")
        rows = list(csv.DictReader(io.StringIO(b"".join(response).decode())))
        assert [(row["tier"], row["tenants"], row["limits"]) for row in rows] == [("free", "1", "1"), ("pro", "1", "2")]

    def test_a_viewer_cannot_change_anything(self, owner: Client) -> None:
        viewer = signed_in("vera", "viewer")
        assert "New tier" not in page(viewer, "/tiers")
        assert "Retire" not in page(viewer, "/tiers/pro")
        assert viewer.get("/new/tier").status_code == 403


class TestTheForm:
    def test_a_tier_is_created(self, owner: Client) -> None:
        fields = {"name": "gold", "label": "Gold", "description": "the best", "reason": "new plan"}
        assert owner.post("/new/tier", fields)["Location"] == "/tiers/gold"
        row = Tier.objects.get(name="gold")
        assert (row.label, row.description) == ("Gold", "the best")

    def test_duplicating_fills_the_form_and_copies_the_limits(self, owner: Client) -> None:
        assert '<option value="pro" selected>' in page(owner, "/new/tier?source=pro")
        owner.post("/new/tier", {"name": "gold", "source": "pro", "reason": "new plan"})
        assert Policy.objects.get(tier__name="gold").name == "gold-all"
        assert summary_of(newest()).title == "New tier gold"

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"name": "pro"}, "Tier pro already exists"),
            ({"name": "Not Good"}, "name"),
            ({"name": ""}, "Enter a name."),
            ({"reason": ""}, "Enter a reason."),
            ({"source": "nothing"}, "Select a valid choice"),
        ],
    )
    def test_a_refusal_keeps_what_was_typed(self, owner: Client, fields: dict[str, str], said: str) -> None:
        response = owner.post("/new/tier", {"name": "gold", "label": "Kept", "reason": "r", **fields})
        text = text_of(response.content)
        assert (response.status_code, said in text, 'value="Kept"' in text) == (422, True, True)

    def test_a_name_that_cannot_be_is_refused_at_the_name(self, owner: Client) -> None:
        text = text_of(owner.post("/new/tier", {"name": "Gold", "reason": "r"}).content)
        assert re.search(r'id="[a-z_]*name_error"[^>]*>.{0,120}Tier cannot be', text)

    def test_label_and_description_are_edited(self, owner: Client) -> None:
        assert owner.post("/tiers/pro/edit", {"label": "Professional", "reason": "r"}).status_code == 302
        assert Tier.objects.get(name="pro").label == "Professional"
        assert 'value="Professional"' in page(owner, "/tiers/pro/edit")

    def test_its_priority_is_lowered_and_copied(self, owner: Client) -> None:
        assert owner.post("/tiers/pro/edit", {"priority": "high", "reason": "r"}).status_code == 302
        assert "at most high priority" in page(owner, "/tiers/pro")
        assert '<option value="high" selected>' in page(owner, "/tiers/pro/edit")
        owner.post("/new/tier", {"name": "gold", "source": "pro", "reason": "r"})
        owner.post("/new/tier", {"name": "iron", "priority": "sheddable", "reason": "r"})
        assert [Tier.objects.get(name=name).priority for name in ("gold", "iron")] == ["high", "sheddable"]
        owner.post("/tiers/pro/edit", {"priority": "", "reason": "r"})
        assert Tier.objects.get(name="pro").priority == ""
        assert owner.post("/tiers/pro/edit", {"priority": "urgent", "reason": "r"}).status_code == 422


class TestTheTier:
    def test_it_has_its_limits_and_tenants(self, owner: Client) -> None:
        text = page(owner, "/tiers/pro")
        assert "/matrix?at=pro/%2A&amp;limit=burst" in text
        assert 'href="/tenants/acme"' in text

    def test_one_that_is_not_there_or_retired_is_not_found(self, owner: Client) -> None:
        for path in ("/tiers/gold", "/tiers/gold/edit", "/tiers/gold/move", "/tiers/gold/retire"):
            assert owner.get(path).status_code == 404


class TestRetiring:
    def test_it_says_who_needs_a_place_and_what_each_loses(self, owner: Client) -> None:
        assert "1 tenant needs another tier first." in page(owner, "/tiers/pro/retire")
        text = text_of(owner.post("/tiers/pro/retire", {"to": "free"}).content)
        assert "1 of 1 gets tighter." in text
        assert "acme" in text
        text = text_of(owner.post("/tiers/free/retire", {"to": "pro"}).content)
        assert 'name="to-bolt"' in text

    def test_without_a_place_it_is_refused(self, owner: Client) -> None:
        response = owner.post("/tiers/pro/retire", {"do": "apply", "reason": "old"})
        assert (response.status_code, "needs another tier" in text_of(response.content)) == (422, True)

    def test_a_cut_has_to_be_accepted_and_everything_can_be_undone(self, owner: Client) -> None:
        fields = {"do": "apply", "to": "free", "reason": "old"}
        refused = owner.post("/tiers/pro/retire", fields)
        assert (refused.status_code, "I have reviewed" in text_of(refused.content)) == (422, True)
        done = owner.post("/tiers/pro/retire", {**fields, "force": "on"})
        assert done["HX-Redirect"] == "/tiers"
        assert Tier.objects.get(name="pro").retired
        assert owner.get("/tiers/pro").status_code == 404
        revision_revert(number=newest().number, **FORCED)
        assert Tenant.objects.get(name="acme").tier.name == "pro"

    def test_each_tenant_may_go_elsewhere(self, owner: Client) -> None:
        tier_create(name="gold", **SAID)
        tenants_create(tenants=[NewTenant("cabs", "pro")], **SAID)
        fields = {"do": "apply", "to": "free", "to-cabs": "gold", "reason": "old", "force": "on"}
        owner.post("/tiers/pro/retire", fields)
        tiers = dict(Tenant.objects.values_list("name", "tier__name"))
        assert (tiers["acme"], tiers["cabs"]) == ("free", "gold")

    def test_all_tenants_are_moved_without_retiring_it(self, owner: Client) -> None:
        page(owner, "/tiers/free/move")
        done = owner.post("/tiers/free/move", {"do": "apply", "to": "pro", "reason": "merge"})
        assert done["HX-Redirect"] == "/tiers/free"
        assert Tenant.objects.get(name="bolt").tier.name == "pro"
        assert not Tier.objects.get(name="free").retired

    @pytest.mark.parametrize("to", ["", "pro", "gold", "headroom"])
    def test_a_place_that_is_none_is_refused(self, owner: Client, to: str) -> None:
        response = owner.post("/tiers/pro/retire", {"do": "apply", "to": to, "reason": "r"})
        assert response.status_code == 422
        assert owner.post("/tiers/pro/retire", {"to": to}).status_code == 200
