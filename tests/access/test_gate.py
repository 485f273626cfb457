"""Nobody passes unless the table of roles says so."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path

from config.urls import urlpatterns as real_patterns
from dashboards.middleware import POLICY
from tests.access.people import STAFF, machine, person, signed_in, token
from tests.access.routes import Route, routes
from tests.quotas.world import make_world

pytestmark = pytest.mark.django_db

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def undeclared(request: HttpRequest) -> HttpResponse:
    raise AssertionError("nobody may reach this")


urlpatterns = [
    *real_patterns,
    path("v1/new", undeclared, name="new"),
    path("section/", include(([path("new", undeclared, name="new")], "section"))),
    path("nameless", undeclared),
]


def test_the_overview_needs_a_login_and_comes_back_after_it() -> None:
    response = Client().get("/?span=1h")
    assert response.status_code == 302
    assert response.headers["Location"] == "/login?next=/%3Fspan%3D1h"


def test_a_part_of_a_page_is_not_replaced_by_the_login_when_the_session_has_ended() -> None:
    response = Client().post("/tenants/new", {"label": "Typed"}, headers={"HX-Request": "true"})
    assert response.status_code == 401
    assert response.json()["detail"] == "Your session has ended. Copy what you typed, then reload the page to sign in."


@pytest.mark.parametrize("role", STAFF)
def test_people_who_work_here_see_it(role: str) -> None:
    make_world()
    assert signed_in("alice", role).get("/").status_code == 200


def test_somebody_without_a_role_sees_nothing() -> None:
    response = signed_in("charlie").get("/")
    assert response.status_code == 403
    assert response.json()["code"] == "no-role"


@pytest.mark.parametrize("address", ["/settings", "/tenants/bolt"])
def test_a_browser_is_refused_by_a_page_that_leads_on(address: str) -> None:
    make_world()
    tessa = signed_in("tessa", "tenant", "acme")
    response = tessa.get(address, headers=BROWSER)
    assert (response.status_code, response.headers["Content-Type"]) == (403, "text/html; charset=utf-8")
    assert response.headers["Cache-Control"] == "no-store"
    text = response.content.decode()
    assert "Only viewers, operators, approvers and owners may open this" in text
    assert "Your role is tenant." in text
    assert 'href="/portal">Go to the start page</a>' in text
    assert tessa.get(address, headers={"accept": "*/*"}).json()["code"] == "forbidden"
    assert tessa.get("/v1/tenants/bolt", headers=BROWSER).headers["Content-Type"] != "text/html; charset=utf-8"


def test_a_browser_without_a_role_or_with_the_wrong_method_gets_a_page_too() -> None:
    lost = signed_in("charlie").get("/", headers=BROWSER)
    assert (lost.status_code, "ask an owner to assign one" in lost.content.decode()) == (403, True)
    typed = signed_in("alice", "owner").get("/bypass", headers=BROWSER)
    assert (typed.status_code, typed.headers["Allow"]) == (405, "POST")
    assert 'href="/">Go to the start page</a>' in typed.content.decode()


def test_the_page_of_a_refusal_says_who_may_and_names_owners_to_the_platforms_own_people_only() -> None:
    make_world()
    person("zoe-owner", "owner")
    refused = signed_in("alice", "viewer").get("/matrix/import", headers=BROWSER).content.decode()
    assert "Only operators, approvers and owners may open this" in refused
    assert "<b>zoe-owner</b>" in refused
    assert "zoe-owner" not in signed_in("tessa", "tenant", "acme").get("/settings", headers=BROWSER).content.decode()


def test_a_tenants_people_at_the_bare_address_land_in_their_portal() -> None:
    make_world()
    tessa = signed_in("tessa", "tenant", "acme")
    for accept in ("text/html", "*/*"):
        response = tessa.get("/", headers={"accept": accept})
        assert (response.status_code, response.headers["Location"]) == (302, "/portal")


def test_a_superuser_is_an_owner_and_nobody_once_inactive() -> None:
    make_world()
    alice = person("alice")
    alice.is_superuser = True
    alice.save()
    client = Client()
    client.force_login(alice)
    assert client.get("/").status_code == 200
    alice.is_active = False
    alice.save()
    assert client.get("/").status_code == 302


@pytest.mark.urls("tests.access.test_gate")
@pytest.mark.parametrize("address", ["/v1/new", "/section/new", "/nameless"])
@pytest.mark.parametrize("role", STAFF)
def test_a_new_route_denies_everybody(role: str, address: str) -> None:
    for client in (signed_in("alice", role), machine(token(role))):
        for method in ("get", "post", "options", "head"):
            assert getattr(client, method)(address).status_code == 403


@pytest.mark.urls("tests.access.test_gate")
def test_a_new_route_denies_strangers() -> None:
    assert Client().get("/v1/new").status_code == 401
    assert Client().get("/section/new").status_code == 302


def test_health_is_open_and_takes_no_other_method() -> None:
    assert Client().get("/healthz").status_code in (200, 503)
    response = Client().post("/healthz")
    assert (response.status_code, response.headers["Allow"]) == (405, "GET")


def test_a_method_without_a_row_is_refused_with_those_that_have_one() -> None:
    response = signed_in("alice", "owner").delete("/")
    assert (response.status_code, response.headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize("text", ["", "nonsense", "hr_" + "0" * 16 + "_" + "0" * 64])
def test_a_wrong_token_counts_alone_even_beside_a_session(text: str) -> None:
    response = signed_in("alice", "owner").get("/", headers={"authorization": f"Bearer {text}"})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.headers["Content-Type"] == "application/problem+json"


def test_a_token_does_what_its_role_and_its_scopes_both_allow() -> None:
    make_world()
    assert machine(token("viewer", "read")).get("/").status_code == 200
    response = machine(token("owner", "write", "check")).get("/")
    assert (response.status_code, response.json()["code"]) == (403, "scope-missing")


def test_metrics_are_for_this_machine_and_for_tokens_with_their_scope() -> None:
    assert Client().get("/metrics").status_code == 200
    assert Client().get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 403
    assert machine(token("viewer", "metrics")).get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 200
    assert machine(token("viewer", "read")).get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 403
    assert Client().options("/metrics").status_code == 405


def test_the_admin_is_for_owners_and_has_no_login_of_its_own() -> None:
    assert signed_in("bob", "operator").get("/admin/").status_code == 403
    assert Client().get("/admin/").headers["Location"] == "/login?next=/admin/"
    assert Client().post("/admin/login/", {"username": "alice", "password": "x"}).status_code == 302
    assert signed_in("alice", "owner").post("/admin/login/").status_code == 405


def test_no_answer_lets_a_browser_run_anything_but_our_own_files() -> None:
    """Every route to strangers, and each of three as somebody who reaches it; the sweep below has all of them."""
    check_policy(Client(), routes())
    check_policy(signed_in("alice", "owner"), routes()[::3])
    check_policy(machine(token("viewer")), routes()[::9])


@pytest.mark.sweep
def test_no_answer_to_anybody_lets_a_browser_run_anything_but_our_own_files() -> None:
    for client in (signed_in("alice", "owner"), machine(token("viewer")), Client()):
        check_policy(client, routes())


def check_policy(client: Client, asked: list[Route]) -> None:
    for route in asked:
        response = client.get(route.address())
        assert response.headers["Content-Security-Policy"] == POLICY, route


def test_the_policy_names_nothing_but_our_own_files() -> None:
    assert not {"unsafe-inline", "unsafe-eval", "data:", "*"} & set(POLICY.replace("'", "").split())
