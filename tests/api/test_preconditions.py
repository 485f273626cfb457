"""If-Match on every route that writes: compared, required, or answered with 412 where there is no version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.api.requests import Asked, World, grow, requests

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
