"""Notes that people put on charts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from quotas.chart_notes import chart_note_add
from quotas.models import AuditEvent, ChartNote
from tests.access.people import signed_in
from tests.dashboards.world import PAY, counted, drained, make_world, page, text_of
from tests.quotas.world import SAID

pytestmark = pytest.mark.django_db

NOTE = {"text": "Marketing campaign", "at": "2030-01-07T09:00", "zone": "Europe/Berlin"}


@pytest.fixture(autouse=True)
def world(valkey: object) -> None:
    make_world()


@pytest.fixture
def operator(world: None) -> Client:
    return signed_in("olga", "operator")


def flags(client: Client, address: str) -> list[str]:
    return re.findall(r'data-kind="mark"[^>]*>([^<]+)</li>', page(client, address))


def test_a_note_is_added_in_the_zone_of_the_viewer_and_removed(operator: Client) -> None:
    assert "data-at=" in page(operator, "/notes")  # it starts with now
    assert operator.post("/notes", {**NOTE, "tenant": "acme"}).status_code == 302
    row = ChartNote.objects.get()
    assert row.at == datetime(2030, 1, 7, 8, tzinfo=UTC)
    assert (row.tenant and row.tenant.name, row.author) == ("acme", "olga")
    assert f'id="note-{row.pk}"' in page(operator, "/notes")
    assert operator.post(f"/notes/{row.pk}/remove").status_code == 302
    assert not ChartNote.objects.exists()
    kinds = list(AuditEvent.objects.order_by("id").values_list("kind", "detail__text", "detail__author"))
    assert kinds == [
        ("chart_note_added", "Marketing campaign", "olga"),
        ("chart_note_removed", "Marketing campaign", "olga"),
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"text": " "}, "Write what happened."),
        ({"at": ""}, "Choose when it happened."),
        ({"tenant": "nobody"}, "There is no tenant nobody"),
        ({"text": "two\x07bells"}, "control character"),
    ],
)
def test_one_that_cannot_be_is_refused_and_kept(operator: Client, change: dict[str, str], sentence: str) -> None:
    response = operator.post("/notes", {**NOTE, **change})
    text = text_of(response.content)
    assert (response.status_code, sentence in text) == (422, True)
    assert 'value="2030-01-07T09:00' in text or "at" in change
    assert not ChartNote.objects.exists()


def test_it_stands_on_the_charts_of_its_time(operator: Client) -> None:
    counted("acme", "a", 10)
    drained()
    now = timezone.now()
    chart_note_add(at=now - timedelta(minutes=9), text="a fair", **SAID)
    chart_note_add(at=now - timedelta(minutes=8), text="a launch of acme in all of Europe", tenant="acme", **SAID)
    chart_note_add(at=now - timedelta(days=40), text="long ago", **SAID)
    assert flags(operator, "/") == ["a fair"]
    assert flags(operator, f"/endpoints/{PAY}") == ["a fair"]
    assert flags(operator, "/tenants/acme") == ["a fair", "a launch of acme in…"]
    assert "a fair" not in flags(signed_in("carol", "tenant", "acme"), "/portal")


def test_every_chart_of_requests_leads_to_its_notes(client: Client) -> None:
    counted("acme", "a", 10)
    drained()
    assert 'href="/notes"' in page(client, "/")
    assert 'href="/notes?tenant=acme"' in page(client, "/tenants/acme")
    assert "/notes" not in page(client, "/portal?tenant=acme")


def test_a_viewer_reads_them_only(client: Client) -> None:
    row = chart_note_add(at=timezone.now(), text="a fair", **SAID)
    text = page(client, "/notes")
    assert "a fair" in text
    assert "Add note" not in text
    assert client.post("/notes", NOTE).status_code == 403
    assert client.post(f"/notes/{row.pk}/remove").status_code == 403


def test_one_that_is_gone_is_not_removed_twice(operator: Client) -> None:
    assert operator.post("/notes/77/remove").status_code == 302
    assert "Not removed" in page(operator, "/notes")
