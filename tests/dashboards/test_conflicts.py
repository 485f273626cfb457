"""Two people edit one object: the second is told, keeps what was typed, and overwrites nothing unseen."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import partial

import pytest
from django.test import Client

from quotas.endpoints import endpoint_update
from quotas.models import Endpoint, Limit, Revision
from quotas.policies.edit import limit_set
from quotas.tenants import tenant_update, tier_update
from tenants.models import Tenant, Tier
from tests.access.people import signed_in
from tests.dashboards.world import GET, make_world, page, text_of
from tests.quotas.turns import at_once
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


KINDS = {"limit_name": "burst", "algorithm": "token_bucket", "subject": "tenant", "unit": "requests"}
VALUES = {"p_rate": "100", "p_per": "1s", "p_burst": "250", "mode": "enforce", "on_failure": "open"}
LIMIT = {"at": "pro/*", "reason": "agreed", **KINDS, **VALUES}


def test_a_limit_is_watched_too(owner: Client) -> None:
    typed = LIMIT
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


RACES: Mapping[str, tuple[str, Mapping[str, str], Mapping[str, str], Mapping[str, str]]] = {
    "/tenants/acme/settings": ("/tenants/acme/settings", TENANT, {"label": "First"}, {"label": "Second"}),
    "/tiers/pro/edit": (
        "/tiers/pro/edit",
        {"label": "", "description": "", "reason": "agreed"},
        {"label": "First"},
        {"description": "Second"},
    ),
    f"/endpoints/{GET}/edit": (
        f"/endpoints/{GET}/edit",
        {**ENDPOINT, "path": "/v1/rides/{id}"},
        {"default_cost": "3"},
        {"clients": "few"},
    ),
    "/matrix/publish": ("/matrix/cell?at=pro/*", {**LIMIT, "p_burst": "200"}, {"p_rate": "150"}, {"p_burst": "250"}),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("address", "do"), [*((address, "") for address in RACES), ("/matrix/publish", "trial")])
def test_of_two_who_save_at_once_one_is_told(owner: Client, address: str, do: str) -> None:
    shown, typed, first, second = RACES[address]
    other = signed_in("bea-owner", "owner")
    seen = seen_on(owner, shown)
    before = Revision.objects.count()
    won, lost = at_once(
        partial(owner.post, address, {**typed, **seen, **first}),
        partial(other.post, address, {**typed, **seen, **second, "do": do}),
    )
    text = text_of(lost.content)
    assert won.status_code in (200, 302)
    assert lost.status_code == (200 if address == "/matrix/publish" else 409)
    assert "ann-owner changed this" in text
    assert "Nothing was saved." in text
    assert Revision.objects.count() == before + 1


@pytest.mark.django_db(transaction=True)
def test_a_limit_that_is_removed_at_the_moment_of_saving_does_not_come_back(owner: Client) -> None:
    seen = seen_on(owner, "/matrix/cell?at=pro/*")
    _, lost = at_once(
        partial(owner.post, "/matrix/publish", {**LIMIT, **seen, "remove": "on", "force": "on"}),
        partial(owner.post, "/matrix/publish", {**LIMIT, **seen}),
    )
    assert "This was removed meanwhile" in text_of(lost.content)
    assert not Limit.objects.filter(policy__name="pro-all", name__name="burst").exists()


def test_a_refused_part_of_the_settings_saves_nothing_of_them(owner: Client) -> None:
    answer = owner.post("/tenants/acme/settings", {**TENANT, "tier": "free", "force": "on", "timezone": "Mars"})
    assert answer.status_code == 422
    assert Tenant.objects.get(name="acme").tier.name == "pro"
