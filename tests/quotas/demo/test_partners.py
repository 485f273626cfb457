"""The demo's partners lend to each other by day and by night, as the model of a pool decides."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest
import redis

from headroom_edge.algorithms.base import SECOND_US
from quotas.demo.history import record_flows
from quotas.demo.partners import DISPATCH, OWN_SHARES, POOL, POOL_NAME, SHARE_NAME, USUAL
from quotas.demo.traffic_history import FlowSeries, NameNumbers, demand_per_second
from quotas.demo.traffic_patterns import flows
from quotas.models import Limit
from quotas.models.usage import Outcome
from quotas.policies.chains import promise
from tests.quotas.demo.world import make_demo

BEGAN_S = int(datetime(2030, 1, 7, tzinfo=UTC).timestamp())
DAY = range(BEGAN_S, BEGAN_S + 86_400)
PARTNERS = tuple(flow for flow in flows(BEGAN_S) if flow.endpoint == DISPATCH)
NUMBERS = NameNumbers(
    tenants={flow.tenant: place for place, flow in enumerate(PARTNERS, 1)},
    tiers={flow.tenant: "enterprise" for flow in PARTNERS},
    endpoints={DISPATCH: 7},
    costs={DISPATCH: 1},
    limits={POOL_NAME: 11, SHARE_NAME: 12},
)


def draws() -> list[np.random.Generator]:
    return [np.random.default_rng(place) for place in range(len(PARTNERS))]


@pytest.fixture(scope="module")
def day() -> list[FlowSeries]:
    return list(record_flows(PARTNERS, NUMBERS, BEGAN_S, DAY, draws()))


def by_hour(day: list[FlowSeries], tenant: str, *outcomes: str) -> list[int]:
    found = [one.counts for one in day if one.tenant == NUMBERS.tenants[tenant] and one.outcome in outcomes]
    return [int(hour) for hour in np.sum(found, axis=0).reshape(24, 3_600).sum(axis=1)]


def test_every_request_is_counted_once_with_the_letter_of_its_outcome(day: list[FlowSeries]) -> None:
    counted: Counter[int] = Counter()
    for one in day:
        counted[one.tenant] += int(one.counts.sum())
    asked = [int(demand_per_second(flow, DAY, draw).sum()) for flow, draw in zip(PARTNERS, draws(), strict=True)]
    assert [counted[NUMBERS.tenants[flow.tenant]] for flow in PARTNERS] == asked
    assert {(one.outcome, one.limit) for one in day} == {("a", 0), (Outcome.LENT, 11), ("d", 12)}


def test_asia_borrows_while_america_sleeps_and_the_other_way_round(day: list[FlowSeries]) -> None:
    kite, transit = (by_hour(day, name, Outcome.LENT) for name in ("kite-mobility", "transit-union"))
    assert kite[4] > 500
    assert transit[4] < 50
    assert transit[18] > 1_000
    assert kite[18] < 50


def test_nobody_is_denied_but_in_the_minute_in_which_a_whole_fleet_is_passed_on(day: list[FlowSeries]) -> None:
    denied = [by_hour(day, flow.tenant, Outcome.DENIED) for flow in PARTNERS]
    by_day = np.sum(denied, axis=0)
    asked = sum(int(one.counts.sum()) for one in day)
    assert int(by_day.argmax()) == 11
    assert 200 < by_day[11] < 3_000
    assert by_day.sum() - by_day[11] < 0.005 * asked
    reasons = {one.reason for one in day if one.outcome == Outcome.DENIED and one.counts.any()}
    assert reasons <= {"limit/share", "limit/pool", "limit/ceiling"}


def test_all_guaranteed_shares_fit_the_pool_and_their_bursts_its_reserve() -> None:
    told = promise(POOL, [OWN_SHARES.get(flow.tenant, USUAL) for flow in PARTNERS])
    assert (told.warnings, told.delay_us) == ((), 0)


@pytest.mark.django_db(transaction=True)
def test_the_story_writes_the_shares_that_its_past_was_decided_by(valkey: redis.Redis) -> None:
    make_demo()
    rows = {str(row.policy): row.parameters for row in Limit.objects.filter(name__name__in=[POOL_NAME, SHARE_NAME])}
    assert rows["partner-pool"] == POOL.describe()
    assert rows["enterprise-dispatch"] == USUAL.describe()
    assert rows["kite-mobility-dispatch"] == OWN_SHARES["kite-mobility"].describe()
    assert POOL.per_us == USUAL.per_us == 60 * SECOND_US
