"""A cut below what somebody has asked for needs force, however small it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from quotas.changes.impact import revision_impact
from quotas.errors import Refused
from quotas.models import Endpoint, Revision
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.overrides import override_create
from quotas.policies.edit import limit_set, policy_create, policy_update
from quotas.policies.rename import limit_rename
from quotas.tenants import NewTenant, tenants_create
from quotas.usage.rates import add_rates
from tenants.models import Tenant
from tests.quotas.world import FORCED, GET, SAID, bucket, newest

pytestmark = pytest.mark.usefixtures("world")


def asked(
    name: str,
    requests: int,
    *,
    days_ago: int = 3,
    seconds: int = 1,
    cost: int = 1,
    outcome: str = "a",
    endpoint: str = GET,
) -> None:
    """So many in each of so many seconds."""
    now = timezone.now()
    start = int((now - timedelta(days=days_ago)).timestamp()) // 60 * 60
    series = CellSeries(Tenant.objects.get(name=name).number, Endpoint.objects.get(name=endpoint).number, outcome, 0)
    with transaction.atomic():
        add_rates(Cells.of(Cell(start + i, series, requests, requests * cost) for i in range(seconds)), now)


def refusal(edit: Callable[[], object]) -> list[str]:
    before = Revision.objects.count()
    with pytest.raises(Refused) as refused:
        edit()
    assert {problem.code for problem in refused.value.problems} == {"cut"}
    assert Revision.objects.count() == before
    return [str(problem) for problem in refused.value.problems]


def test_a_small_cut_below_a_peak_is_refused_with_the_number() -> None:
    asked("acme", 290)
    (said,) = refusal(lambda: limit_set(policy="pro-all", limit=bucket(95), **SAID))
    assert said == (
        "tier pro: limit burst on *: 100/s sustained, up to 200 at once → 95/s sustained, up to 190 at once, "
        "a cut of 5 %; acme asked for up to 290 requests in 1 s, of which 285 would pass; "
        "make the cut smaller, or apply it anyway (force)"
    )
    assert limit_set(policy="pro-all", limit=bucket(95), **FORCED)
    assert revision_impact(newest()).hurt == ("acme",)


@pytest.mark.parametrize(("requests", "days_ago"), [(285, 3), (10, 3), (290, 40)])
def test_a_small_cut_above_every_peak_of_four_weeks_passes(requests: int, days_ago: int) -> None:
    asked("acme", requests, days_ago=days_ago)
    assert limit_set(policy="pro-all", limit=bucket(95), **SAID)


def test_what_was_denied_was_asked_for_too() -> None:
    asked("acme", 200, outcome="a")
    asked("acme", 90, outcome="d")
    assert refusal(lambda: limit_set(policy="pro-all", limit=bucket(95), **SAID))


def test_a_peak_of_today_counts() -> None:
    asked("acme", 290, days_ago=0)
    assert refusal(lambda: limit_set(policy="pro-all", limit=bucket(95), **SAID))


def test_a_raise_and_an_edit_that_changes_nothing_pass_whatever_the_peak() -> None:
    asked("acme", 5_000)
    assert limit_set(policy="pro-all", limit=bucket(101), **SAID)


def test_a_rename_takes_nothing_away_whatever_the_peak() -> None:
    asked("acme", 5_000)
    assert limit_rename(policy="pro-all", limit="minute", to="minutely", **SAID)
    assert revision_impact(newest()).below_count == 0


def test_a_limit_under_another_name_is_held_against_the_one_that_it_replaces() -> None:
    asked("acme", 290)
    (said,) = refusal(lambda: policy_update(name="pro-all", limits=[bucket(95, "peak")], **SAID))
    assert "100/s sustained, up to 200 at once → 95/s sustained" in said
    assert policy_update(name="pro-all", limits=[bucket(101, "peak")], **SAID)


def test_a_minute_may_be_above_where_no_second_is() -> None:
    asked("acme", 100, seconds=60)
    (said,) = refusal(lambda: limit_set(policy="pro-all", limit=bucket(96), **SAID))
    assert "6,000 requests in 60 s, of which 5,952 would pass" in said


def test_a_large_cut_says_so_too() -> None:
    asked("acme", 290)
    said = refusal(lambda: limit_set(policy="pro-all", limit=bucket(50), **SAID))
    assert "a cut of 50 %; acme asked for up to 290 requests in 1 s" in said[0]


def test_each_endpoint_has_its_own_peak() -> None:
    policy_create(name="pro-get", tier="pro", endpoint=GET, limits=[bucket(100)], **FORCED)
    asked("acme", 290)
    assert GET in refusal(lambda: limit_set(policy="pro-get", limit=bucket(95), **SAID))[0]


def test_a_tenant_with_limits_of_its_own_is_judged_by_its_own() -> None:
    policy_create(name="acme-own", tenant="acme", limits=[bucket(400)], **SAID)
    asked("acme", 290)
    assert limit_set(policy="pro-all", limit=bucket(95), **SAID)
    assert refusal(lambda: override_create(tenant="acme", limits={"burst": {"burst": 100, "rate": 180}}, **SAID))


def test_how_many_are_above_is_told_and_costs_no_query_each() -> None:
    tenants_create(tenants=[NewTenant(f"t{n}", "pro") for n in range(30)], **SAID)
    costs = []
    for name in ["acme", *(f"t{n}" for n in range(30))]:
        asked(name, 290)
        if name in ("acme", "t29"):
            with CaptureQueriesContext(connection) as captured:
                said = refusal(lambda: limit_set(policy="pro-all", limit=bucket(95), **SAID))[0]
            costs.append(len(captured))
    assert "acme and 30 more asked for" in said
    assert costs[0] == costs[1]


def test_each_tenant_is_told_the_time_in_which_most_is_missing() -> None:
    tenants_create(tenants=[NewTenant("calm", "pro")], **SAID)
    asked("acme", 150, seconds=60)  # 9,000 in a minute
    asked("calm", 150)  # once
    for rate, told in ((50, ["acme 60 9000 3100.0"]), (20, ["acme 60 9000 1240.0", "calm 1 150 60.0"])):
        limit_set(policy="pro-all", limit=bucket(rate), **FORCED)
        below = revision_impact(newest()).below
        assert [f"{row.tenant} {row.window_s} {row.peak} {row.left}" for row in below] == told
