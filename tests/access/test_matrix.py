"""Every route × method × role is what the table of roles says, and the table has no row too many or too few."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import resolve

from access import roles
from access.gate import Gate
from tenants.models import Role
from tests.access.people import machine, person, signed_in, token
from tests.access.routes import METHODS, Route, routes
from tests.quotas.world import make_world
from tests.sweeps import first_of

PASSED = 299
ROUTES = routes()
DECLARED = [row for row in roles.TABLE if not row.endswith(":*")]
REQUESTS = RequestFactory()


def gate(request: HttpRequest) -> int:
    """Whether the request reaches what stands behind the gate."""
    return Gate(lambda _: HttpResponse(status=PASSED))(request).status_code


def expected(route: Route, method: str, role: str | None) -> set[int]:
    rules = roles.rules_of(route.name)
    rule = roles.rule_of(rules or {}, method)
    if rule is not None and rule.is_open:
        return {PASSED}
    if rules and rule is None and any(other.is_open for other in rules.values()):
        return {405}
    if role is None:
        return {401} if route.path.startswith("/v1/") else {302}
    if rules is None:
        return {403}
    if rule is None:
        return {405}
    if role == Role.TENANT and route.name == "dashboards:overview" and method in ("GET", "HEAD"):
        return {302}  # to the portal
    return {PASSED} if role in rule.roles else {403}


@pytest.fixture
def people(db: None) -> dict[str | None, User | AnonymousUser]:
    make_world()
    known: dict[str | None, User | AnonymousUser] = {None: AnonymousUser()}
    for role in Role.values:
        known[role] = person(role, role, "acme" if role == Role.TENANT else None)
    return known


def test_the_addresses_lead_to_their_routes() -> None:
    for route in ROUTES:
        assert resolve(route.address()).view_name == route.name, route


People = dict[str | None, User | AnonymousUser]


def test_every_route_and_method_is_for_whom_the_table_says(people: People) -> None:
    """Of the admin's pages, which have one row of the table for all, those of one model."""
    ours = [route for route in ROUTES if not route.name.startswith("admin:") or "_tenant_" in route.name]
    assert denied_wrongly([(route, _methods(route)) for route in ours], people) == []


def _methods(route: Route) -> list[str]:
    """Those that the table has for it, and the first that it has not; the sweep below tries all."""
    declared = roles.rules_of(route.name) or {}
    return [*declared, *[method for method in METHODS if method not in declared][:1]]


@pytest.mark.sweep
def test_every_route_and_every_method_is_for_whom_the_table_says(people: People) -> None:
    assert denied_wrongly([(route, METHODS) for route in ROUTES], people) == []


def denied_wrongly(asked: list[tuple[Route, Sequence[str]]], people: People) -> list[tuple[str, str, str | None, int]]:
    wrong = []
    for route, methods in asked:
        for method in methods:
            for role, user in people.items():
                request = REQUESTS.generic(method, route.address())
                request.user = user
                status = gate(request)
                if status not in expected(route, method, role):
                    wrong.append((route.name, method, role, status))
    return wrong


def test_every_row_is_a_route() -> None:
    assert set(DECLARED) - {route.name for route in ROUTES} == set()


def test_every_route_has_a_row_with_the_methods_that_its_view_has() -> None:
    """One that is missing denies; one too many would promise what nobody serves."""
    wrong = {}
    for route in ROUTES:
        view_class = getattr(route.view, "view_class", None)
        if route.name.startswith("admin:") or view_class is None:
            assert roles.rules_of(route.name) is not None, route
            continue
        served = {method for method in METHODS if hasattr(view_class, method.lower())} - {"HEAD", "OPTIONS"}
        served &= {name.upper() for name in view_class.http_method_names}
        if set(roles.rules_of(route.name) or {}) != served:
            wrong[route.name] = served
    assert wrong == {}


def test_nothing_but_health_metrics_and_the_login_is_open() -> None:
    is_open = {name for name, rules in roles.TABLE.items() if any(rule.is_open for rule in rules.values())}
    assert is_open == {"healthz", "favicon", "metrics", "dashboards:login"}


def test_a_tenants_user_may_ask_for_more_and_changes_nothing() -> None:
    for name, rules in roles.TABLE.items():
        changes = {method for method, rule in rules.items() if rule.scope != "read" and Role.TENANT in rule.roles}
        assert changes == ({"POST"} if name == "dashboards:portal-ask" else set()), name


# A viewer may read and nothing else, so that both answers are seen; the gate is asked for all roles above.
@pytest.mark.parametrize("role", first_of([Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.OWNER]))
def test_the_whole_stack_agrees(db: None, role: str) -> None:
    """What the table denies is denied with all that stands in the way; what it allows reaches its view."""
    make_world()
    for client in (signed_in("alice", role), machine(token(role))):
        for route in ROUTES:
            if route.name.startswith("v1:"):
                for method in ("GET", "POST"):
                    status = client.generic(method, route.address(), b"{}", "application/json").status_code
                    wanted = expected(route, method, role)
                    assert status in wanted if wanted != {PASSED} else status not in (401, 403, 405), (route, method)
