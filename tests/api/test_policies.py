"""/v1/policies and their limits."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from quotas.models import Policy, Revision
from quotas.policies.edit import candidate_set
from tests.quotas.world import PAY, SAID, bucket, limit_of

pytestmark = pytest.mark.usefixtures("world")
ANY = {"If-Match": "*"}


def test_what_is_read_can_be_written_back(client: APIClient) -> None:
    read = client.get("/v1/policies/pro-all")
    assert [limit["name"] for limit in read.json()["limits"]] == ["burst", "minute"]
    asked = {"limits": read.json()["limits"], "reason": "none"}
    written = client.put("/v1/policies/pro-all", asked, headers={"If-Match": read["ETag"]})
    assert (written.status_code, written.json()) == (200, read.json())
    assert "Headroom-Revision" not in written


def test_they_are_listed_by_what_they_are_attached_to(client: APIClient) -> None:
    asked = {"name": "acme-pay", "tenant": "acme", "endpoint": PAY, "limits": [bucket(500)], "reason": "own"}
    assert client.post("/v1/policies", asked).status_code == 201

    def names(query: str) -> list[str]:
        return [row["name"] for row in client.get(f"/v1/policies?{query}").json()["items"]]

    assert names("") == ["acme-pay", "free-all", "pro-all"]
    assert names("tier=free") == ["free-all"]
    assert names("tenant=acme") == ["acme-pay"]
    assert names(f"endpoint={PAY}&order=-name") == ["acme-pay"]


def test_a_dry_run_shows_the_diff_and_the_tier_s_tenants(client: APIClient) -> None:
    asked = {"limits": [bucket(12)], "reason": "more"}
    answer = client.put("/v1/policies/free-all?dry_run=true", asked, headers=ANY).json()
    assert answer["changes"] == [
        {
            "object": "policy:free-all",
            "action": "update",
            "fields": [
                {"path": "limits.burst.rate", "before": 10, "after": 12},
                {"path": "limits.burst.burst", "before": 20, "after": 24},
            ],
        }
    ]
    assert answer["tenants"] == {"count": 1, "names": ["bolt"], "is_everyone": False}
    assert limit_of("free-all").parameters["rate"] == 10


def test_a_lease_is_forbidden_bounded_and_left_out_again(client: APIClient) -> None:
    path = "/v1/policies/free-all/limits/burst"
    for lease in ("never", "250ms"):
        done = client.put(path, {"limit": bucket(10, lease=lease), "reason": "exact"}, headers=ANY).json()
        assert done["limits"][0]["lease"] == lease
    assert client.get("/v1/tenants/bolt/limits").json()["limits"][0]["words"].endswith("leased for at most 250 ms")
    assert "lease" not in client.put(path, {"limit": bucket(10), "reason": "as usual"}, headers=ANY).json()["limits"][0]
    refused = client.put(path, {"limit": bucket(10, lease="5s"), "reason": "slow"}, headers=ANY)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["detail"] == "limits[0].lease must be never or a duration from 10ms to 1s, not '5s'."


def test_one_limit_is_set_and_removed(client: APIClient) -> None:
    path = "/v1/policies/free-all/limits/day"
    limit = {"algorithm": "fixed_window", "limit": 10**6, "window": "1d", "mode": "shadow"}
    done = client.put(path, {"limit": limit, "reason": "cap"}, headers=ANY)
    assert [one["name"] for one in done.json()["limits"]] == ["burst", "day"]
    assert client.delete(f"{path}?reason=x", headers={"If-Match": done["ETag"]}).status_code == 204
    last = client.delete("/v1/policies/free-all/limits/burst?reason=x", headers=ANY)
    assert (last.status_code, last.json()["code"]) == (422, "empty")


def test_everything_that_is_wrong_is_told_by_its_field(client: APIClient) -> None:
    wrong = [bucket(0), {"name": "w", "algorithm": "fixed_window", "limit": 5, "window": "soon"}]
    answer = client.post("/v1/policies", {"name": "x", "tier": "free", "limits": wrong, "reason": "r"})
    assert answer.status_code == 422
    fields = [error["field"] for error in answer.json()["errors"]]
    assert fields == ["limits[0].rate", "limits[0].burst", "limits[1].window"]
    assert not Policy.objects.filter(name="x").exists()


def test_one_that_goes_is_not_found_again(client: APIClient) -> None:
    asked = {"name": "acme-pay", "tenant": "acme", "endpoint": PAY, "limits": [bucket(500)], "reason": "own"}
    client.post("/v1/policies", asked)
    path = "/v1/policies/acme-pay?reason=x&carry=reset"
    assert client.delete(f"{path}&dry_run=true", headers=ANY).json()["needs_force"] is True
    assert client.delete(path, headers=ANY).json()["code"] == "cut"
    assert client.delete(f"{path}&force=true", headers=ANY).status_code == 204
    assert client.get("/v1/policies/acme-pay").status_code == 404


CANDIDATE = {"algorithm": "token_bucket", "rate": 50, "burst": 100}


def test_what_get_gave_is_taken_as_it_is(client: APIClient) -> None:
    candidate_set(policy="pro-all", limit="burst", candidate=CANDIDATE, **SAID)
    got = client.get("/v1/policies/pro-all")
    assert {"name", "endpoint", "candidates"} < got.json().keys()
    before = Revision.objects.count()
    put = client.put("/v1/policies/pro-all", {**got.json(), "reason": "as it is"}, headers={"If-Match": got["ETag"]})
    assert (put.status_code, put.json()) == (200, got.json())
    assert Revision.objects.count() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "other"), ("tier", "free"), ("tenant", "acme"), ("endpoint", PAY), ("candidates", {"burst": {}})],
)
def test_what_a_put_cannot_change_is_refused_by_name(client: APIClient, field: str, value: object) -> None:
    asked = {"limits": [bucket(120)], "reason": "more", field: value}
    refused = client.put("/v1/policies/pro-all", asked, headers=ANY)
    assert (refused.status_code, refused.json()["field"], refused.json()["code"]) == (422, field, "fixed")


def test_a_policy_and_a_limit_are_renamed_by_whoever_saw_the_present_ones(client: APIClient) -> None:
    path = "/v1/policies/pro-all"
    stale = client.post(f"{path}/rename", {"to": "pro-rest", "reason": "clearer"}, headers={"If-Match": '"x"'})
    assert stale.status_code == 412
    match = {"If-Match": client.get(path)["ETag"]}
    rehearsed = client.post(f"{path}/rename?dry_run=true", {"to": "pro-rest", "reason": "x"}, headers=match).json()
    assert [change["object"] for change in rehearsed["changes"]] == ["policy:pro-all", "policy:pro-rest"]
    renamed = client.post(f"{path}/rename", {"to": "pro-rest", "reason": "clearer"}, headers=match)
    assert (renamed.status_code, renamed.json()["name"]) == (200, "pro-rest")
    assert client.get(path).status_code == 404
    match = {"If-Match": client.get("/v1/policies/pro-rest")["ETag"]}
    asked = {"to": "minutely", "reason": "clearer"}
    renamed = client.post("/v1/policies/pro-rest/limits/minute/rename", asked, headers=match)
    assert [limit["name"] for limit in renamed.json()["limits"]] == ["burst", "minutely"]
    wrong = client.post("/v1/policies/pro-rest/limits/burst/rename", asked, headers={"If-Match": "*"})
    assert (wrong.status_code, wrong.json()["field"]) == (409, "to")


def test_a_rate_with_decimals_comes_back_as_it_was_sent(client: APIClient) -> None:
    limit = {"name": "slow", "algorithm": "token_bucket", "rate": 4.2, "per": "10s", "burst": 8}
    made = client.post(
        "/v1/policies", {"name": "slow", "tenant": "bolt", "limits": [limit], "reason": "because", "force": True}
    )
    assert made.status_code == 201, made.json()
    (shown,) = made.json()["limits"]
    assert {field: shown[field] for field in limit} == limit
    text = {**limit, "rate": "0.5/m"}
    del text["per"]
    put = client.put(
        "/v1/policies/slow/limits/slow", {"limit": text, "reason": "because", "force": True}, headers={"If-Match": "*"}
    ).json()
    assert (put["limits"][0]["rate"], put["limits"][0]["per"]) == (0.5, "1m")
