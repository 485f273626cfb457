"""How many queries each page costs, pinned in a file: a page that asks once a row is seen at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from quotas.overrides import override_create
from quotas.policies.edit import limit_set, policy_create
from quotas.tenant_summary import measure_tenants
from quotas.tenants import NewTenant, tenants_create
from tests.access.people import signed_in
from tests.dashboards.world import counted, denied, drained, make_world, published
from tests.quotas.world import FORCED, PAY, SAID, bucket

pytestmark = pytest.mark.django_db

EVERY: dict[str, int] = json.loads((Path(__file__).parent / "queries.json").read_text())
POOLS = {address: number for address, number in EVERY.items() if address.startswith("/pools/")}
PINNED = {address: number for address, number in EVERY.items() if address not in POOLS}
MANY = 30


@pytest.fixture
def owner(valkey: object) -> Client:
    make_world()
    _busy("acme")
    override_create(tenant="bolt", limits={"burst": {"rate": 900, "burst": 1800}}, **SAID)
    measure_tenants(timezone.now())
    drained()
    published()
    return signed_in("ann-owner", "owner")


def _pool() -> None:
    """Of all tenants of the tier pro."""
    shared = {"name": "search", "algorithm": "pool", "rate": 1000}
    policy_create(name="everyone-pay", endpoint=PAY, limits=[shared], **FORCED)
    share = {"name": "share", "algorithm": "borrowing", "assured": 5, "parent": "search"}
    policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[share], **FORCED)


def _busy(tenant: str) -> None:
    counted(tenant, "a", 50)
    counted(tenant, "d", 5, limit="burst")
    denied(tenant)


def queries(client: Client, address: str) -> int:
    client.get(address)  # what is read once and kept does not count
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


def test_a_page_costs_what_the_file_says_and_no_more_for_more_tenants_changes_and_overrides(owner: Client) -> None:
    few = {address: queries(owner, address) for address in PINNED}
    assert few == PINNED
    names = [f"tenant-{i:03}" for i in range(MANY)]
    tenants_create(tenants=[NewTenant(name, "pro") for name in names], **SAID)
    for i, name in enumerate(names[:5]):
        _busy(name)
        override_create(tenant=name, limits={"burst": {"rate": 900, "burst": 1800}}, **SAID)
        limit_set(policy="pro-all", limit=bucket(201 + i), **SAID)
    published()
    many = {address: queries(owner, address) for address in PINNED}
    assert {address: n for address, n in many.items() if n > few[address]} == {}


def test_the_pages_of_a_pool_cost_what_the_file_says_and_no_more_for_more_members(owner: Client) -> None:
    _pool()
    assert {address: queries(owner, address) for address in POOLS} == POOLS
    tenants_create(tenants=[NewTenant(f"tenant-{i:03}", "pro") for i in range(10)], **SAID)
    assert {address: queries(owner, address) for address in POOLS} == POOLS
