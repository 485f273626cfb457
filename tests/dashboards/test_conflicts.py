"""Two people edit one object: the second is told, keeps what was typed, and overwrites nothing unseen."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client

from quotas.endpoints import endpoint_update
from quotas.models import Endpoint
from quotas.policies.edit import limit_set
from quotas.tenants import tenant_update, tier_update
from tenants.models import Tenant, Tier
from tests.access.people import signed_in
from tests.dashboards.world import GET, make_world, page, text_of
from tests.quotas.world import SAID, bucket, limit_of

pytestmark = pytest.mark.django_db

TENANT = {"label": "", "timezone": "UTC", "tags": "", "contacts": "", "tier": "pro", "reason": "agreed"}
ENDPOINT = {"method": "GET", "path": "/rides/{id}", "default_cost": "1", "reason": "agreed"}


@pytest.fixture
def owner(valkey: object) -> Client:
    make_world()
    return signed_in("ann-owner", "owner")


def seen_on(client: Client, address: str) -> dict[str, str]:
    """What the form carries about the values that it showed."""
    found = re.search(r'name="seen" value="([^"]*)"', page(client, address))
    assert found is not None
    return {"seen": html.unescape(found[1])}


def test_what_only_the_other_changed_is_theirs_and_the_edit_is_kept(owner: Client) -> None:
    tenant_update(name="acme", tags=["old"], timezone="UTC", **SAID)
    seen = seen_on(owner, "/tenants/acme/settings")
    tenant_update(name="acme", tags=["new"], **SAID)
    typed = {**TENANT, "label": "Acme Cabs", "tags": "old"}
    answer = owner.post("/tenants/acme/settings", {**typed, **seen})
    text = text_of(answer.content)
    assert answer.status_code == 409
    assert "ann changed this tenant" in text
    assert "Your edit of label is kept." in text
    assert "Their edit of tags is shown now." in text
    assert 'value="Acme Cabs"' in text
    assert 'value="new"' in text
    row = Tenant.objects.get(name="acme")
    assert (row.label, row.tags) == ("", ["new"])
    again = re.search(r'name="seen" value="([^"]*)"', text)
    assert again is not None
    told = {**typed, "tags": "new", "seen": html.unescape(again[1])}
    assert owner.post("/tenants/acme/settings", told).status_code == 302
    row.refresh_from_db()
    assert (row.label, row.tags) == ("Acme Cabs", ["new"])


def test_what_both_changed_is_named_with_the_others_value(owner: Client) -> None:
    seen = seen_on(owner, "/tiers/pro/edit")
    tier_update(name="pro", label="Professional", description="", **SAID)
    answer = owner.post("/tiers/pro/edit", {"label": "Pro plan", "description": "", "reason": "agreed", **seen})
    text = text_of(answer.content)
    assert answer.status_code == 409
    assert "You both changed label; theirs is “Professional”." in text
    assert 'value="Pro plan"' in text
    assert Tier.objects.get(name="pro").label == "Professional"


def test_an_endpoint_is_watched_too(owner: Client) -> None:
    address = f"/endpoints/{GET}/edit"
    row = Endpoint.objects.get(name=GET)
    typed = {**ENDPOINT, "method": row.method, "path": row.path}
    seen = seen_on(owner, address)
    endpoint_update(name=GET, default_cost=3, **SAID)
    answer = owner.post(address, {**typed, "clients": "few", **seen})
    assert answer.status_code == 409
    assert "Their edit of default cost is shown now." in text_of(answer.content)
    assert Endpoint.objects.get(name=GET).default_cost == 3


@pytest.mark.parametrize("spoiled", [{}, {"seen": "[1]"}, {"seen": "{"}])
def test_a_form_that_saw_nothing_saves_as_before(owner: Client, spoiled: dict[str, str]) -> None:
    answer = owner.post("/tenants/acme/settings", {**TENANT, "label": "Acme", **spoiled})
    assert answer.status_code == 302
    assert Tenant.objects.get(name="acme").label == "Acme"


def test_the_same_edit_by_both_is_no_conflict(owner: Client) -> None:
    seen = seen_on(owner, "/tiers/pro/edit")
    tier_update(name="pro", label="Professional", description="", **SAID)
    answer = owner.post("/tiers/pro/edit", {"label": "Professional", "description": "", "reason": "agreed", **seen})
    assert answer.status_code == 302


def test_a_limit_is_watched_too(owner: Client) -> None:
    kinds = {"limit_name": "burst", "algorithm": "token_bucket", "subject": "tenant", "unit": "requests"}
    values = {"p_rate": "100", "p_per": "1s", "p_burst": "250", "mode": "enforce", "on_failure": "open"}
    typed = {"at": "pro/*", "reason": "agreed", **kinds, **values}
    seen = seen_on(owner, "/matrix/cell?at=pro/*")
    limit_set(policy="pro-all", limit={**bucket(150), "burst": 200}, **SAID)
    text = text_of(owner.post("/matrix/publish", {**typed, **seen}).content)
    assert "ann changed this limit" in text
    assert "Your edit of burst is kept." in text
    assert "Their edit of rate is shown now." in text
    assert limit_of("pro-all").parameters["burst"] == 200
    again = re.search(r'name="seen" value="([^"]*)"', text)
    assert again is not None
    told = {**typed, "p_rate": "150", "seen": html.unescape(again[1])}
    assert "Saved as r" in text_of(owner.post("/matrix/publish", told).content)
    assert limit_of("pro-all").parameters == {"rate": 150, "per": "1s", "burst": 250}
