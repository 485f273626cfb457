"""A document beside what is registered, and the write of what was chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quotas.changes.commit import Proposed, Written, commit
from quotas.changes.undo import revision_revert
from quotas.endpoint_import.operations import ApiDocument, read_api
from quotas.endpoint_import.plan import chosen_of, document_import, endpoints_import, import_plan
from quotas.endpoints import endpoint_delete, endpoint_update
from quotas.errors import Refused, accepted
from quotas.models import Endpoint, Revision
from quotas.policies.endpoint import DeclaredEndpoint
from tests.quotas.world import FORCED, GET, PAY, SAID, newest

pytestmark = pytest.mark.usefixtures("world")


def read(paths: dict[str, Any], **more: Any) -> ApiDocument:
    return accepted(read_api(json.dumps({"openapi": "3.0.0", "info": {"title": "Rides"}, "paths": paths, **more})))


def operation(name: str = "", tag: str = "", cost: int | None = None) -> dict[str, Any]:
    return {"operationId": name, "tags": [tag] if tag else [], **({"x-headroom-cost": cost} if cost else {})}


SOME = {
    "/v1/charges": {"post": operation("charge", "pay")},
    "/v1/rides/{rideId}": {"get": operation("ride")},
    "/v1/rides": {"get": operation("listRides", "Rides"), "post": operation("", "Rides", 5)},
    "/v1/files/{name}.pdf": {"get": operation()},
}


def test_each_operation_stands_beside_what_is_registered() -> None:
    rows = import_plan(read(SOME)).rows
    assert [(row.name, row.state) for row in rows] == [
        (PAY, "same"),
        (GET, "different"),
        ("rides:list-rides", "new"),
        ("rides:post-v1-rides", "new"),
        ("", "cannot"),
    ]
    assert [(change.field, change.before, change.after) for change in rows[1].changes] == [
        ("path", "/v1/rides/{id}", "/v1/rides/{ride_id}")
    ]


def test_a_cost_that_is_not_stated_stays_and_one_that_is_becomes_a_change() -> None:
    assert import_plan(read({"/v1/charges": {"post": {}}})).rows[0].state == "same"
    [row] = import_plan(read({"/v1/charges": {"post": operation(cost=7)}})).rows
    assert [(change.field, change.before, change.after) for change in row.changes] == [("default_cost", 10, 7)]


def test_an_operation_whose_name_is_registered_with_another_route_is_a_change() -> None:
    [row] = import_plan(read({"/v2/charges": {"post": operation("charge", "payments")}})).rows
    assert (row.name, row.state, row.changes[0].after) == (PAY, "different", "/v2/charges")


def test_two_operations_never_get_the_same_name_or_route() -> None:
    rows = import_plan(read({"/a": {"get": operation("x", "t")}, "/b": {"get": operation("x", "t")}})).rows
    assert [row.name for row in rows] == ["t:x", "t:x-2"]
    rows = import_plan(read({"/a/{b}": {"get": {}}, "/a/{c}": {"get": {}}})).rows
    assert [row.state for row in rows] == ["new", "cannot"]


def test_a_service_may_be_given_for_all_new_names() -> None:
    names = [row.name for row in import_plan(read(SOME), "Rider App").of_state("new")]
    assert names == ["rider-app:list-rides", "rider-app:post-v1-rides"]


def test_what_is_new_is_registered_in_one_revision_that_can_be_undone() -> None:
    before = Revision.objects.count()
    document_import(document=read(SOME), **SAID)
    assert (Revision.objects.count(), newest().action) == (before + 1, "endpoint_import")
    row = Endpoint.objects.get(name="rides:post-v1-rides")
    assert (row.method, row.path, row.default_cost) == ("POST", "/v1/rides", 5)
    assert Endpoint.objects.get(name=GET).path == "/v1/rides/{id}"  # a change is made only if it is asked for
    revision_revert(number=newest().number, **FORCED)
    assert list(Endpoint.objects.filter(retired=False).values_list("name", flat=True)) == [PAY, GET]


def test_imported_again_nothing_changes() -> None:
    document_import(document=read(SOME), **SAID)
    before = Revision.objects.count()
    document_import(document=read(SOME), **SAID)
    assert Revision.objects.count() == before


def test_chosen_operations_may_change_what_is_registered_and_get_other_names() -> None:
    keys = ["GET /v1/rides/{rideId}", "GET /v1/rides"]
    document_import(document=read(SOME), operations=keys, names={"GET /v1/rides": "rides:all"}, **SAID)
    assert set(newest().touched) == {f"endpoint:{GET}", "endpoint:rides:all"}
    assert Endpoint.objects.get(name=GET).path == "/v1/rides/{ride_id}"


def test_a_change_keeps_the_hints() -> None:
    endpoint_update(name=GET, hints={"exact": True}, **SAID)
    document_import(document=read(SOME), operations=["GET /v1/rides/{rideId}"], **SAID)
    assert Endpoint.objects.get(name=GET).hints == {"exact": True}


@pytest.mark.parametrize(
    ("operations", "names", "said"),
    [
        (["GET /nothing"], {}, "the document has no operation GET /nothing"),
        (["GET /v1/files/{name}.pdf"], {}, "cannot be registered"),
        (["GET /v1/rides"], {"GET /v1/rides": "Wrong name"}, "GET /v1/rides: the endpoint's name cannot be"),
        (
            ["GET /v1/rides", "POST /v1/rides"],
            dict.fromkeys(["GET /v1/rides", "POST /v1/rides"], "a:b"),
            "same name a:b",
        ),
        (["GET /v1/rides"], {"GET /x": "a:b"}, "the document has no operation GET /x"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_and_nothing_is_written(
    operations: list[str], names: dict[str, str], said: str
) -> None:
    before = Revision.objects.count()
    with pytest.raises(Refused, match=said):
        document_import(document=read(SOME), operations=operations, names=names, **SAID)
    assert Revision.objects.count() == before


def test_a_dry_run_says_what_would_be_registered() -> None:
    outcome = commit(lambda: document_import(document=read(SOME), **SAID), "dry_run")
    assert isinstance(outcome, Proposed)
    assert [change.object for change in outcome.effect.changes] == [
        "endpoint:rides:list-rides",
        "endpoint:rides:post-v1-rides",
    ]
    assert Endpoint.objects.filter(retired=False).count() == 2


def test_a_retired_endpoint_that_is_imported_has_its_number_again() -> None:
    number = Endpoint.objects.get(name=PAY).number
    endpoint_delete(name=PAY, **FORCED)
    document_import(document=read({"/v1/charges": {"post": operation("charge", "payments")}}), **SAID)
    assert Endpoint.objects.get(name=PAY, retired=False).number == number


def test_thousands_are_judged_in_memory_and_written_once() -> None:
    many = [DeclaredEndpoint(f"many:e{n}", "GET", f"/many/{n}") for n in range(300)]

    def write() -> object:
        return endpoints_import(endpoints=many, **SAID)

    outcome = commit(write, rehearsal=write)
    assert isinstance(outcome, Written)
    assert len(outcome.revision.touched) == 300


def test_the_choice_of_all_new_ones_leaves_out_what_is_registered() -> None:
    assert [one.name for one in chosen_of(import_plan(read(SOME)))] == ["rides:list-rides", "rides:post-v1-rides"]
