"""Managing endpoints: the list, the form with its match test, retiring, and the import of an OpenAPI document."""

from __future__ import annotations

import csv
import io
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from quotas.changes.undo import revision_revert
from quotas.endpoints import endpoint_create, endpoint_delete
from quotas.models import Endpoint, Revision
from quotas.policies.edit import policy_create
from tests.access.people import signed_in
from tests.dashboards.world import GET, PAY, counted, make_world, page, text_of
from tests.quotas.world import FORCED, SAID, bucket, newest

pytestmark = pytest.mark.django_db

NEW = {
    "service": "rides",
    "operation": "receipt",
    "method": "GET",
    "path": "/v1/rides/{id}/receipt",
    "default_cost": "2",
    "exact": "yes",
    "reason": "for the app",
}
OPENAPI = """openapi: 3.0.3
info: {title: Rides, version: '2'}
servers: [{url: /v1}, {url: /beta}]
paths:
  /charges: {post: {operationId: charge}}
  /rides/{rideId}: {get: {operationId: get, x-headroom-cost: 3}}
  /rides: {post: {operationId: requestRide, tags: [rides], x-headroom-cost: 5}}
  /odd/{a}{b}: {get: {}}
"""


@pytest.fixture
def owner(valkey: object) -> Client:
    make_world()
    return signed_in("ann-owner", "owner")


class TestTheList:
    def test_it_is_found_by_name_method_and_path(self, owner: Client) -> None:
        assert f"/endpoints/{PAY}" in page(owner, "/endpoints?q=charges")
        assert f"/endpoints/{GET}" not in page(owner, "/endpoints?q=charges")
        assert f"/endpoints/{GET}" in page(owner, "/endpoints?q=get+/v1/rides")
        assert f"/endpoints/{PAY}" not in page(owner, "/endpoints?service=rides")
        assert f"/endpoints/{GET}" not in page(owner, "/endpoints?method=POST")
        assert "No endpoint matches" in page(owner, "/endpoints?q=nothing")

    @pytest.mark.parametrize("order", ["name", "-cost", "asked", "share", "tenants", "limits", "nonsense"])
    def test_it_is_sorted_by_every_column(self, owner: Client, order: str) -> None:
        page(owner, f"/endpoints?order={order}")

    def test_the_order_is_the_one_asked_for(self, owner: Client) -> None:
        text = page(owner, "/endpoints?order=-cost")
        assert text.index(f"/endpoints/{PAY}") < text.index(f"/endpoints/{GET}")
        text = page(owner, "/endpoints?order=cost")
        assert text.index(f"/endpoints/{PAY}") > text.index(f"/endpoints/{GET}")

    def test_the_csv_has_what_the_list_has(self, owner: Client) -> None:
        response = owner.get("/endpoints.csv?q=charges")
        rows = list(csv.DictReader(io.StringIO(b"".join(response).decode())))
        assert [(row["endpoint"], row["path"], row["cost"]) for row in rows] == [(PAY, "/v1/charges", "10")]

    def test_a_viewer_sees_no_buttons_that_are_not_theirs(self, owner: Client) -> None:
        text = page(signed_in("vera", "viewer"), "/endpoints")
        assert "Register endpoint" not in text
        assert "dlg-retire" in text  # the empty dialog only
        assert f"/endpoints/{PAY}/edit" not in text


class TestTheForm:
    def test_an_endpoint_is_registered_with_all_its_fields(self, owner: Client) -> None:
        response = owner.post("/endpoints/new", NEW)
        assert (response.status_code, response["Location"]) == (302, "/endpoints/rides:receipt")
        row = Endpoint.objects.get(name="rides:receipt")
        assert (row.method, row.path, row.default_cost) == ("GET", "/v1/rides/{id}/receipt", 2)
        assert row.hints == {"exact": True}

    def test_its_priority_is_chosen_shown_and_edited(self, owner: Client) -> None:
        assert '<option value="normal" selected>Normal</option>' in page(owner, "/endpoints/new")
        owner.post("/endpoints/new", {**NEW, "priority": "critical"})
        assert Endpoint.objects.get(name="rides:receipt").priority == "critical"
        assert "critical priority" in page(owner, "/endpoints/rides:receipt")
        assert '<option value="critical" selected>' in page(owner, "/endpoints/rides:receipt/edit")
        owner.post("/endpoints/rides:receipt/edit", {**NEW, "priority": "sheddable"})
        assert Endpoint.objects.get(name="rides:receipt").priority == "sheddable"
        refused = owner.post("/endpoints/rides:receipt/edit", {**NEW, "priority": "urgent"})
        assert refused.status_code == 422
        assert Endpoint.objects.get(name="rides:receipt").priority == "sheddable"

    def test_one_may_go_on_to_its_first_limit(self, owner: Client) -> None:
        response = owner.post("/endpoints/new", {**NEW, "then": "limit"})
        assert response["Location"] == "/matrix?at=%2Frides%3Areceipt"

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"operation": "Receipt!"}, "The endpoint&#x27;s name cannot be"),
            ({"path": "rides"}, "Path must start with /"),
            ({"path": "/v1/charges", "method": "POST"}, "is already the route of payments:charge"),
            ({"service": "rides", "operation": "get"}, "endpoint rides:get already exists"),
            ({"reason": ""}, "Enter a reason."),
            ({"default_cost": "0"}, "greater than or equal to 1"),
        ],
    )
    def test_a_refusal_keeps_what_was_typed_and_names_the_field(
        self, owner: Client, fields: dict[str, str], said: str
    ) -> None:
        response = owner.post("/endpoints/new", {**NEW, **fields})
        text = text_of(response.content)
        assert response.status_code == 422
        assert said.casefold() in text.casefold()
        assert 'value="rides"' in text
        assert Endpoint.objects.count() == 2

    def test_the_address_may_fill_it(self, owner: Client) -> None:
        text = page(owner, "/endpoints/new?service=maps&path=/v1/tiles&method=PUT")
        assert 'value="maps"' in text
        assert 'value="/v1/tiles"' in text

    def test_a_retired_one_comes_back_filled_in_and_with_its_number(self, owner: Client) -> None:
        number = Endpoint.objects.get(name=PAY).number
        endpoint_delete(name=PAY, **FORCED)
        assert "Register again" in page(owner, "/endpoints?state=retired")
        assert 'value="/v1/charges"' in page(owner, f"/endpoints/new?name={PAY}")
        fields = {"service": "payments", "operation": "charge", "method": "POST", "path": "/v1/charges"}
        owner.post("/endpoints/new", {**fields, "default_cost": "10", "reason": "needed"})
        assert Endpoint.objects.get(name=PAY, retired=False).number == number

    def test_all_fields_but_the_name_can_be_edited(self, owner: Client) -> None:
        assert 'value="/v1/rides/{id}"' in page(owner, f"/endpoints/{GET}/edit")
        fields = {"method": "*", "path": "/v2/rides/{id}", "default_cost": "1", "clients": "many", "reason": "v2"}
        assert owner.post(f"/endpoints/{GET}/edit", fields).status_code == 302
        row = Endpoint.objects.get(name=GET)
        assert (row.method, row.path, row.hints) == ("*", "/v2/rides/{id}", {"clients": "many"})

    def test_a_cut_has_to_be_accepted(self, owner: Client) -> None:
        policy_create(name="pro-get", tier="pro", endpoint=GET, limits=[bucket(50, unit="cost")], **FORCED)
        fields = {"method": "GET", "path": "/v1/rides/{id}", "default_cost": "20", "reason": "heavy"}
        refused = owner.post(f"/endpoints/{GET}/edit", fields)
        assert (refused.status_code, "Save anyway" in text_of(refused.content)) == (422, True)
        assert owner.post(f"/endpoints/{GET}/edit", {**fields, "force": "on"}).status_code == 302

    def test_one_that_is_not_there_is_not_found(self, owner: Client) -> None:
        assert owner.get("/endpoints/no:such/edit").status_code == 404
        assert owner.get("/endpoints/no:such/retire").status_code == 404


class TestTheMatchTest:
    def test_it_says_what_would_be_taken_from_whom(self, owner: Client) -> None:
        endpoint_create(name="rides:part", method="GET", path="/v1/rides/{id}/{part}", **SAID)
        text = text_of(owner.post("/endpoints/match", NEW).content)
        assert "Takes requests from another endpoint." in text
        assert "now rides:part" in text

    def test_typed_paths_are_tried(self, owner: Client) -> None:
        paths = "https://api.example.com/v1/rides/7/receipt\nPOST /v1/charges"
        text = text_of(owner.post("/endpoints/match", {**NEW, "paths": paths}).content)
        assert "id = 7" in text
        assert "stays there" in text

    def test_a_path_that_is_none_is_said(self, owner: Client) -> None:
        assert "Path must start with /" in text_of(owner.post("/endpoints/match", {**NEW, "path": "x"}).content)

    def test_a_route_that_moves_says_what_is_left_behind(self, owner: Client) -> None:
        text = text_of(owner.post("/endpoints/match", {**NEW, "endpoint": GET, "path": "/v9"}).content)
        assert "Gives up its present route." in text
        assert "Without a path" in text_of(owner.post("/endpoints/match", {**NEW, "endpoint": GET, "path": ""}).content)


class TestRetiring:
    def test_what_counts_on_it_is_said_first(self, owner: Client) -> None:
        policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(1000)], **FORCED)
        counted("acme", "a", 50)
        text = page(owner, f"/endpoints/{PAY}/retire")
        assert "<dd>50</dd>" in text
        assert "pro-pay" in text
        assert "Its limits and overrides would go with it." in text

    def test_with_limits_it_needs_the_tick_and_can_be_undone(self, owner: Client) -> None:
        policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(50)], **FORCED)
        refused = owner.post(f"/endpoints/{PAY}/retire", {"reason": "old"})
        assert (refused.status_code, "has limits in pro-pay" in text_of(refused.content)) == (422, True)
        done = owner.post(f"/endpoints/{PAY}/retire", {"reason": "old", "with_limits": "on"})
        assert done["HX-Redirect"] == "/endpoints?state=retired"
        assert Endpoint.objects.get(name=PAY).retired
        revision_revert(number=newest().number, **FORCED)
        assert not Endpoint.objects.get(name=PAY).retired


class TestTheImport:
    def read(self, owner: Client, **fields: object) -> str:
        response = owner.post("/endpoints/import", {"pasted": OPENAPI, "do": "read", **fields})
        assert response.status_code == 200, response.content
        return text_of(response.content)

    def essence(self, owner: Client) -> str:
        response = owner.post("/endpoints/import", {"pasted": OPENAPI, "do": "read"})
        return str(response.context["text"])

    def test_operations_are_listed_beside_what_is_registered(self, owner: Client) -> None:
        text = self.read(owner)
        assert "4 operations found" in text
        assert "registered, the same" in text
        assert "path /v1/rides/{id} → /v1/rides/{ride_id}" in text
        assert "cost 1 → 3" in text
        assert 'value="rides:request-ride"' in text
        assert 'aria-label="Select POST /v1/rides"' in text  # with the base path, as it will be matched
        assert "is neither plain text nor one {variable}" in text

    def test_registered_and_unchanged_rows_cannot_be_ticked(self, owner: Client) -> None:
        response = owner.post("/endpoints/import", {"pasted": OPENAPI, "do": "read"})
        rows = response.context["rows"]
        assert [(one.row.state, one.row.may_be_chosen, one.is_picked) for one in rows] == [
            ("same", False, False),
            ("different", True, False),
            ("new", True, True),
            ("cannot", False, False),
        ]
        forced = {"text": self.essence(owner), "do": "register", "pick": ["0"], "reason": "r"}
        assert owner.post("/endpoints/import", forced).status_code == 422
        assert Endpoint.objects.count() == 2

    def test_what_was_pasted_is_not_read_again_in_place_of_the_choice(self, owner: Client) -> None:
        response = owner.post("/endpoints/import", {"pasted": OPENAPI, "do": "read"})
        shown = re.search(r'<textarea[^>]*name="pasted"[^>]*>(.*?)</textarea>', response.content.decode(), re.DOTALL)
        assert shown is not None
        assert shown[1] == ""

    def test_a_file_is_read_like_a_paste(self, owner: Client) -> None:
        file = SimpleUploadedFile("api.yaml", OPENAPI.encode(), "application/yaml")
        response = owner.post("/endpoints/import", {"file": file, "do": "read"})
        assert "4 operations found" in text_of(response.content)

    def test_what_is_ticked_is_registered_in_one_revision_with_the_names_as_edited(self, owner: Client) -> None:
        before = Revision.objects.count()
        fields = {"text": self.essence(owner), "base_path": "/v1", "base_of": "/v1", "do": "register"}
        chosen = {"pick": ["1", "2"], "name-2": "rides:ask", "reason": "version 2", "force": "on"}
        response = owner.post("/endpoints/import", {**fields, **chosen})
        assert (response.status_code, response["Location"]) == (302, "/endpoints")
        assert (Revision.objects.count(), newest().action) == (before + 1, "endpoint_import")
        assert Endpoint.objects.get(name="rides:ask").path == "/v1/rides"
        assert Endpoint.objects.get(name=GET).default_cost == 3

    def test_a_refusal_keeps_ticks_and_names(self, owner: Client) -> None:
        fields = {"text": self.essence(owner), "base_path": "/v1", "base_of": "/v1", "do": "register"}
        response = owner.post("/endpoints/import", {**fields, "pick": ["2"], "name-2": "No Name", "reason": "r"})
        assert response.status_code == 422
        text = text_of(response.content)
        assert "The endpoint&#x27;s name cannot be" in text or "name cannot be" in text
        assert 'value="No Name"' in text
        response = owner.post("/endpoints/import", {**fields, "pick": ["2"], "name-2": "rides:ask", "reason": ""})
        assert (response.status_code, "Reason is missing" in text_of(response.content)) == (422, True)
        response = owner.post("/endpoints/import", {**fields, "reason": "r"})
        assert (response.status_code, "Nothing is selected" in text_of(response.content)) == (422, True)
        assert Endpoint.objects.count() == 2

    def test_another_base_path_is_taken(self, owner: Client) -> None:
        fields = {"text": self.essence(owner), "base_path": "/beta", "base_of": "/v1", "do": "read"}
        response = owner.post("/endpoints/import", fields)
        assert response.context["plan"].document.base == "/beta"
        response = owner.post("/endpoints/import", {**fields, "base_path": ""})
        assert response.context["plan"].document.base == ""
        response = owner.post("/endpoints/import", {**fields, "base_path": "no"})
        assert (response.status_code, "The base path cannot be used" in text_of(response.content)) == (422, True)

    @pytest.mark.parametrize("pasted", ["", "a: &x 1", "{", "openapi: 3.0.0\npaths: {/a: {$ref: 'file:///x'}}", "\x00"])
    def test_a_document_that_cannot_be_read_is_refused_with_a_sentence(self, owner: Client, pasted: str) -> None:
        response = owner.post("/endpoints/import", {"pasted": pasted, "do": "read"})
        assert response.status_code in (400, 422)
