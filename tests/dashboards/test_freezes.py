from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from quotas.changes.freeze import freeze_set
from quotas.models import Freeze, Revision
from tests.access.people import signed_in
from tests.quotas.world import make_world

pytestmark = pytest.mark.usefixtures("db", "valkey")


def test_an_approver_sets_and_lifts_one_on_the_settings_page() -> None:
    make_world()
    eve, otto = signed_in("eve", "approver"), signed_in("otto", "operator")
    until = timezone.now() + timedelta(days=1)
    asked = {"end": f"{until:%Y-%m-%dT%H:%M}", "zone": "UTC", "roles": ["owner"], "members": "otto", "reason": "launch"}
    assert otto.post("/settings/freezes", asked).status_code == 403
    wrong = eve.post("/settings/freezes", asked | {"members": "nobody"})
    assert (wrong.status_code, "There is no account nobody; correct the name." in wrong.content.decode()) == (422, True)
    assert eve.post("/settings/freezes", asked).status_code == 302
    row = Freeze.objects.get()
    assert (row.roles, row.author) == (["owner"], "eve")
    shown = eve.get("/settings").content.decode()
    assert "the role owner, otto" in shown
    assert f"/settings/freezes/{row.pk}/lift" in shown
    eve.post(f"/settings/freezes/{row.pk}/lift")
    row.refresh_from_db()
    assert row.lifted_author == "eve"
    again = eve.post(f"/settings/freezes/{row.pk}/lift", follow=True).content.decode()
    assert f"No changes|Freeze {row.pk} has already been lifted; there is nothing to lift." in again


def test_every_page_says_so_and_forms_say_it_before_they_are_sent() -> None:
    make_world()
    otto, bob = signed_in("otto", "operator"), signed_in("bob", "owner")
    freeze_set(end=timezone.now() + timedelta(hours=1), author="eve", reason="launch week", roles=["owner"])
    for path in ("/", "/changes", "/matrix", "/tenants", "/settings"):
        text = otto.get(path).content.decode()
        assert "You can look, dry-run, and save drafts in the <a" in text, path
        assert "May pass: the role owner." in text, path
        assert "You may pass; the audit records it." in bob.get(path).content.decode(), path
    number = Revision.objects.latest("number").number
    assert "This is refused until then" in otto.get(f"/changes/{number}/undo/revert").content.decode()
    assert "This is refused until then" in otto.get("/tenants/acme/override").content.decode()
    refused = otto.post(f"/changes/{number}/undo/revert", {"reason": "x"})
    assert (refused.status_code, "frozen until" in refused.content.decode()) == (422, True)
    assert Revision.objects.count() == number


def test_a_refused_form_says_it_once_in_one_format_and_what_to_do_there() -> None:
    make_world()
    otto = signed_in("otto", "operator")
    freeze = freeze_set(end=timezone.now() + timedelta(hours=1), author="eve", reason="launch week", roles=["owner"])
    asked = {"place": "*|burst", "main": "150", "size": "300", "reason": "a festival"}
    refused = otto.post("/tenants/acme/override/give", asked)
    text = refused.content.decode()
    assert (refused.status_code, text.count("frozen until"), "Nothing was saved." in text) == (422, 1, True)
    assert f"{freeze.end:%Y-%m-%d %H:%M}" not in text
    assert "propose it as a change" not in text
    assert "Wait, or ask somebody to do it for you. May pass: the role owner." in text
