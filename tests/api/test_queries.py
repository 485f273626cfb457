"""How many SQL queries a route costs: pinned in queries.json, and the same however much there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from access import roles
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from tenants.keyring import pepper
from tenants.models import ApiToken
from tests.access.people import person, token
from tests.api.requests import Asked, add_tenants, grow, requests

PINNED = Path(__file__).parent / "queries.json"
CHANGED = "what a route costs has changed: mend it, or write down in tests/api/queries.json what it costs now"


def counts(text: str, asked: Mapping[str, Asked]) -> dict[str, int]:
    client = APIClient(headers={"Authorization": f"Bearer {text}", "If-Match": "*"})
    found = {}
    pepper(1)  # a process reads it once
    for name, one in sorted(asked.items()):
        body = "" if one.body is None else json.dumps(one.body)
        accept = {"Accept": "text/html" if name == "docs GET" else "*/*"}
        with CaptureQueriesContext(connection) as captured:
            answer = client.generic(one.method, one.path, body, "application/json", headers=accept)
        assert answer.status_code == 200, (name, answer.content)
        found[name] = len(captured)
    return found


def publish() -> None:
    client = store.connect(settings.REDIS_URL)
    store.prepare(client)
    Publisher(client, settings.HEADROOM_SHARDS).publish()


@pytest.mark.usefixtures("world")
def test_each_route_costs_what_is_pinned_however_much_there_is(valkey: redis.Redis) -> None:
    person("alice", "approver")  # a token approves only while its issuer may
    text = token("owner")
    sender = f"token:{ApiToken.objects.get().key_id}"
    publish()
    few = requests(grow(30, 5, sender))
    publish()
    costs = counts(text, few)
    many = requests(grow(300, 50, sender))
    publish()
    assert counts(text, many) == costs
    assert costs == json.loads(PINNED.read_text()), CHANGED


@pytest.mark.sweep
@pytest.mark.usefixtures("world")
def test_a_page_of_tenants_costs_the_same_out_of_100_and_out_of_100_000() -> None:
    text = token("owner")
    pages = {
        f"tenants {query}": Asked("GET", f"/v1/tenants{query}")
        for query in ("", "?limit=200", "?tier=free", "?search=97", "?order=-name")
    }
    add_tenants(98)
    few = counts(text, pages)
    add_tenants(99_900)
    assert counts(text, pages) == few


def test_every_route_is_counted() -> None:
    declared = {
        f"{name.removeprefix('v1:')} {method}"
        for name, rules in roles.TABLE.items()
        if name.startswith("v1:")
        for method in rules
    }
    assert declared == json.loads(PINNED.read_text()).keys(), "add the route to tests/api/requests.py and queries.json"
