"""New tenants, their settings, the archive, many at once, and imports: what the pages show and do."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from dashboards.pages import tenant_bulk, tenant_import
from quotas.api_keys import api_key_issue
from quotas.models import Change, Revision, Task
from quotas.overrides import override_create
from quotas.tenants import NewTenant, tenant_archive, tenants_create, tenants_tag
from tenants.models import ApiKey, Tenant
from tests.access.people import signed_in
from tests.dashboards.world import drained, make_world
from tests.quotas.world import SAID, newest

pytestmark = pytest.mark.django_db
PART = {"HX-Request": "true"}


def said(response: Any) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


@pytest.fixture(autouse=True)
def world(valkey: object) -> None:
    make_world()
    drained()


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("olga", "operator")


class TestNew:
    def test_a_label_a_tier_and_a_key_with_one_field_typed(self, operator: Client) -> None:
        response = operator.post(
            "/tenants/new", {"label": "Cedar Coaches", "tier": "pro", "timezone": "UTC", "key": "on"}, headers=PART
        )
        assert response.status_code == 200
        row = Tenant.objects.get(name="cedar-coaches")
        assert (row.label, row.tier.name, newest().reason) == ("Cedar Coaches", "pro", "Created tenant cedar-coaches.")
        key = ApiKey.objects.get(tenant=row)
        assert key.key_id in said(response)
        assert "curl -s" in said(response)

    def test_without_a_script_it_is_a_page(self, operator: Client) -> None:
        assert "<html" in said(operator.get("/tenants/new"))
        assert "<html" not in said(operator.get("/tenants/new", headers=PART))

    def test_the_largest_tier_is_proposed(self, operator: Client) -> None:
        tenants_create(tenants=[NewTenant(f"t{n}", "pro") for n in range(5)], **SAID)
        assert re.search(r'<option value="pro" selected>', said(operator.get("/tenants/new")))

    def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(self, operator: Client) -> None:
        typed = {"label": "Acme", "name": "acme", "tier": "pro", "timezone": "Mars/Base", "contacts": "nobody"}
        response = operator.post("/tenants/new", typed, headers=PART)
        text = said(response)
        assert response.status_code == 422
        assert "is not a mail address" in text
        assert 'value="acme"' in text
        typed |= {"contacts": "", "timezone": "UTC"}
        assert "Tenant acme already exists; choose another name." in said(operator.post("/tenants/new", typed))
        assert Revision.objects.filter(action="tenant_create").count() == 1

    def test_without_a_key_it_says_so(self, operator: Client) -> None:
        response = operator.post("/tenants/new", {"name": "quiet", "tier": "pro", "timezone": "UTC"})
        assert "It has no key yet." in said(response)
        assert not ApiKey.objects.exists()

    def test_a_viewer_may_not(self, client: Client) -> None:
        assert client.get("/tenants/new").status_code == 403
        assert "New tenant" not in said(client.get("/tenants"))


def settings_of(row: Tenant, **more: str) -> dict[str, str]:
    contacts = "\n".join(row.contacts)
    fields = {"label": row.label, "timezone": row.timezone, "tags": " ".join(row.tags), "contacts": contacts}
    fields["priority"] = row.priority
    return {**fields, "tier": row.tier.name, "reason": "because", **more}


class TestSettings:
    def test_label_zone_tags_and_contacts_are_saved_in_one_revision(self, operator: Client) -> None:
        before = newest().number
        typed = settings_of(
            Tenant.objects.get(name="acme"), label="Acme Inc.", tags="vip eu", contacts="a@b.test c@d.test"
        )
        assert operator.post("/tenants/acme/settings", typed).status_code == 302
        row = Tenant.objects.get(name="acme")
        assert (row.label, row.tags, row.contacts) == ("Acme Inc.", ["eu", "vip"], ["a@b.test", "c@d.test"])
        assert newest().number == before + 1
        operator.post("/tenants/acme/settings", settings_of(row))
        assert newest().number == before + 1

    def test_its_highest_priority_is_saved_and_shown(self, operator: Client) -> None:
        typed = settings_of(Tenant.objects.get(name="acme"), priority="sheddable")
        assert operator.post("/tenants/acme/settings", typed).status_code == 302
        assert Tenant.objects.get(name="acme").priority == "sheddable"
        assert '<option value="sheddable" selected>' in said(operator.get("/tenants/acme/settings"))
        assert "at most sheddable priority" in said(operator.get("/tenants/acme"))
        refused = operator.post("/tenants/acme/settings", {**typed, "priority": "urgent"})
        assert refused.status_code == 422

    def test_picking_a_tier_shows_what_changes_and_saves_nothing(self, operator: Client) -> None:
        text = said(operator.get("/tenants/acme/settings/move?tier=free", headers=PART))
        assert "100/s burst 200" in text
        assert "tighter" in text
        assert Tenant.objects.get(name="acme").tier.name == "pro"

    def test_a_tighter_tier_has_to_be_confirmed(self, operator: Client) -> None:
        row = Tenant.objects.get(name="acme")
        refused = operator.post("/tenants/acme/settings", settings_of(row, tier="free", label="Acme"))
        assert refused.status_code == 422
        assert "Move it although limits get tighter" in said(refused)
        row.refresh_from_db()
        assert (row.tier.name, row.label) == ("pro", "")
        operator.post("/tenants/acme/settings", settings_of(row, tier="free", label="Acme", force="on"))
        row = Tenant.objects.get(name="acme")
        assert (row.tier.name, row.label) == ("free", "Acme")

    def test_an_override_in_the_way_of_another_tier_has_to_be_ended(self, operator: Client) -> None:
        override = override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **SAID)
        assert "End it with the move" in said(operator.get("/tenants/acme/settings/move?tier=free", headers=PART))
        typed = settings_of(Tenant.objects.get(name="acme"), tier="free", force="on")
        refused = operator.post("/tenants/acme/settings", typed)
        assert refused.status_code == 422
        assert f"override {override.pk} of acme (minute on *)" in said(refused)
        operator.post("/tenants/acme/settings", {**typed, "stranded_overrides": "end"})
        assert Tenant.objects.get(name="acme").tier.name == "free"

    def test_under_four_eyes_the_move_waits_and_the_rest_is_saved(self, operator: Client, settings: Settings) -> None:
        settings.HEADROOM_FOUR_EYES = True
        row = Tenant.objects.get(name="bolt")
        operator.post("/tenants/bolt/settings", settings_of(row, tier="pro", label="Bolt", force="on"))
        row.refresh_from_db()
        assert (row.tier.name, row.label, Change.objects.count()) == ("free", "Bolt", 1)

    def test_a_missing_reason_keeps_what_was_typed(self, operator: Client) -> None:
        typed = settings_of(Tenant.objects.get(name="acme"), label="Typed", reason="")
        response = operator.post("/tenants/acme/settings", typed)
        assert response.status_code == 422
        assert 'value="Typed"' in said(response)
        assert "Enter a reason." in said(response)

    def test_a_viewer_sees_it_but_has_nothing_to_press(self, client: Client) -> None:
        text = said(client.get("/tenants/acme/settings"))
        assert "Save changes" not in text
        assert "Archive…" not in text
        assert client.post("/tenants/acme/settings", {}).status_code == 403


class TestArchive:
    def test_it_asks_for_the_name_and_says_what_stops(self, operator: Client) -> None:
        api_key_issue(tenant="acme", **SAID)
        assert "Its 1 key is revoked" in said(operator.get("/tenants/acme/settings"))
        wrong = operator.post("/tenants/acme/archive", {"name": "acmee", "reason": "left"})
        assert wrong.status_code == 422
        assert "Type acme to confirm." in said(wrong)
        right = operator.post("/tenants/acme/archive", {"name": "acme", "reason": "left"})
        assert right.headers["HX-Redirect"] == "/tenants/acme/settings"
        assert Tenant.objects.get(name="acme").archived_at is not None

    def test_its_page_says_so_and_offers_to_restore_it(self, operator: Client) -> None:
        tenant_archive(name="acme", author="ann", reason="contract ended")
        for address in ("/tenants/acme", "/tenants/acme/settings"):
            text = said(operator.get(address))
            assert "contract ended" in text
            assert "Restore" in text
            assert "Add override" not in text
        assert "acme" not in said(operator.get("/tenants")).partition('id="list"')[2].partition("</section>")[0]

    def test_restored_with_a_new_key(self, operator: Client) -> None:
        old = api_key_issue(tenant="acme", **SAID).row
        tenant_archive(name="acme", **SAID)
        response = operator.post("/tenants/acme/restore", {"reason": "back again", "key": "on"})
        assert "Copy the key now." in said(response)
        live = ApiKey.objects.get(revoked_at=None)
        assert live.pk != old.pk
        assert Tenant.objects.get(name="acme").archived_at is None

    def test_the_stand_in_cannot_be_archived_and_the_page_says_why(self, operator: Client, settings: Settings) -> None:
        settings.HEADROOM_UNKNOWN_TENANT = "bolt"
        text = said(operator.get("/tenants/bolt/settings"))
        assert "stands in for unknown tenants" in text
        assert "Archive…" not in text


class TestBulk:
    def test_a_move_shows_who_gets_tighter_before_the_button_is_on(self, operator: Client) -> None:
        first = said(operator.post("/tenants/bulk/move", {"names": ["acme", "bolt"]}, headers=PART))
        assert re.search(r'value="apply" disabled>Move 2 tenants', first)
        picked = {"chosen": "acme bolt", "tier": "free"}
        second = said(operator.post("/tenants/bulk/move", picked, headers=PART))
        assert "1 is on free already." in second
        assert "1 of 1 gets a tighter or an additional limit" in second
        done = {**picked, "do": "apply", "reason": "because"}
        assert operator.post("/tenants/bulk/move", done, headers=PART).status_code == 422
        assert Tenant.objects.get(name="acme").tier.name == "pro"
        moved = operator.post("/tenants/bulk/move?tier=pro", {**done, "force": "on"}, headers=PART)
        assert moved.headers["HX-Redirect"] == "/tenants?tier=pro"
        assert Tenant.objects.get(name="acme").tier.name == "free"

    def test_overrides_in_the_way_of_a_move_are_named_with_a_choice(self, operator: Client) -> None:
        override = override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **SAID)
        picked = {"chosen": "acme", "tier": "free", "reason": "because", "force": "on"}
        text = said(operator.post("/tenants/bulk/move", picked, headers=PART))
        assert "1 override would change nothing on free, which lacks the limit" in text
        assert f"override {override.pk}: minute on *" in text
        refused = operator.post("/tenants/bulk/move", {**picked, "do": "apply"}, headers=PART)
        assert refused.status_code == 422
        assert "or leave its tenant out" in said(refused)
        stay = said(operator.post("/tenants/bulk/move", {**picked, "stranded_overrides": "leave_out"}, headers=PART))
        assert "Move 0 tenants" in stay
        operator.post("/tenants/bulk/move", {**picked, "do": "apply", "stranded_overrides": "end"}, headers=PART)
        assert newest().touched == [f"override:{override.pk}", "tenant:acme"]

    def test_all_that_match_are_those_of_the_lists_query(self, operator: Client) -> None:
        tenants_create(tenants=[NewTenant(f"t{n}", "free") for n in range(30)], **SAID)
        tenants_tag(names=["t1", "t2"], add=["eu"], **SAID)
        tenant_archive(name="t2", **SAID)
        for query, count in (("q=t&tier=free", 30), ("tag=eu", 1), ("state=archived", 1), ("q=T2", 10), ("", 31)):
            text = said(operator.post(f"/tenants/bulk/suspend?{query}", {"all": "1"}, headers=PART))
            assert f"Suspend {count} tenant" in text, query

    def test_many_are_suspended_resumed_and_tagged(self, operator: Client) -> None:
        both = {"chosen": "acme bolt", "do": "apply", "reason": "because"}
        operator.post("/tenants/bulk/suspend", both, headers=PART)
        assert Tenant.objects.filter(suspended=True).count() == 2
        operator.post("/tenants/bulk/resume", both, headers=PART)
        assert not Tenant.objects.filter(suspended=True).exists()
        operator.post("/tenants/bulk/tag", {**both, "reason": "", "add": "eu vip"}, headers=PART)
        assert list(Tenant.objects.filter(tags=["eu", "vip"]).values_list("name", flat=True)) == ["acme", "bolt"]
        assert newest().reason == "Tagged 2 tenants."

    def test_a_refusal_stands_in_the_dialog(self, operator: Client) -> None:
        response = operator.post("/tenants/bulk/tag", {"chosen": "acme", "do": "apply"}, headers=PART)
        assert response.status_code == 422
        assert "No tag is given" in said(response)

    def test_without_a_script_it_is_a_page(self, operator: Client) -> None:
        assert "<html" in said(operator.post("/tenants/bulk/suspend", {"names": ["acme"]}))
        done = operator.post("/tenants/bulk/suspend", {"chosen": "acme", "do": "apply", "reason": "because"})
        assert (done.status_code, done.headers["Location"]) == (302, "/tenants")

    def test_more_than_can_be_changed_at_once_are_not_given_a_number(
        self, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tenant_bulk, "MOST_AT_ONCE", 1)
        text = said(operator.post("/tenants/bulk/suspend", {"all": "1"}, headers=PART))
        assert "Suspend more than 1 tenants" in text

    def test_an_unknown_action_is_not_found(self, operator: Client) -> None:
        assert operator.post("/tenants/bulk/delete", {"names": ["acme"]}).status_code == 404


class TestImport:
    TABLE = "name,tier,label\ncity,pro,City Cabs\nmoor,free,\n"

    def test_a_check_shows_what_would_be_created_and_creates_nothing(self, operator: Client) -> None:
        text = said(operator.post("/tenants/import", {"pasted": self.TABLE, "do": "check"}))
        assert "Create 2 tenants" in text
        assert "1 on free, 1 on pro" in text
        assert not Tenant.objects.filter(name="city").exists()

    def test_problems_have_their_lines(self, operator: Client) -> None:
        response = operator.post("/tenants/import", {"pasted": f"{self.TABLE}acme,pro,\n", "do": "check"})
        assert response.status_code == 422
        assert re.search(r"<b>Line 4\.</b>\s*Tenant acme already exists", said(response))

    def test_it_creates_them_in_one_revision(self, operator: Client) -> None:
        before = newest().number
        assert operator.post("/tenants/import", {"text": self.TABLE, "do": "create"}).status_code == 302
        assert (newest().number, newest().reason) == (before + 1, "Imported 2 tenants.")

    def test_a_long_one_is_a_task_that_can_be_left_and_found_again(
        self, operator: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tenant_import, "LARGE", 1)
        monkeypatch.setattr(tenant_import, "_send", lambda task: None)
        done = operator.post("/tenants/import", {"text": self.TABLE, "do": "create"})
        task = Task.objects.get(asked__action="import")
        assert done.headers["Location"] == f"/tenants/import/{task.pk}"
        assert "Waiting for a worker" in said(operator.get(f"/tenants/import/{task.pk}"))
        assert f"/tenants/import/{task.pk}" in said(operator.get("/tenants/import"))
        assert signed_in("otto", "operator").get(f"/tenants/import/{task.pk}").status_code == 404
