"""/v1/tenants and /v1/overrides as lists: search, filters, orders, pages and CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from quotas.models import Override
from quotas.overrides import override_create
from quotas.tenant_summary import measure_tenants
from tenants.models import Tenant, Tier
from tests.access.people import machine, token
from tests.dashboards.world import counted
from tests.quotas.world import FORCED, PAY, SAID

pytestmark = pytest.mark.usefixtures("world")


def names(client: APIClient, query: str) -> list[str]:
    answer = client.get(f"/v1/tenants?{query}")
    assert answer.status_code == 200, answer.json()
    return [row["name"] for row in answer.json()["items"]]


def lines(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(answer).decode())))


def fleet(count: int) -> None:
    tier = Tier.objects.get(name="free")
    Tenant.objects.bulk_create(Tenant(name=f"fleet-{n:03}", tier=tier, tags=["city"]) for n in range(count))


def test_tenants_are_found_by_any_part_and_filtered(client: APIClient) -> None:
    fleet(3)
    Tenant.objects.filter(name="fleet-001").update(contacts=["ops@x.example"], suspended=True, suspended_reason="x")
    assert names(client, "search=LEET-00") == ["fleet-000", "fleet-001", "fleet-002"]
    assert names(client, "search=ops%40") == ["fleet-001"]
    assert names(client, "tag=city&state=active") == ["fleet-000", "fleet-002"]
    assert names(client, "tier=pro,free&search=acme") == ["acme"]
    assert names(client, "state=suspended") == names(client, "suspended=true") == ["fleet-001"]


def test_tenants_are_sorted_by_figures_and_paged(client: APIClient) -> None:
    fleet(5)
    counted("acme", "a", 60)
    counted("acme", "d", 40, limit="burst")
    counted("bolt", "a", 300)
    measure_tenants(timezone.now())
    assert names(client, "order=-asked&limit=2") == ["bolt", "acme"]
    found, cursor = [], ""
    for _ in range(9):
        page = client.get(f"/v1/tenants?order=-asked&limit=2{cursor}").json()
        found += [row["name"] for row in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert sorted(found) == names(client, "")
    figures = client.get("/v1/tenants?search=acme").json()["items"][0]["figures"]
    assert (figures["asked"], figures["denied"], figures["denied_share"], figures["tightest"]) == (100, 40, 0.4, None)
    wrong = client.get(f"/v1/tenants?order=asked{cursor}")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "cursor")


def test_lists_are_exported_as_csv_with_the_same_parameters(client: APIClient) -> None:
    fleet(3)
    Tenant.objects.filter(name="fleet-002").update(label="@SUM(1)")
    rows = lines(client.get("/v1/tenants.csv?search=fleet&order=-name"))
    assert [row["name"] for row in rows] == ["fleet-002", "fleet-001", "fleet-000"]
    assert rows[0]["label"] == "'@SUM(1)"
    assert lines(client.get("/v1/tenants.csv", headers={"accept": "text/csv"}))[0]["name"] == "acme"
    override_create(tenant="acme", multiplier=(2, 1), **SAID)
    assert [row["tenant"] for row in lines(client.get("/v1/overrides.csv?state=active"))] == ["acme"]
    wrong = client.get("/v1/tenants.csv?order=none", headers={"accept": "text/csv"})
    assert wrong.status_code == 400


def test_a_tenants_key_lists_and_exports_itself_alone(client: APIClient) -> None:
    own = machine(token("tenant", "read", tenant="bolt"))
    assert [row["name"] for row in own.get("/v1/tenants?search=o&order=-asked").json()["items"]] == ["bolt"]
    assert own.get("/v1/tenants?search=acme").json()["items"] == []
    assert [row["name"] for row in lines(own.get("/v1/tenants.csv"))] == ["bolt"]


def test_overrides_are_searched_filtered_and_sorted(client: APIClient) -> None:
    one = override_create(
        tenant="acme", endpoint=PAY, limits={"burst": {"rate": 5}}, author="ann", reason="strike", force=True
    )
    two = override_create(tenant="bolt", multiplier=(2, 1), **FORCED)

    def ids(query: str) -> list[int]:
        return [row["id"] for row in client.get(f"/v1/overrides?{query}").json()["items"]]

    assert ids("search=strike") == ids("tier=pro") == ids(f"endpoint={PAY}") == [one.pk]
    assert ids("order=-tenant") == ids("") == [two.pk, one.pk]
    assert ids("state=endless&order=created&limit=1") == [one.pk]


def test_overrides_are_extended_edited_and_ended_many_at_once(client: APIClient) -> None:
    given = client.post(
        "/v1/overrides/give",
        {"tenants": ["acme", "bolt"], "multiplier": {"numerator": 2}, "end": "2040-01-01T00:00:00Z", "reason": "x"},
    )
    assert given.status_code == 200, given.json()
    ids = given.json()["overrides"]
    longer = client.post("/v1/overrides/extend", {"overrides": ids, "by": "24h", "reason": "x"})
    assert longer.json()["revision"] == Override.objects.get(pk=ids[0]).created_revision_id + 1
    one = client.post(f"/v1/overrides/{ids[0]}/extend", {"until": "2041-01-01T00:00:00Z", "reason": "x"})
    assert one.json()["end"] == "2041-01-01T00:00:00Z"
    address = f"/v1/overrides/{ids[1]}"
    assert client.patch(address, {"end": None, "reason": "x"}).status_code == 428
    tag = client.get(address)["ETag"]
    assert client.patch(address, {"end": None, "reason": "x"}, headers={"if-match": tag}).json()["end"] is None
    assert client.patch(address, {"end": None, "reason": "x"}, headers={"if-match": tag}).status_code == 412
    fresh = client.patch(address, {"multiplier": {"numerator": 3}, "reason": "x"}, headers={"if-match": "*"}).json()
    assert (fresh["multiplier"], fresh["state"], fresh["id"] > ids[1]) == (
        {"numerator": 3, "denominator": 1},
        "active",
        True,
    )
    over = client.post("/v1/overrides/cancel", {"overrides": [ids[0], fresh["id"]], "reason": "x", "force": True})
    assert over.status_code == 200
    assert not Override.objects.filter(cancelled_at=None).exists()


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("extend", {"overrides": [1]}, 422),
        ("extend", {"overrides": [1], "by": "24h", "until": "2040-01-01T00:00:00Z"}, 422),
        ("extend", {"overrides": [], "by": "24h"}, 400),
        ("extend", {"overrides": ["1"], "by": "24h"}, 400),
        ("extend", {"overrides": [999], "by": "24h"}, 422),
        ("extend", {"overrides": [1], "by": "soon"}, 400),
        ("extend", {"overrides": [1], "by": "999999999999d"}, 422),
        ("give", {"tenants": ["nobody"], "multiplier": {"numerator": 2}}, 422),
        ("give", {"tenants": ["acme"]}, 422),
        ("cancel", {"overrides": [2**40]}, 400),
    ],
)
def test_what_cannot_be_done_says_why(client: APIClient, path: str, fields: dict[str, Any], status: int) -> None:
    answer = client.post(f"/v1/overrides/{path}", {"reason": "x", **fields})
    assert answer.status_code == status, answer.json()
    assert answer.json()["detail"]
