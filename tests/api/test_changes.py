"""/v1/changes: proposed or made to wait, approved, tried out, scheduled, promoted or dropped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from quotas.models import AuditEvent, Change, Endpoint, FoldState, Override, Revision
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.usage.rates import add_rates
from tenants.models import Tenant
from tests.access.people import token
from tests.quotas.trials.traffic import counted
from tests.quotas.world import GET, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")
ANY = {"If-Match": "*"}
HALF = {"limits": [bucket(5)], "reason": "less", "force": True}


def proposed(client: APIClient, **fields: Any) -> str:
    answer = client.put("/v1/policies/free-all", HALF | {"propose": True} | fields, headers=ANY)
    assert answer.status_code == 202, answer.json()
    return str(answer["Location"])


@pytest.fixture
def approver(client: APIClient) -> APIClient:
    return APIClient(headers={"Authorization": f"Bearer {token('approver')}"})


def test_what_is_proposed_changes_nothing_and_says_what_it_would(client: APIClient) -> None:
    before = Revision.objects.count()
    path = proposed(client)
    assert Revision.objects.count() == before
    shown = client.get(path).json()
    assert (shown["state"], shown["author"], shown["touched"]) == ("pending", "ann", ["policy:free-all"])
    assert shown["changes"][0]["fields"][0] == {"path": "limits.burst.rate", "before": 10, "after": 5}
    assert shown["impact"]["hurt"] == ["bolt"]
    for query, count in {"state=pending": 1, "state=canary": 0, "object=policy:free-all": 1, "author=bob": 0}.items():
        assert len(client.get(f"/v1/changes?{query}").json()["items"]) == count


def test_it_is_promoted_with_a_revision(client: APIClient) -> None:
    path = proposed(client)
    done = client.post(f"{path}/promote", {"reason": "now"})
    assert (done.status_code, done.json()["state"]) == (200, "promoted")
    assert done["Headroom-Revision"] == str(newest().number) == str(done.json()["end_revision"])
    assert limit_of("free-all").parameters["rate"] == 5
    again = client.post(f"{path}/promote", {"reason": "now"})
    assert (again.status_code, again.json()["code"]) == (409, "over")


def test_it_is_tried_by_a_share_of_the_tenants_and_dropped(client: APIClient) -> None:
    path = proposed(client)
    asked = {"mode": "canary", "share_percent": 12.5, "force": True, "reason": "try"}
    started = client.post(f"{path}/start", asked).json()
    assert (started["state"], started["share_percent"]) == ("canary", 12.5)
    assert client.put("/v1/policies/free-all", HALF, headers=ANY).json()["code"] == "in-use"
    assert client.post(f"{path}/drop", {"reason": "no"}).json()["state"] == "dropped"
    assert limit_of("free-all").parameters["rate"] == 10


def test_a_scheduled_cut_lists_whom_it_will_hurt_and_can_spare_them(client: APIClient) -> None:
    path = proposed(client)
    at = (timezone.now() + timedelta(days=1)).isoformat()
    asked = {"mode": "scheduled", "at": at, "reason": "in a day"}
    rehearsed = client.post(f"{path}/start?dry_run=true", asked | {"force": True}).json()
    assert (rehearsed["impact"]["hurt"], rehearsed["needs_force"]) == (["bolt"], True)
    assert rehearsed["changes"][0]["object"] == "policy:free-all"
    assert client.get(path).json()["state"] == "pending"
    assert client.post(f"{path}/start", asked).json()["code"] == "cut"
    spared = client.post(f"{path}/start", asked | {"grandfather": ["*"]}).json()
    assert (spared["state"], spared["grandfather"], spared["impact"]["hurt"]) == ("scheduled", ["*"], [])
    promoted = client.post(f"{path}/promote?dry_run=true", {"reason": "now"}).json()
    assert promoted["impact"]["hurt"] == []


def test_with_four_eyes_a_change_waits_for_another(client: APIClient, approver: APIClient, settings: Settings) -> None:
    settings.HEADROOM_FOUR_EYES = True
    waiting = client.put("/v1/policies/free-all", HALF, headers=ANY)
    path = waiting["Location"]
    assert (waiting.status_code, waiting.json()) == (202, {"change": Change.objects.get().pk})
    assert client.put("/v1/policies/free-all?dry_run=true", HALF, headers=ANY).json()["impact"]["hurt"] == ["bolt"]
    refused = client.post(f"{path}/promote", {"reason": "now"})
    assert (refused.status_code, refused.json()["code"]) == (409, "approval")
    assert client.post(f"{path}/approve", {"reason": "mine"}).json()["code"] == "author"
    approved = approver.post(f"{path}/approve", {"reason": "seen"}).json()
    assert [approval["reason"] for approval in approved["approvals"]] == ["seen"]
    assert client.post(f"{path}/promote", {"reason": "now"}).json()["state"] == "promoted"


def test_an_emergency_waits_for_nobody_and_is_noted(client: APIClient, settings: Settings) -> None:
    settings.HEADROOM_FOUR_EYES = True
    assert client.put("/v1/policies/free-all", HALF | {"emergency": True}, headers=ANY).status_code == 200
    assert AuditEvent.objects.filter(kind="approval_skipped").exists()


def test_the_same_key_files_once(client: APIClient) -> None:
    asked = {"name": "own", "tenant": "acme", "limits": [bucket(500)], "propose": True, "reason": "more"}
    answers = [client.post("/v1/policies", asked, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0]["Location"] == answers[1]["Location"]
    assert Change.objects.count() == 1


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({"mode": "slowly"}, 400, "mode"),
        ({"mode": "canary"}, 422, "share_percent"),
        ({"mode": "canary", "share_percent": "5"}, 400, "share_percent"),
        ({"mode": "canary", "share_percent": 100}, 400, "share_percent"),
        ({"mode": "scheduled"}, 422, "at"),
        ({"mode": "scheduled", "at": "2020-01-01T00:00:00Z"}, 422, "at"),
        ({"mode": "scheduled", "at": "2030-01-01T00:00:00Z", "grandfather": ["nobody"]}, 422, "tenant"),
    ],
)
def test_a_wrong_start_is_refused_by_its_field(
    client: APIClient, asked: dict[str, Any], status: int, field: str
) -> None:
    answer = client.post(f"{proposed(client)}/start", asked | {"reason": "x"})
    assert (answer.status_code, answer.json()["field"]) == (status, field)


def test_one_that_is_not_there(client: APIClient) -> None:
    assert client.get("/v1/changes/99").status_code == 404
    for step in ("promote", "drop", "approve"):
        assert client.post(f"/v1/changes/99/{step}", {"reason": "x"}).status_code == 404


def tried(client: APIClient, rate: int = 5) -> str:
    path = proposed(client, limits=[bucket(rate)])
    started = client.post(f"{path}/start", {"mode": "shadow", "reason": "see whom it hurts"})
    assert (started.status_code, started.json()["state"]) == (200, "shadow")
    return path


def test_a_trial_says_its_verdict_its_bars_and_its_tenants(client: APIClient) -> None:
    path = tried(client)
    at = timezone.now()
    counted(at, "bolt", allowed=400, denied=6, would=30, passes=1)
    FoldState.objects.create(name="minutes", until=at + timedelta(minutes=1))
    shown = client.get(f"{path}/trial").json()
    assert (shown["state"], shown["canary"]) == ("shadow", None)
    assert shown["verdict"]["code"] == "above_share"
    assert shown["rule"]["bar_share"] == 0.01
    assert [stage["state"] for stage in shown["stages"]] == ["pending", "shadow"]
    (bolt,) = shown["shadow"]["tenants"]
    counts = {name: bolt[name] for name in ("tenant", "asked", "would_deny", "would_allow", "denied", "worst_would")}
    assert counts == {
        "tenant": "bolt",
        "asked": 406,
        "would_deny": 30,
        "would_allow": 1,
        "denied": 6,
        "worst_would": 30,
    }
    assert client.get(f"{path}/trial?tenants=0").json()["shadow"]["tenants"] == []


def test_a_trial_gets_other_bars_and_a_later_end(client: APIClient) -> None:
    path = tried(client)
    ends = (timezone.now() + timedelta(days=5)).isoformat()
    asked = {"bar_share": 0.2, "ends": ends, "then": "promote", "auto_stop": False, "reason": "we can bear it"}
    read = client.get(f"{path}/trial")
    counted(timezone.now(), "bolt", allowed=5)
    done = client.patch(f"{path}/trial", asked, headers={"If-Match": read["ETag"]})
    assert done.status_code == 200, done.json()
    rule = done.json()["rule"]
    assert (rule["bar_share"], rule["bar_tenant"], rule["then"], rule["auto_stop"]) == (0.2, 0.05, "promote", False)
    assert client.patch(f"{path}/trial", asked, headers={"If-Match": read["ETag"]}).status_code == 412
    refused = client.patch(f"{path}/trial", {"ends": "2020-01-01T00:00:00Z", "reason": "why"}, headers=ANY)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "ends")


def test_a_promotion_may_cut_what_was_seen_and_tenants_below_their_peak_by_name(client: APIClient) -> None:
    path = proposed(client, force=False)
    asked_for("bolt", 28)
    impact = client.post(f"{path}/promote?dry_run=true", {"reason": "to see"}).json()["impact"]
    assert [below["tenant"] for below in impact["below"]] == ["bolt"]
    seen = [{"endpoint": "*", "limit": "burst", "percent": 20}]
    deeper = client.post(f"{path}/promote", {"reason": "now", "cuts": seen})
    assert (deeper.status_code, deeper.json()["code"]) == (422, "cut")
    for field in ({"force": True}, {"cuts": impact["worst"]}):
        unnamed = client.post(f"{path}/promote", {"reason": "now", **field})
        assert (unnamed.status_code, unnamed.json()["code"]) == (422, "below-peak")
        assert "olt asked for up to 28" in unnamed.content.decode()
    done = client.post(f"{path}/promote", {"reason": "now", "cuts": impact["worst"], "accept": ["bolt"]})
    assert (done.status_code, done.json()["state"]) == (200, "promoted")


def test_a_tenant_below_its_peak_keeps_its_limits_for_some_days(client: APIClient) -> None:
    path = proposed(client, force=False)
    asked_for("bolt", 28)
    asked = {"reason": "now", "force": True, "grandfather": ["bolt"], "grandfather_days": 30}
    assert client.post(f"{path}/promote", asked).status_code == 200
    override = Override.objects.get()
    assert (override.tenant.name, override.limits["burst"]["rate"]) == ("bolt", 10)
    assert override.end is not None


def test_a_reverted_promotion_says_so_and_its_trial_stays_over(client: APIClient) -> None:
    path = tried(client, rate=20)
    assert client.post(f"{path}/promote", {"reason": "fine"}).status_code == 200
    number = newest().number
    assert client.post(f"/v1/revisions/{number}/revert", {"reason": "not yet"}).status_code == 200
    shown = client.get(path).json()
    assert (shown["state"], shown["revert_revision"]) == ("reverted", number + 1)
    assert limit_of("free-all").candidate is None


def asked_for(tenant: str, peak: int) -> None:
    """So many requests in one second, some days ago."""
    now = timezone.now()
    series = CellSeries(Tenant.objects.get(name=tenant).number, Endpoint.objects.get(name=GET).number, "a", 0)
    start = int((now - timedelta(days=3)).timestamp()) // 60 * 60
    with transaction.atomic():
        add_rates(Cells.of([Cell(start, series, peak, peak)]), now)
