from __future__ import annotations

import pytest

from quotas.changes.emergency import declare, emergencies_open
from tests.access.people import person, signed_in
from tests.quotas.world import make_world

pytestmark = pytest.mark.usefixtures("db", "valkey")


def test_the_banner_leads_to_what_has_to_be_looked_at() -> None:
    make_world()
    person("ann", "owner")
    places = {
        "revision 1": "/changes?revision=1#detail",
        "change 7": "/changes?change=7#detail",
        "bypass of tenant acme": "/changes#bypass",
    }
    for what in places:
        declare(action="limit_set", author="ann", reason="it burns", what=what)
    text = signed_in("bob", "operator").get("/changes").content.decode()
    for what, place in places.items():
        assert f'href="{place}">See {what}</a>' in text


def test_the_banner_stays_until_somebody_else_has_looked() -> None:
    make_world()
    person("ann", "owner")
    row = declare(action="limit_set", author="ann", reason="it burns", what="revision 12")
    ann, bob = signed_in("ann", "owner"), signed_in("bob", "operator")
    for path in ("/", "/changes"):
        assert "Somebody else has to look at it" in ann.get(path).content.decode()
        assert "I have looked at it" in bob.get(path).content.decode()
        assert "I have looked at it" not in signed_in("vera", "viewer").get(path).content.decode()
    assert "somebody else has to look at it" in ann.post(f"/emergencies/{row.pk}/review", follow=True).content.decode()
    assert emergencies_open().exists()
    bob.post(f"/emergencies/{row.pk}/review")
    assert not emergencies_open().exists()
    assert "it burns" not in bob.get("/changes").content.decode()
