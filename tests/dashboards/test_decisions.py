"""The decision log: what was denied, why, and what is new."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from quotas.models import Endpoint, LimitName
from quotas.policies.spec import to_us
from quotas.usage.batch_format import DenialRecord
from quotas.usage.rollups import add_denials
from tenants.models import Tenant
from tests.dashboards.world import counted
from tests.quotas.world import GET, PAY, make_world

NOW = timezone.now()


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    make_world()


def denied(
    tenant: str = "acme", endpoint: str = PAY, limit: str = "burst", at: datetime = NOW, reason: str = "limit"
) -> None:
    row = DenialRecord(
        tenant=Tenant.objects.get(name=tenant).number,
        endpoint=Endpoint.objects.get(name=endpoint).number,
        limit=LimitName.objects.get(name=limit).number,
        subject=b"",
        at_us=to_us(at),
        reason=reason,
        cost=10,
        retry_us=1_500_000,
        revision=2,
    )
    with transaction.atomic():
        add_denials([row], NOW)


def page(client: Client, query: str = "") -> str:
    response = client.get(f"/decisions{query}")
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def test_each_denial_is_explained_and_leads_to_the_tester(client: Client) -> None:
    denied()
    text = page(client)
    assert "The limit burst was used up (cost 10); retry after 1.5 s." in text
    assert "/tester?tenant=acme&amp;endpoint=payments%3Acharge&amp;cost=10" in text
    assert "r2" in text


def test_a_filter_by_cause_finds_what_a_full_pool_denied(client: Client) -> None:
    denied("acme", reason="limit/pool")
    denied("bolt", reason="limit/ceiling")
    text = page(client, "?cause=pool")
    assert 'href="/tenants/acme"' in text
    assert 'href="/tenants/bolt"' not in text
    assert '<option value="pool" selected>the pool was full</option>' in text
    assert "counted exactly" not in page(client, f"?cause=pool&since={quote((NOW - timedelta(hours=1)).isoformat())}")


def test_filters_narrow_and_stay_filled_in(client: Client) -> None:
    denied()
    denied("bolt", GET)
    text = page(client, f"?tenant=bolt&endpoint={GET}")
    assert 'value="bolt"' in text
    assert text.count("The limit burst was used up") == 1
    assert "No recent denial matches" in page(client, "?reason=suspended")
    assert page(client, "?reason=nonsense").count("The limit burst was used up") == 2


def test_older_ones_are_a_page_away(client: Client) -> None:
    for n in range(51):
        denied(at=NOW - timedelta(seconds=n))
    text = page(client)
    assert text.count("The limit burst was used up") == 50
    older = re.search(r'href="\?(before=[^"]+)">Older', text)
    assert older is not None
    assert page(client, f"?{older[1]}").count("The limit burst was used up") == 1


def test_news_waits_behind_a_bar(client: Client) -> None:
    denied()
    fresh = re.search(r'hx-get="(/decisions/new\?[^"]+)"', page(client))
    assert fresh is not None
    address = fresh[1].replace("&amp;", "&")
    assert client.get(address).content.strip() == b""
    denied(at=NOW + timedelta(seconds=1))
    assert "Show 1 new denial" in client.get(address).content.decode()
    assert client.get("/decisions/new?after=yesterday").status_code == 400


def test_what_was_turned_away_before_any_limit_is_counted_and_said_to_be(client: Client) -> None:
    counted("bolt", "p", 12, endpoint="")
    counted("", "u", 3, endpoint="")
    text = page(client)
    assert "12 from suspended tenants</a>, 3 from unknown tenants." in text


def test_without_denials_it_says_that_this_is_good(client: Client) -> None:
    assert "No denials" in page(client)
