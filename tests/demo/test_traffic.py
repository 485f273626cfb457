"""The demo's traffic goes through the real limiter, within its bound."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
import redis
from django.core.management import call_command

from quotas.demo.shapes import pulses
from quotas.demo.traffic import FLOWS, TICK_S, Flow, Traffic
from quotas.limiter import AsyncLimiter
from quotas.models import Endpoint
from quotas.models.usage import Outcome
from quotas.usage.drain import drain
from tenants.models import Tenant
from tests.usage.counters import in_postgres

pytestmark = pytest.mark.django_db(transaction=True)


async def send(url: str, flows: tuple[Flow, ...], most: float) -> Traffic:
    """One tick; returns once every call is over."""
    stop = asyncio.Event()
    stop.set()
    async with AsyncLimiter.from_url(url, fail="closed") as limiter:
        traffic = Traffic(limiter, most, Random(1), flows)
        traffic.tick(0.95, 1.0)
        await traffic.finish()
    return traffic


def test_what_was_sent_is_what_is_counted(valkey: redis.Redis, valkey_url: str) -> None:
    call_command("seed", verbosity=0)
    call_command("publish", verbosity=0)
    flows = (Flow("blue-line", "fares:quote", pulses(30, 1)), Flow("early-bird", "rides:get", pulses(5, 1)))
    traffic = asyncio.run(send(valkey_url, flows, most=10_000))
    drain(valkey)
    by_outcome: Counter[str] = Counter()
    for series, requests in in_postgres().items():
        by_outcome[series.outcome] += requests
    assert traffic.sent == 35
    assert by_outcome[Outcome.SUSPENDED] == 5
    assert by_outcome[Outcome.ALLOWED] >= 20
    assert by_outcome.total() - by_outcome[Outcome.ALLOWED] == traffic.denied
    assert traffic.degraded == 0


def test_it_never_sends_more_than_its_bound(valkey: redis.Redis, valkey_url: str) -> None:
    traffic = asyncio.run(send(valkey_url, (Flow("blue-line", "rides:get", pulses(500, 1)),), most=200))
    assert traffic.sent == 200 * TICK_S


def test_the_flows_are_of_seeded_tenants_and_endpoints(valkey: redis.Redis) -> None:
    call_command("seed", verbosity=0)
    tenants = set(Tenant.objects.values_list("name", flat=True))
    endpoints = set(Endpoint.objects.values_list("name", flat=True))
    assert {flow.tenant for flow in FLOWS} - tenants == {"nobody-we-know"}
    assert tenants <= {flow.tenant for flow in FLOWS}
    assert {flow.endpoint for flow in FLOWS} == endpoints
