"""The pages tell a gap and a failover of some shards to those whom they concern."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from headroom_edge import keys
from quotas.models import AuditEvent
from quotas.models.usage import GapRecord
from tests.dashboards.world import counted, drained, make_world, page

pytestmark = pytest.mark.django_db

SHARD = keys.shard_of("acme")
WORDS = "Redis failed over: 127.0.0.1:7001 took over 1 shard"
FAILOVER = rf'<li data-kind="mark"[^>]+data-words="{WORDS}"[^>]*>failover</li>'


@pytest.fixture(autouse=True)
def _world(valkey: object) -> None:
    make_world()
    counted("acme", "a", 1)
    counted("bolt", "a", 1)
    drained()
    now = timezone.now()
    start, end = now - timedelta(minutes=9), now - timedelta(minutes=5)
    GapRecord.objects.create(start=start, end=end, reason="Redis was gone.", shards=[SHARD])
    detail = {"node": "127.0.0.1:7001", "former": ["127.0.0.1:7000"], "shards": [SHARD], "of": 64}
    AuditEvent.objects.create(kind="store_failover", detail=detail)


@pytest.mark.parametrize("address", ["/", "/endpoints/payments:charge"])
def test_a_page_about_everybody_says_which_part_is_concerned(client: Client, address: str) -> None:
    text = page(client, address)
    assert re.search(r'<li data-kind="gap"[^>]+>Redis was gone. Counts of 1 of 64 shards may be missing.', text)
    assert re.search(FAILOVER, text)


def test_the_page_of_a_tenant_tells_what_concerns_it(client: Client) -> None:
    text = page(client, "/tenants/acme")
    assert re.search(r'<li data-kind="gap"[^>]+>Redis was gone.', text)
    assert "of 64 shards" not in text
    assert re.search(FAILOVER, text)


def test_the_page_of_another_tenant_tells_nothing(client: Client) -> None:
    text = page(client, "/tenants/bolt")
    assert "Redis was gone." not in text
    assert "failed over" not in text
