"""Policies outside the matrix: the list, one of them with the editor, rename and delete."""

from __future__ import annotations

import re
from functools import partial
from html import unescape

import pytest
from django.test import Client

from quotas.keyset import keyset_page
from quotas.models import Limit, LimitName, Policy, Revision
from quotas.policies.document import Document, read_document
from quotas.policies.edit import policy_create, policy_update
from tests.access.people import signed_in
from tests.dashboards.world import make_world, page, text_of
from tests.quotas.world import FORCED, GET, PAY, bucket

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world(valkey: object) -> None:
    make_world()
    policy_create(name="acme-pay", tenant="acme", endpoint=PAY, limits=[bucket(5, "pay")], **FORCED)
    policy_create(name="everyone-pays", endpoint="payments:*", limits=[bucket(500, "service")], **FORCED)


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("olga", "operator")


def listed(client: Client, query: str) -> list[str]:
    return re.findall(r'rowlink" href="/policies/([\w.-]+)"', page(client, f"/policies?{query}"))


def test_the_list_finds_them_by_name_owner_kind_and_endpoint(client: Client) -> None:
    everything = listed(client, "")
    assert everything == sorted(everything)
    assert {"acme-pay", "everyone-pays", "pro-all", "free-all"} <= set(everything)
    for query, names in (
        ("q=acme", ["acme-pay"]),
        ("kind=tenant", ["acme-pay"]),
        ("endpoint=payments:*", ["everyone-pays"]),
        (f"endpoint={PAY}", ["acme-pay"]),
        ("q=nothing", []),
    ):
        assert listed(client, query) == names, query
    assert "everyone-pays" in listed(client, "kind=everyone")
    assert listed(client, "order=-name") == everything[::-1]
    assert set(listed(client, "order=owner&kind=wrong&page=x")) == set(everything)
    assert f"{len(everything)} policies" in page(client, "/policies")
    assert "No policy matches" in page(client, "/policies?q=nothing")


def test_a_limit_mentions_its_lease_only_if_it_is_set(client: Client) -> None:
    policy_update(name="acme-pay", limits=[bucket(5, "pay", lease="never"), bucket(9, "more")], **FORCED)
    text = page(client, "/policies/acme-pay")
    assert "token bucket, never leased" in text
    assert text.count("leased<") == 1


@pytest.mark.parametrize("order", ["name", "-owner", "endpoint", "-changed"])
def test_the_list_is_read_page_by_page_in_every_order(
    client: Client, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    whole = listed(client, f"order={order}")
    monkeypatch.setattr("dashboards.pages.policies.view.keyset_page", partial(keyset_page, size=2))
    seen, query = list[str](), f"order={order}"
    while query:
        text = page(client, f"/policies?{query}")
        seen += re.findall(r'rowlink" href="/policies/([\w.-]+)"', text)
        further = re.search(r'href="\?([^"]*)" rel="next"', text)
        query = unescape(further[1]) if further else ""
    assert len(whole) > 2
    assert seen == whole


def test_a_policy_shows_its_limits_its_document_and_its_history(client: Client) -> None:
    text = page(client, "/policies/acme-pay")
    assert "5/s burst 10" in text
    assert "/changes?touched=policy:acme-pay" in text
    assert 'data-cell="@acme/payments:charge"' in text
    assert "Delete" not in text
    assert client.get("/policies/nobody").status_code == 404


def test_its_yaml_is_a_document_that_changes_nothing(client: Client) -> None:
    answer = client.get("/policies/acme-pay/yaml")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="acme-pay.yaml"'
    read = read_document(answer.content.decode())
    assert isinstance(read, Document)
    assert [policy.source for policy in read.policies] == [f"tenant acme × {PAY}"]


def test_a_new_one_is_made_by_its_first_limit(operator: Client) -> None:
    asked = {"owner": "tenant", "tenant": "bolt", "tier": "free", "endpoint": GET}
    place = operator.post("/policies/new", asked).headers["HX-Redirect"]
    assert place == "/policies/new?at=%40bolt%2Frides%3Aget"
    assert "What applies here now" in page(operator, place)
    editor = text_of(operator.get("/matrix/cell?at=@bolt/rides:get").content)
    assert "bolt × " in editor
    edit = {"at": "@bolt/rides:get", "limit_name": "+", "name": "own", "algorithm": "token_bucket"}
    edit |= {"p_rate": "4.2/10s", "p_per": "1s", "p_burst": "8", "mode": "enforce"}
    planned = text_of(operator.post("/matrix/plan", edit).content)
    assert "4.2" in planned
    assert "Blocked: this limit is new, so requests that pass today may be denied." in planned
    assert "these cuts" not in planned
    assert "Try in shadow" in planned
    assert not Policy.objects.filter(tenant__name="bolt").exists()
    assert "Saved as r" in text_of(
        operator.post("/matrix/publish", {**edit, "reason": "agreed", "force": "on"}).content
    )
    row = Policy.objects.get(tenant__name="bolt")
    assert "4.2/10s burst 8" in page(operator, f"/policies/{row.name}")
    assert operator.post("/policies/new", asked).headers["HX-Redirect"] == f"/policies/{row.name}"


def test_a_new_limit_of_a_tenant_is_named_by_who_makes_it_and_says_what_an_equal_name_does(operator: Client) -> None:
    text = text_of(operator.get("/matrix/cell?at=@bolt/rides:get").content)
    named = re.search(r'<input[^>]*name="name"[^>]*>', text)
    assert named is not None
    assert "value=" not in named[0]
    assert "replaces that limit here; any other name adds one" in text
    edit = {"at": "@bolt/rides:get", "limit_name": "+", "algorithm": "token_bucket", "p_rate": "4", "p_burst": "8"}
    planned = text_of(operator.post("/matrix/plan", edit).content)
    assert "Name the new limit to see its effect." in planned
    assert "note-denied" not in planned
    refused = text_of(operator.post("/matrix/publish", {**edit, "reason": "agreed"}).content)
    assert "Enter a name for the new limit" in refused


def test_a_tenants_page_leads_to_a_limit_of_its_own(operator: Client) -> None:
    assert 'href="/policies?for=bolt"' in page(operator, "/tenants/bolt")
    text = page(operator, "/policies?for=bolt")
    assert re.search(r'id="dlg-policy"[^>]* data-open-now', text)
    assert re.search(r'name="tenant"[^>]*value="bolt"|value="bolt"[^>]*name="tenant"', text)
    assert "data-open-now" not in page(operator, "/policies")


def test_a_whole_service_is_limited_for_everyone(operator: Client) -> None:
    place = operator.post("/policies/new", {"owner": "everyone", "endpoint": "rides:*"}).headers["HX-Redirect"]
    assert place == "/policies/new?at=%2Frides%3A%2A"
    assert page(operator, place)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"owner": "tenant", "tenant": ""}, "Enter the tenant that the policy is for."),
        ({"owner": "tenant", "tenant": "nobody"}, "There is no such tenant or endpoint."),
        ({"owner": "everyone", "endpoint": "no:such"}, "There is no such tenant or endpoint."),
        ({"owner": "tier", "endpoint": "rides:*"}, "A whole service is limited for everyone only."),
    ],
)
def test_a_place_that_does_not_exist_is_refused_in_place(
    operator: Client, change: dict[str, str], sentence: str
) -> None:
    answer = operator.post("/policies/new", {"tenant": "acme", "tier": "pro", "endpoint": "*", **change})
    assert answer.status_code == 422
    assert sentence in text_of(answer.content)


def test_a_tenants_limit_is_edited_and_removed_with_the_same_guard(operator: Client) -> None:
    edit = {"at": f"@acme/{PAY}", "limit_name": "pay", "algorithm": "token_bucket", "p_rate": "1", "p_burst": "2"}
    edit |= {"reason": "abuse", "mode": "enforce"}
    cut = text_of(operator.post("/matrix/publish", edit).content)
    assert "make the cut smaller" in cut
    assert "Saved as r" in text_of(operator.post("/matrix/publish", {**edit, "force": "on"}).content)
    gone = {**edit, "remove": "on", "force": "on"}
    assert "Saved as r" in text_of(operator.post("/matrix/publish", gone).content)
    assert not Policy.objects.filter(name="acme-pay").exists()


def test_a_policy_is_renamed(operator: Client) -> None:
    path = "/policies/acme-pay/rename"
    assert "Nothing that is enforced or counted changes." in text_of(operator.get(path).content)
    refused = operator.post(path, {"to": "pro-all", "reason": "clearer"})
    assert (refused.status_code, "already exists" in text_of(refused.content)) == (422, True)
    assert operator.post(path, {"to": "acme-card", "reason": "clearer"}).headers["HX-Redirect"] == "/policies/acme-card"


def test_the_page_says_whether_counts_go_along_with_a_new_name(operator: Client) -> None:
    number = LimitName.objects.get(name="pay").number
    path = "/policies/acme-pay/limits/pay/rename"
    assert "Its counts and its history go along." in " ".join(text_of(operator.get(path).content).split())
    operator.post(path, {"to": "card", "reason": "clearer"})
    assert Limit.objects.get(policy__name="acme-pay").name == LimitName(number, "card")
    shared = text_of(operator.get("/policies/pro-all/limits/burst/rename").content)
    assert "Its counts start at zero here under the new name: another policy has a limit called burst" in shared
    assert operator.get("/policies/pro-all/limits/nothing/rename").status_code == 404


def test_a_policy_is_deleted_after_a_dry_run(operator: Client) -> None:
    path = "/policies/acme-pay/delete"
    assert "acme-pay" in text_of(operator.get(path).content)
    before = Revision.objects.count()
    assert operator.post(path, {"reason": ""}).status_code == 422
    assert Revision.objects.count() == before
    assert operator.post(path, {"reason": "it ended"}).headers["HX-Redirect"] == "/policies"
    assert not Policy.objects.filter(name="acme-pay").exists()


def test_the_palette_leads_to_a_policy(client: Client) -> None:
    assert "/policies/acme-pay" in page(client, "/palette?q=acme-pay")


def test_a_viewer_may_look_and_try_but_not_change(client: Client) -> None:
    viewer = signed_in("vera", "viewer")
    assert "Try values" in page(viewer, "/policies/acme-pay")
    assert viewer.post("/policies/acme-pay/delete", {"reason": "x"}).status_code == 403
