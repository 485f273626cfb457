"""The first page says what happened, what is not known, and what to do next."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from quotas.models.usage import DrainState, GapRecord
from quotas.observations.cells import Cell, Cells, Series
from quotas.selectors.usage import SPANS
from quotas.usage.rollups import add_cells
from tenants.models import Tenant, Tier

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> Tenant:
    return Tenant.objects.create(name="acme", tier=Tier.objects.create(name="pro"))


def drained(*cells: tuple[Tenant, str, int], seconds_ago: float = 1) -> None:
    now = timezone.now()
    start = int(now.timestamp()) // 10 * 10
    with transaction.atomic():
        add_cells(Cells.of(Cell(start, Series(who.number, 1, outcome, 0), n, n) for who, outcome, n in cells), now)
    DrainState.objects.create(drained_at=now - timedelta(seconds=seconds_ago), run_id="x")


def page(client: Client, query: str = "") -> str:
    response = client.get(f"/{query}")
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


@pytest.mark.parametrize("span", SPANS)
def test_it_shows_allowed_and_denied_of_each_tenant_and_of_all(client: Client, acme: Tenant, span: str) -> None:
    drained((acme, "a", 1_234), (acme, "d", 66))
    text = page(client, f"?span={span}")
    assert "1 of 1 tenant had requests denied" in text
    assert "1,234 of 1,300 requests were let through" in text
    row = re.search(r'<th scope="row">acme</th>(.*?)</tr>', text)
    assert row is not None
    assert all(figure in row[1] for figure in ("pro", "1,300", "1,234", "66", "5.1"))


def test_it_says_how_fresh_it_is(client: Client, acme: Tenant) -> None:
    drained((acme, "a", 1), seconds_ago=3)
    assert re.search(r"Figures<b>[34] s ago", page(client))


def test_it_warns_when_nothing_is_drained(client: Client, acme: Tenant) -> None:
    drained((acme, "a", 1), seconds_ago=300)
    assert "Nothing was drained for 5 min." in page(client)


def test_a_gap_is_hatched_and_explained(client: Client, acme: Tenant) -> None:
    drained((acme, "a", 1))
    now = timezone.now()
    GapRecord.objects.create(start=now - timedelta(minutes=9), end=now - timedelta(minutes=5), reason="Redis was gone.")
    text = page(client)
    assert re.search(r'<li data-kind="gap"[^>]+>Redis was gone.', text)
    assert "no data</td>" in text
    assert "UTC: Redis was gone." in text


def test_without_tenants_it_says_how_to_get_some(client: Client) -> None:
    assert "manage.py seed" in page(client)


def test_without_a_drain_it_says_how_to_start_one(client: Client, acme: Tenant) -> None:
    assert "manage.py drain" in page(client)


def test_without_requests_it_shows_how_to_send_one(client: Client, acme: Tenant) -> None:
    drained()
    text = page(client)
    assert "No requests in the last 15 minutes" in text
    assert "Limiter.from_url" in text


@pytest.mark.django_db(transaction=True)
def test_without_postgres_it_says_so_and_what_still_works(client: Client) -> None:
    with connection.cursor() as cursor, connection.copy().cursor() as killer:
        cursor.execute("SELECT pg_backend_pid()")
        killer.execute("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
        killer.connection.close()
    response = client.get("/")
    connection.close()
    assert response.status_code == 503
    assert b"Limits are enforced all the same" in response.content


def test_an_unknown_span_is_refused_in_one_sentence(client: Client) -> None:
    response = client.get("/?span=1y")
    assert response.status_code == 400
    assert response.content == b"span must be one of 15m, 1h, 24h, 14d."


def test_it_is_for_reading_only(client: Client) -> None:
    assert client.post("/").status_code == 405


def test_a_name_cannot_bring_markup(client: Client, acme: Tenant) -> None:
    drained((acme, "a", 1))
    now = timezone.now()
    GapRecord.objects.create(start=now, end=now, reason="<script>alert(1)</script>")
    assert "<script>alert" not in page(client)


def test_the_policy_allows_nothing_inline_and_the_page_needs_nothing_inline(client: Client, acme: Tenant) -> None:
    drained((acme, "d", 5))
    response = client.get("/")
    policy = response.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    text = response.content.decode()
    assert not re.search(r"<style|<script(?![^>]+src=)|\sstyle=|\son[a-z]+=|javascript:", text)
