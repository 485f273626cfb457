from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from quotas.models import Endpoint
from quotas.models.usage import UsageDay
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.policies.edit import limit_set, policy_create
from quotas.tenants import NewTenant, tenants_create
from quotas.tenants.moves import LimitMove, move_preview
from quotas.usage.rollups import add_cells
from tenants.models import Tenant
from tests.quotas.changes.test_peaks import asked
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket

pytestmark = pytest.mark.usefixtures("world")


def limits(tenant: str, tier: str) -> dict[tuple[str, str], LimitMove]:
    (move,) = move_preview(names=[tenant], tier=tier).moves
    return {(each.scope, each.limit): each for each in move.limits}


def test_a_limit_that_is_new_to_the_tenant_is_no_cut() -> None:
    policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(1, "charges")], **FORCED)
    found = limits("bolt", "pro")
    assert {place: each.change for place, each in found.items()} == {("*", "burst"): "looser", (PAY, "charges"): "new"}
    assert (found["*", "burst"].before, found["*", "burst"].after) == ("10/s burst 20", "100/s burst 200")
    assert (found[PAY, "charges"].before, found[PAY, "charges"].after) == ("", "1/s burst 2")


def test_who_gets_tighter_comes_first() -> None:
    tenants_create(tenants=[NewTenant("aaa", "free"), NewTenant("zzz", "pro")], **SAID)
    preview = move_preview(names=["aaa", "acme", "zzz"], tier="free")
    assert ([move.tenant for move in preview.moves], preview.stay, preview.tighter) == (["acme", "zzz"], 1, 2)
    (burst, minute) = preview.moves[0].limits
    assert (burst.change, minute.change, minute.after) == ("tighter", "gone", "")


def test_limits_of_its_own_stay_and_are_not_listed() -> None:
    policy_create(name="own", tenant="acme", limits=[bucket(77)], **FORCED)
    assert {place: each.change for place, each in limits("acme", "free").items()} == {("*", "minute"): "gone"}


def test_an_endpoint_that_falls_back_to_the_limit_everywhere_says_so() -> None:
    policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(500)], **FORCED)
    found = limits("acme", "free")[PAY, "burst"]
    assert (found.before, found.after, found.change) == ("500/s burst 1,000", "10/s burst 20 of *", "tighter")


def test_a_limit_under_another_name_that_is_no_tighter_is_nothing_new() -> None:
    limit_set(policy="free-all", limit=bucket(150, "other"), **FORCED)
    assert ("*", "other") not in limits("acme", "free")


def test_tenants_alike_are_told_the_same() -> None:
    tenants_create(tenants=[NewTenant(f"t{n}", "free") for n in range(5)], **SAID)
    moves = move_preview(names=[f"t{n}" for n in range(5)], tier="pro").moves
    assert len({move.limits for move in moves}) == 1


def test_what_a_tenant_asked_for_is_held_against_the_new_limit() -> None:
    asked("acme", 50, seconds=10)
    preview = move_preview(names=["acme"], tier="free")
    assert preview.hurt == 1
    assert preview.moves[0].hurt[0].peak == "asked for 500 in 10 s; 120 will pass"


def quota(period: str) -> dict[str, object]:
    return {"name": "quota", "algorithm": "calendar_quota", "limit": 1_000, "period": period}


def test_a_quota_of_a_month_is_not_said_to_be_above_what_was_asked_for() -> None:
    limit_set(policy="free-all", limit=quota("month"), **FORCED)
    preview = move_preview(names=["acme"], tier="free")
    assert [(each.limit, each.change) for each in preview.unmeasured] == [("quota", "new")]
    assert limits("acme", "free")["*", "burst"].is_measured


@pytest.mark.parametrize(("requests", "told"), [(800, ""), (1_200, "asked for 1,200 in a day; 1,000 will pass")])
def test_a_quota_of_a_day_is_held_against_the_busiest_day(requests: int, told: str) -> None:
    tenants_create(tenants=[NewTenant("zest", "pro")], **SAID)
    limit_set(policy="free-all", limit=quota("day"), **FORCED)
    counted_on("acme", [700, requests])
    preview = move_preview(names=["acme", "zest"], tier="free")
    assert {move.tenant: [each.peak for each in move.hurt] for move in preview.moves} == {
        "acme": [told] if told else [],
        "zest": [],
    }
    assert not preview.unmeasured


def test_denied_requests_count_and_those_of_a_trial_do_not() -> None:
    limit_set(policy="free-all", limit=quota("day"), **FORCED)
    counted_on("acme", [600], outcome="a")
    counted_on("acme", [9_000], outcome="w")
    assert not move_preview(names=["acme"], tier="free").hurt
    counted_on("acme", [600], outcome="d")
    assert move_preview(names=["acme"], tier="free").hurt


def counted_on(name: str, requests: list[int], outcome: str = "a") -> None:
    """So many on each of the days before today."""
    now = timezone.now()
    series = CellSeries(Tenant.objects.get(name=name).number, Endpoint.objects.get(name=GET).number, outcome, 0)
    days = ((int((now - timedelta(days=ago)).timestamp()), count) for ago, count in enumerate(requests, 1))
    with transaction.atomic():
        add_cells(Cells.of(Cell(start, series, count, count) for start, count in days), now, (UsageDay,))
