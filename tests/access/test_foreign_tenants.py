"""Whoever belongs to one tenant finds nothing of another: not by address, not in a list, not by a filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
from django.test import Client

from access import roles
from quotas.api_keys import api_key_issue
from quotas.overrides import override_create
from quotas.policies.edit import policy_create
from tenants.models import Role
from tests.access.people import machine, signed_in, token
from tests.access.routes import Route, routes
from tests.database import kept
from tests.quotas.world import SAID, Said, bucket, make_world

FOR_TENANTS = [
    (route, method)
    for route in routes()
    for method, rule in (roles.rules_of(route.name) or {}).items()
    if Role.TENANT in rule.roles and not rule.is_open and route.name != "dashboards:logout"
]
SHARED = {"v1:endpoint"}  # what it leads to belongs to no tenant
ANSWERS = {"dashboards:portal-ask": 422}  # a form that names none of one's own limits
CHUNKS = 3  # of a stream that never ends


@dataclass(frozen=True, slots=True)
class Foreign:
    """What bolt has, by the parameter of a route that leads to it."""

    tenant: str
    key_id: str
    number: str
    policy: str

    def values(self, route: Route) -> Mapping[str, str]:
        if route.name in SHARED:
            return {}
        name = {"v1:policy": self.policy, "v1:policy-limit": self.policy}.get(route.name, self.tenant)
        found = {"name": name, "tenant": self.tenant, "key_id": self.key_id, "number": self.number}
        return {each: found[each] for each in route.parameters.keys() & found.keys()}

    @property
    def traces(self) -> tuple[str, ...]:
        return self.tenant, self.key_id, "a secret of theirs"


@kept
def make_both(credential: str) -> tuple[Foreign, str]:
    """What bolt has, and the text of what acme asks with, where that is a token or a key."""
    make_world()
    own: Said = {"author": "ann", "reason": "a secret of theirs"}
    policy_create(name="bolts-own", tenant="bolt", limits=[bucket(500)], **own)
    override = override_create(tenant="bolt", multiplier=(2, 1), **own)
    key = api_key_issue(tenant="bolt", **own).row
    override_create(tenant="acme", multiplier=(3, 1), **SAID)
    foreign = Foreign("bolt", key.key_id, str(override.pk), "bolts-own")
    if credential == "a token":
        return foreign, token("tenant", tenant="acme")
    if credential == "an API key":
        return foreign, str(api_key_issue(tenant="acme", scopes=["read", "write"], **SAID).text)
    return foreign, ""


@pytest.fixture(params=["a person", "a token", "an API key"])
def both(request: pytest.FixtureRequest, db: None) -> tuple[Foreign, str]:
    return make_both(request.param)


@pytest.fixture
def bolt(both: tuple[Foreign, str]) -> Foreign:
    return both[0]


@pytest.fixture
def acme(both: tuple[Foreign, str]) -> Client:
    text = both[1]
    return machine(text) if text else signed_in("charlie", "tenant", "acme")


def test_every_parameter_of_a_route_for_tenants_is_known(bolt: Foreign) -> None:
    """A new one says in Foreign what of bolt's it leads to, or that it leads to nobody's."""
    unknown = {route.name: route.parameters.keys() - bolt.values(route).keys() for route, _ in FOR_TENANTS}
    assert {name: left for name, left in unknown.items() if left and name not in SHARED} == {}


def text_of(response: Any) -> str:
    parts = islice(response, CHUNKS) if response.streaming else [response.content]
    return b"".join(parts).decode()


@pytest.mark.parametrize(("route", "method"), FOR_TENANTS, ids=str)
def test_it_is_not_there(acme: Client, bolt: Foreign, route: Route, method: str) -> None:
    values = bolt.values(route)
    body = b'{"tenant": "bolt", "endpoint": "rides:get"}'
    response = acme.generic(method, route.address(values), body, "application/json")
    if values or route.name == "v1:explain":
        assert response.status_code == 404
    else:
        assert response.status_code == ANSWERS.get(route.name, 200)
    answer = text_of(response)
    assert [trace for trace in bolt.traces if trace in answer and route.name != "v1:schema"] == []


@pytest.mark.parametrize("address", ["/v1/api-keys", "/v1/overrides", "/v1/tenants"])
@pytest.mark.parametrize("query", ["tenant=bolt", "search=bolt", "name=bolt", "ordering=-created", "limit=200"])
def test_no_filter_finds_it(acme: Client, bolt: Foreign, address: str, query: str) -> None:
    response = acme.get(f"{address}?{query}")
    assert response.status_code in (200, 400, 404)
    answer = response.content.decode().replace(query, "")
    assert [trace for trace in (bolt.key_id, "a secret of theirs") if trace in answer] == []


def test_ones_own_is_there(acme: Client, bolt: Foreign) -> None:
    assert [row["name"] for row in acme.get("/v1/tenants").json()["items"]] == ["acme"]
    assert acme.get("/v1/tenants/acme").status_code == 200
    limits = acme.get("/v1/tenants/acme/limits").json()
    assert {limit["limit"]["name"] for limit in limits["limits"]} == {"burst", "minute"}
    assert limits["limits"][0]["overrides"] != []


def test_what_is_not_for_tenants_is_refused_whoever_it_belongs_to(acme: Client, bolt: Foreign) -> None:
    for route in routes():
        rules = roles.rules_of(route.name) or {}
        for method, rule in rules.items():
            if route.name.startswith("v1:") and Role.TENANT not in rule.roles:
                for values in (bolt.values(route), {}):
                    response = acme.generic(method, route.address(values), b"{}", "application/json")
                    assert response.status_code == 403, (route, method)
