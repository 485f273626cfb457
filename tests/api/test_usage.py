"""/v1/usage and /v1/denials: any span and grouping, to a tenant's user the own tenant's only."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from rest_framework.test import APIClient

from headroom_edge import keys
from quotas.models.usage import DrainState, GapRecord
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.usage.batch_format import DenialRecord
from quotas.usage.queries.denial_log import CAUSES
from quotas.usage.rollups import add_cells, add_denials
from tenants.models import Tenant
from tests.access.people import token

pytestmark = pytest.mark.usefixtures("world")


@pytest.fixture
def now() -> datetime:
    """acme asked 5 times, of which 2 were denied; bolt once."""
    now = timezone.now()
    second = int(now.timestamp()) - 60
    acme, bolt = (Tenant.objects.get(name=name).number for name in ("acme", "bolt"))
    counted = [(acme, "a", 3), (acme, "d", 2), (bolt, "a", 1)]
    with transaction.atomic():
        add_cells(Cells.of(Cell(second, CellSeries(who, 1, outcome, 0), n, 2 * n) for who, outcome, n in counted), now)
        denied = [
            DenialRecord(who, 1, second * 10**6 + i, 0, "limit", 1, 250_000, 7, b"")
            for i, who in enumerate((acme, bolt))
        ]
        add_denials(denied, now)
    DrainState.objects.create(drained_at=now, run_id="x")
    return now


def rows(client: APIClient, **asked: Any) -> list[dict[str, Any]]:
    answer = client.get("/v1/usage", asked)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["rows"]
    return found


def test_the_whole_is_one_row(client: APIClient, now: datetime) -> None:
    (row,) = rows(client)
    assert (row["allowed"], row["denied"], row["allowed_cost"], row["start"]) == (4, 2, 8, None)


def test_groups_and_steps(client: APIClient, now: datetime) -> None:
    found = rows(client, group="tenant,outcome", step="1h")
    assert {(row["tenant"], row["outcome"], row["count"]) for row in found} == {
        ("acme", "allowed", 3),
        ("acme", "denied", 2),
        ("bolt", "allowed", 1),
    }
    assert rows(client, tenant="acme", outcome="denied", group="tier")[0]["denied"] == 2


def test_gaps_are_told(client: APIClient, now: datetime) -> None:
    GapRecord.objects.create(start=now - timedelta(hours=2), end=now - timedelta(hours=1), reason="Redis restarted")
    answer = client.get("/v1/usage").json()
    assert [gap["reason"] for gap in answer["gaps"]] == ["Redis restarted"]
    assert answer["is_whole"]


def test_a_gap_of_some_shards_is_told_to_their_tenants(client: APIClient, now: datetime) -> None:
    start, end, shards = now - timedelta(hours=2), now - timedelta(hours=1), [keys.shard_of("acme")]
    GapRecord.objects.create(start=start, end=end, reason="Redis restarted.", shards=shards)

    def reasons(**asked: str) -> list[str]:
        return [gap["reason"] for gap in client.get("/v1/usage", asked).json()["gaps"]]

    assert reasons() == ["Redis restarted. Counts of 1 of 64 shards may be missing."]
    assert reasons(tenant="acme") == ["Redis restarted."]
    assert reasons(tenant="bolt") == []


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({"step": "7s"}, 400, "step"),
        ({"step": "10s", "begin": "2030-01-01T00:00:00Z", "end": "2031-01-01T00:00:00Z"}, 422, "step"),
        ({"begin": "2031-01-01T00:00:00Z", "end": "2030-01-01T00:00:00Z"}, 422, "begin"),
        ({"begin": "0001-01-01T00:00:00Z"}, 400, "begin"),
        ({"group": "tenant,colour"}, 400, "group"),
        ({"outcome": "lost"}, 400, "outcome"),
        ({"tier": "lorem ipsum"}, 400, "tier"),
        ({"tier": " free"}, 400, "tier"),
        ({"endpoint": "rides:get,,rides:list"}, 400, "endpoint"),
        ({"tenant": ",".join(f"t{n}" for n in range(101))}, 422, "tenant"),
        ({"nonsense": "1"}, 400, "nonsense"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_its_place(
    client: APIClient, asked: Any, status: int, field: str
) -> None:
    answer = client.get("/v1/usage", asked)
    assert answer.status_code == status
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_tenants_user_sees_the_own_tenant_only(now: datetime) -> None:
    client = APIClient(headers={"Authorization": f"Bearer {token('tenant', 'read', tenant='bolt')}"})
    assert [(row["tenant"], row["count"]) for row in rows(client, group="tenant")] == [("bolt", 1)]
    assert client.get("/v1/usage", {"tenant": "acme"}).status_code == 404
    assert [row["tenant"] for row in client.get("/v1/denials").json()["items"]] == ["bolt"]
    assert client.get("/v1/denials", {"tenant": "acme"}).status_code == 404


def test_denials_are_filtered_by_cause(client: APIClient, now: datetime) -> None:
    acme, at_us = Tenant.objects.get(name="acme").number, int(now.timestamp()) * 10**6
    shared = [DenialRecord(acme, 1, at_us + i, 0, f"limit/{cause}", 1, 1, 7, b"") for i, cause in enumerate(CAUSES)]
    with transaction.atomic():
        add_denials(shared, now)
    since = (now - timedelta(hours=1)).isoformat()
    answer = client.get("/v1/denials", {"cause": "pool", "since": since}).json()
    assert [row["cause"] for row in answer["items"]] == ["pool"]
    assert answer["counted"] is None
    assert client.get("/v1/denials", {"cause": "weather"}).status_code == 400


def test_denials_say_how_many_they_are_a_sample_of(client: APIClient, now: datetime) -> None:
    assert client.get("/v1/denials").json()["counted"] is None
    since = (timezone.now() - timedelta(days=1)).isoformat()
    answer = client.get("/v1/denials", {"since": since, "tenant": "nobody"}).json()
    assert answer["counted"] == {"denied": 0, "unlisted": 0, "kept_since": None}
    assert client.get("/v1/denials", {"since": "yesterday"}).status_code == 400


def test_denials_come_newest_first_and_in_pages(client: APIClient, now: datetime) -> None:
    first = client.get("/v1/denials", {"most": 1}).json()
    assert (first["items"][0]["tenant"], first["items"][0]["revision"]) == ("bolt", 7)
    second = client.get("/v1/denials", {"most": 1, "before": first["next"]}).json()
    assert ([row["tenant"] for row in second["items"]], second["next"]) == (["acme"], None)
    assert client.get("/v1/denials", {"tenant": "acme", "reason": "suspended"}).json()["items"] == []
