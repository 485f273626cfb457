"""If-Match on every route that writes: compared, required, or answered with 412 where there is no version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from quotas.models import Revision
from quotas.overrides import override_create
from tests.api.requests import Asked, World, grow, requests
from tests.quotas.turns import at_once
from tests.quotas.world import FORCED, PAY, bucket

pytestmark = pytest.mark.usefixtures("world")
ASKING = {"explain", "document-validate", "document-plan"}  # they write nothing


@pytest.fixture
def grown(world: None, valkey: redis.Redis, client: APIClient) -> World:
    return grow(8, 8, f"person:{User.objects.get(username='ann').pk}")


def writes(world: World) -> Iterator[tuple[str, Asked]]:
    for name, asked in requests(world).items():
        if asked.method != "GET" and name.split()[0] not in ASKING:
            yield name, asked


def send(client: APIClient, asked: Asked, **headers: str) -> Any:
    return client.generic(
        asked.method,
        asked.path,
        "" if asked.body is None else json.dumps(asked.body),
        content_type="application/json",
        headers=headers,
    )


def test_no_route_ignores_a_version_that_is_not_there(client: APIClient, grown: World) -> None:
    wrong = {
        name: answer.status_code
        for name, asked in writes(grown)
        if (answer := send(client, asked, **{"If-Match": '"0123"'})).status_code != 412
    }
    assert wrong == {}


def test_what_replaces_or_deletes_a_version_needs_to_know_it(client: APIClient, grown: World) -> None:
    """Except where there is no GET that would show a version."""
    needed = {name for name, asked in writes(grown) if send(client, asked).status_code == 428}
    unneeded = {"alert-target DELETE", "bypass DELETE"}
    assert needed == {name for name, asked in writes(grown) if asked.method != "POST"} - unneeded


RACES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "/v1/tenants/acme": ("PATCH", {"label": "First"}, {"label": "Second"}),
    "/v1/tiers/pro": ("PATCH", {"label": "First"}, {"label": "Second"}),
    f"/v1/endpoints/{PAY}": ("PATCH", {"default_cost": 11}, {"default_cost": 12}),
    "/v1/policies/free-all/limits/burst": ("PUT", {"limit": bucket(11)}, {"limit": bucket(12)}),
    "/v1/overrides/{override}": ("PATCH", {"limits": {"burst": {"rate": 130}}}, {"limits": {"burst": {"rate": 140}}}),
    "/v1/tenants/acme/move": ("POST", {"tier": "free", "force": True}, {"tier": "free", "force": True}),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", RACES)
def test_of_two_who_send_the_same_version_at_once_one_is_told(client: APIClient, path: str) -> None:
    method, first, second = RACES[path]
    override = override_create(tenant="acme", limits={"burst": {"rate": 120}}, **FORCED)
    path = path.format(override=override.pk)
    seen = client.get(path.removesuffix("/move").partition("/limits/")[0])["ETag"]
    before = Revision.objects.count()
    asked = (Asked(method, path, {**body, "reason": "agreed"}) for body in (first, second))
    won, lost = at_once(*(partial(send, client, one, **{"If-Match": seen}) for one in asked))
    assert (won.status_code, lost.status_code) == (200, 412), (won.content, lost.content)
    assert Revision.objects.count() == before + 1
