"""The demo's traffic goes through the real limiter, within its bound, where its history ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import numpy as np
import pytest
import redis
from django.conf import settings
from django.core.management import call_command
from django.utils import timezone

from headroom_edge import AsyncLimiter
from quotas.demo.client_keys import kept_keys
from quotas.demo.live_traffic import LiveTraffic
from quotas.demo.seeding import catch_up, history_begins, midnight
from quotas.demo.story import FIRST_KEY, WORLD
from quotas.demo.tenants import TENANTS
from quotas.demo.traffic_history import per_second
from quotas.demo.traffic_patterns import UNKNOWN, Flow, flows
from quotas.errors import accepted
from quotas.models import Tally
from quotas.models.key_use import KeyUse
from quotas.models.usage import Outcome, UsageStep
from quotas.policies.document import read_document
from quotas.simulation.synthetic_tenants import cron_burst
from quotas.usage.drain import drain
from tenants.models import ApiKey
from tests.quotas.demo.world import make_demo
from tests.quotas.usage.counters import in_postgres

BEGAN_S = int(datetime(2030, 1, 7, tzinfo=UTC).timestamp())


async def send(
    url: str, sending: tuple[Flow, ...], most: int, keys: Mapping[str, str] = MappingProxyType({})
) -> LiveTraffic:
    """One second; returns once every call is over."""
    async with AsyncLimiter.from_url(url, fail="closed") as limiter:
        traffic = LiveTraffic(limiter, sending, most, np.random.default_rng(1), keys=keys)
        traffic.send(0)
        await traffic.finish()
    return traffic


def at_once(tenant: str, endpoint: str, size: int, retries: int = 0) -> Flow:
    return Flow(tenant, endpoint, cron_burst(tenant, 0.0, size), retries)


@pytest.mark.django_db(transaction=True)
def test_what_was_sent_is_what_is_counted(valkey: redis.Redis, valkey_url: str) -> None:
    make_demo()
    call_command("publish", verbosity=0)
    sending = (at_once("blue-line", "rider:track", 60), at_once("early-bird", "rider:track", 5, retries=1))
    before = in_postgres()
    traffic = asyncio.run(send(valkey_url, sending, most=10_000))
    drain(valkey)
    by_outcome: Counter[str] = Counter()
    for series, requests in (in_postgres() - before).items():
        by_outcome[series.outcome] += requests
    assert traffic.sent == 60 + 5 * 2
    assert by_outcome[Outcome.SUSPENDED] == 10
    assert 40 <= by_outcome[Outcome.ALLOWED] < 60
    assert by_outcome.total() - by_outcome[Outcome.ALLOWED] == traffic.denied
    assert traffic.degraded == 0


@pytest.mark.django_db(transaction=True)
def test_a_key_of_the_demo_is_seen_once_a_client_has_really_sent_it(valkey: redis.Redis, valkey_url: str) -> None:
    make_demo()
    call_command("publish", verbosity=0)
    keys = kept_keys(settings.HEADROOM_DEMO_KEYS)
    assert set(keys) == {tenant.name for tenant in TENANTS}
    wrong = {"fleetly": keys["fleetly"][:-1] + ("x" if keys["fleetly"][-1] != "x" else "y")}
    sending = tuple(at_once(tenant, "rider:track", 40) for tenant in ("blue-line", "fleetly"))
    traffic = asyncio.run(send(valkey_url, sending, 10_000, {**keys, **wrong}))
    drain(valkey)
    used = {row.key_id: row.requests for row in KeyUse.objects.all()}
    key = ApiKey.objects.get(tenant__name="blue-line", label=FIRST_KEY)
    assert set(used) == {key.key_id}
    assert 0 < used[key.key_id] < 40
    assert (traffic.sent, traffic.degraded) == (80, 0)


def test_it_never_sends_more_than_its_bound(valkey: redis.Redis, valkey_url: str) -> None:
    traffic = asyncio.run(send(valkey_url, (at_once("blue-line", "rider:track", 500),), most=20))
    assert traffic.sent == 20


def test_every_tenant_has_traffic_and_every_endpoint_of_the_platform() -> None:
    every = flows(BEGAN_S)
    assert {flow.tenant for flow in every} == {tenant.name for tenant in TENANTS} | {UNKNOWN}
    document = accepted(read_document(WORLD.read_text()))
    later = {"rider:rate"}  # registered while the story runs
    assert {flow.endpoint for flow in every} == {endpoint.name for endpoint in document.endpoints} | later


def test_live_traffic_has_the_rate_of_the_history() -> None:
    draw = np.random.default_rng(2)
    noon = BEGAN_S + 12 * 3_600
    for flow in flows(BEGAN_S)[:6]:
        traffic = LiveTraffic(AsyncLimiter.__new__(AsyncLimiter), [flow], 10_000, draw)
        live = sum(len(traffic.arrivals(second)) for second in range(noon, noon + 1_800))
        then = int(per_second(flow.demand, range(noon, noon + 1_800), draw).sum())
        assert live == pytest.approx(then, abs=4 * (live + then) ** 0.5 + 1)


@pytest.mark.django_db(transaction=True)
def test_the_first_start_leaves_no_hole_and_later_ones_fill_none(valkey: redis.Redis) -> None:
    call_command("seed", hours=1, verbosity=0)
    began = history_begins()
    assert began == midnight(timezone.now()) - timedelta(days=14)
    end = UsageStep.objects.order_by("-start")[0].start + UsageStep.step
    draw = np.random.default_rng(3)
    catch_up(began, end + timedelta(seconds=40), draw)
    assert set(UsageStep.objects.filter(start__gte=end).values_list("start", flat=True)) == {
        end + i * UsageStep.step for i in range(4)
    }
    Tally.objects.create(endpoint_number=1, outcome="a", count=1, cost=1)
    catch_up(began, end + timedelta(minutes=5), draw)
    assert UsageStep.objects.order_by("-start")[0].start == end + 3 * UsageStep.step
