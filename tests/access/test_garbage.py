"""Whatever an address, a form or a body has in it, the answer says so: no route fails over it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import redis
from django.http import QueryDict
from django.test import Client

from access import roles
from api.openapi.page import document
from tests.access.people import person, signed_in
from tests.access.routes import Route, routes
from tests.quotas.world import make_world

FORM = "application/x-www-form-urlencoded"
# As they stand in an address. What nothing can keep is refused before any view, so one field with it tells of all.
UNFIT = ("%00", "a%00b", "%ED%A0%80", "%FF")
LONG, EARLY = "9" * 5_000, "0001-01-01T00:00:00%2B14:00"
ODD = (LONG, EARLY, "1e400", "9223372036854775808", "9999-12-31T23:59:59-12:00", "%C2%B2%F0%9F%92%A5", "a%7C%2A%7C%0A")
# One is without end, the other tells of parts that are not running here.
LEFT_OUT = {"dashboards:live", "healthz"}
PAGES = [
    route
    for route in routes()
    if not route.name.startswith("v1:") and route.name not in LEFT_OUT and roles.rules_of(route.name)
]


@pytest.fixture
def owner(db: None, valkey: redis.Redis) -> Client:
    make_world()
    client = signed_in("ann", "owner")
    client.raise_request_exception = False
    return client


@pytest.fixture
def sought(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the fields that a view looks for."""
    names: set[str] = set()
    for method in ("get", "getlist", "__getitem__", "__contains__"):
        monkeypatch.setattr(QueryDict, method, _noting(names, getattr(QueryDict, method)))
    return names


def _noting(names: set[str], method: Any) -> Any:
    def noted(self: QueryDict, name: str, *rest: Any) -> Any:
        names.add(name)
        return method(self, name, *rest)

    return noted


def failures(client: Client, asked: Iterator[tuple[str, str, bytes, str]]) -> list[tuple[str, str, int]]:
    found = []
    for method, path, content, kind in asked:
        status = client.generic(method, path, content, kind).status_code
        if status >= 500:
            found.append((method, f"{path} {content.decode()}"[:200], status))
    return found


def of_addresses() -> Iterator[tuple[str, str, bytes, str]]:
    for route in routes():
        for name in route.parameters:
            for value in UNFIT:
                yield "GET", route.address({name: value}), b"", ""


def of_page(
    route: Route, names: set[str], *methods: str, values: Sequence[str], one_by_one: bool
) -> Iterator[tuple[str, str, bytes, str]]:
    """A form tells of all its fields at once; what reads an address may stop at the first."""
    for value in values:
        text = "&".join(f"{name}={value}" for name in names)
        if "POST" in methods:
            yield "POST", route.address(), text.encode(), FORM
        if "GET" in methods:
            yield "GET", f"{route.address()}?{text}", b"", ""
    if "GET" in methods and one_by_one:
        yield from (("GET", f"{route.address()}?{name}={LONG}", b"", "") for name in names)


def test_in_a_path(owner: Client) -> None:
    assert failures(owner, of_addresses()) == []


def test_in_the_fields_of_a_page(owner: Client, sought: set[str]) -> None:
    """All fields at once, with two values; of the admin's pages, which Django makes all alike, one model's."""
    pages = [route for route in PAGES if not route.name.startswith("admin:") or "_tenant_" in route.name]
    assert page_failures(owner, sought, pages, values=(UNFIT[0], LONG), one_by_one=False) == []


@pytest.mark.sweep
def test_in_every_field_of_every_page(owner: Client, sought: set[str]) -> None:
    assert page_failures(owner, sought, PAGES, values=(UNFIT[0], *ODD[:4]), one_by_one=True) == []


def page_failures(
    owner: Client, sought: set[str], pages: list[Route], *, values: Sequence[str], one_by_one: bool
) -> list[tuple[str, str, int]]:
    found = []
    for route in pages:
        methods = sorted({"GET", "POST"} & set(roles.rules_of(route.name) or {}))
        owner.force_login(person("ann"))  # one of the pages signs her out
        sought.clear()
        for method in methods:
            owner.generic(method, route.address(), b"", FORM)
        fields = sought - {"csrfmiddlewaretoken"}
        found += failures(owner, of_page(route, fields, *methods, values=values, one_by_one=one_by_one))
    return found


def of_queries(together: Sequence[str], alone: Sequence[str]) -> Iterator[tuple[str, str, bytes, str]]:
    for path, operations in document()["paths"].items():
        address = path.format_map(_Fitting())
        for method, operation in operations.items():
            names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            every = ["&".join(f"{name}={value}" for name in names) for value in together if names]
            for text in [*every, *(f"{name}={value}" for name in names for value in alone)]:
                yield method.upper(), f"{address}?{text}", b"{}", "application/json"


class _Fitting(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "1" if name == "number" else "acme"


def test_in_the_queries_of_the_api(owner: Client) -> None:
    """All parameters at once; the sweep below has each by itself."""
    assert failures(owner, of_queries(together=(LONG, UNFIT[0]), alone=())) == []


@pytest.mark.sweep
def test_in_every_query_of_the_api(owner: Client) -> None:
    assert failures(owner, of_queries(together=ODD, alone=(UNFIT[0], EARLY))) == []


@pytest.mark.parametrize("value", ["1e400", "-1e400", '"a\\u0000b"', '"\\ud800"', '{"a\\u0000": 1}', "[[1e999]]"])
def test_in_a_body(owner: Client, value: str) -> None:
    for path, body in (
        ("/v1/overrides", '{"tenant": "acme", "reason": "r", "limits": {"burst": {"rate": %s}}}'),
        ("/v1/tiers", '{"name": %s, "reason": "r"}'),
        ("/v1/tenants", '{"name": "new", "tier": "pro", "label": %s, "reason": "r"}'),
    ):
        answer = owner.post(path, body % value, "application/json")
        assert 400 <= answer.status_code < 500, (path, answer.content)
        assert json.loads(answer.content)["detail"]
