"""Endpoints: the list, and a limit line that says what it would do."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
import redis
from django.test import Client
from django.utils import timezone

from dashboards.pages.endpoint.over_commit import CommitBar
from quotas.models import Change, TierUse
from quotas.observations.cells import Cells
from quotas.policies.edit import limit_set, policy_create
from quotas.usage.backfill import backfill_usage
from quotas.usage.tier_usage import measure_tier_usage
from tests.access.people import signed_in
from tests.dashboards.world import published
from tests.quotas.heartbeats import leasing
from tests.quotas.usage.test_tier_usage import NOW, asked, measured, world
from tests.quotas.world import FORCED, GET, PAY, bucket

__all__ = ["world"]


@pytest.fixture(autouse=True)
def busy(world: None) -> None:
    measured(asked("acme", [30] * 60, denied=5), asked("cabs", [10] * 60))


def text_of(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def test_before_the_first_measurement_no_traffic_is_claimed(client: Client) -> None:
    TierUse.objects.all().delete()
    text = text_of(client, "/endpoints")
    assert "Not measured yet. Traffic is measured once a minute." in text
    assert "req/s" not in text


def test_the_list_has_the_most_denied_first(client: Client) -> None:
    text = text_of(client, "/endpoints")
    assert text.index(f"/endpoints/{GET}") < text.index(f"/endpoints/{PAY}")
    assert "2,405" in text


def test_tenants_stand_by_their_peak_with_the_limit_that_holds(client: Client) -> None:
    text = text_of(client, f"/endpoints/{GET}")
    assert text.index(">acme</text>") < text.index(">cabs</text>")
    assert 'role="slider"' in text
    assert 'aria-valuenow="1000"' in text  # minute, the tightest: 1,000 a minute over all endpoints
    assert "The limit minute on * allows each tenant 1,000 req/min over all endpoints." in text
    assert "req/s" not in text[text.index('id="peaks"') :]


def test_it_says_where_leases_are_in_use_and_what_they_cost(client: Client, valkey: redis.Redis) -> None:
    assert "Leased by" not in text_of(client, f"/endpoints/{GET}?tier=pro")
    for name in ("one", "two", "three"):
        leasing(valkey, name, GET)
    said = (
        "<b>Leased by 3 processes</b>: an edit arrives up to 100 ms later, and a process that dies may waste up to one "
        "block."
    )
    assert said in text_of(client, f"/endpoints/{GET}?tier=pro")
    assert "Leased by" not in text_of(client, f"/endpoints/{PAY}?tier=pro")
    limit_set(policy="pro-all", limit=bucket(100, lease="never"), **FORCED)
    assert "Leased by" not in text_of(client, f"/endpoints/{GET}?tier=pro")
    assert said in text_of(client, f"/endpoints/{GET}?tier=free")
    policy_create(name="backend", endpoint=GET, limits=[bucket(10**6, lease="20ms")], **FORCED)
    assert "an edit arrives up to 20 ms later" in text_of(client, f"/endpoints/{GET}?tier=free")


def test_one_hot_second_does_not_flatten_the_rest(client: Client) -> None:
    backfill_usage(Cells.of(asked("cabs", [900], minutes_ago=20)), NOW)
    measure_tier_usage(NOW + timedelta(minutes=11))  # leaders are gathered less often
    text = text_of(client, f"/endpoints/{GET}?tier=pro")
    top = re.search(r'aria-valuemax="([\d.]+)"', text)
    assert top is not None
    assert float(top[1]) == 4_000  # the highest minute has 30 a second
    assert "peak 54,000 →" in text


def test_the_line_says_whom_it_would_strike(client: Client) -> None:
    text = text_of(client, f"/endpoints/{GET}/impact?tier=pro&rate=0.5")
    assert "2 tenants, 93 % of requests would be denied" in text
    assert "1.5 × the busiest second of 95 % of tenants" in text  # as calibration sizes bursts
    assert "No tenants, 0 % of requests would be denied" in text_of(client, f"/endpoints/{GET}/impact?tier=pro&rate=99")
    assert "2 tenants, 93 % of requests" in text_of(client, f"/endpoints/{GET}/impact?tier=pro&rate=30&per=60")
    for rate in ("", "0", "-1", "nan", "inf", "1e12"):
        assert client.get(f"/endpoints/{GET}/impact?tier=pro&rate={rate}").status_code == 400


def test_a_draft_is_a_proposed_change_with_rate_and_burst() -> None:
    policy_create(name="get", tier="pro", endpoint=GET, limits=[bucket(40, "gets")], **FORCED)
    operator = signed_in("olga", "operator")
    operator.post(f"/endpoints/{GET}/draft", {"tier": "pro", "rate": "25", "burst": "60"})
    change = Change.objects.get()
    limit = change.after["policy:get"]["limits"]["gets"]
    assert (limit["rate"], limit["per"], limit["burst"]) == (25, "1s", 60)
    assert (change.author, change.state) == ("olga", "pending")


def test_a_draft_where_no_limit_stands_makes_one() -> None:
    signed_in("olga", "operator").post(f"/endpoints/{GET}/draft", {"tier": "pro", "rate": "0.5", "burst": "3"})
    [state] = Change.objects.get().after.values()
    assert (state["endpoint"], state["limits"]["steady"]["burst"]) == (GET, 3)


def test_a_viewer_makes_no_draft(client: Client) -> None:
    assert client.post(f"/endpoints/{GET}/draft", {"tier": "pro", "rate": "25", "burst": "60"}).status_code == 403


def test_limits_for_everyone_are_drawn_as_steps(client: Client) -> None:
    policy_create(name="all-get", endpoint=GET, limits=[bucket(300, "everyone")], **FORCED)
    policy_create(name="all-service", endpoint=f"{GET.partition(':')[0]}:*", limits=[bucket(900, "service")], **FORCED)
    published(timezone.now() - timedelta(hours=3))
    limit_set(policy="all-get", limit=bucket(500, "everyone"), **FORCED)
    published(timezone.now() - timedelta(hours=1))
    text = text_of(client, f"/endpoints/{GET}")
    steps = re.findall(r'data-kind="limit"[^>]*data-at="([\d.]+)"[^>]*>([^<]+)<', text)
    # In the unit of the page, requests in a minute.
    assert ("18000", "global limit everyone 300/s") in steps
    assert ("30000", "global limit everyone 500/s") in steps
    assert any("limit service of all of" in label for _, label in steps)
    assert "Global limit everyone, now 500/s" in text


def test_without_traffic_it_says_so(client: Client) -> None:
    assert "No traffic from this tier yet" in text_of(client, f"/endpoints/{PAY}?tier=free")
    assert client.get("/endpoints/no:such").status_code == 404


def test_the_figure_of_a_long_bar_stands_inside_the_chart() -> None:
    assert CommitBar("Now", [], "99.4%").is_long
    assert not CommitBar("Now", [], "60%").is_long
