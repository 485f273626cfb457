"""Only who may edit alert targets reads their addresses: a webhook's URL often contains a secret."""

from __future__ import annotations

import pytest
import redis
from django.test import Client
from django.utils import timezone

from quotas.models import AlertDelivery, AlertTarget
from tests.access.people import machine, signed_in, token
from tests.access.routes import routes
from tests.quotas.world import make_world

pytestmark = pytest.mark.django_db
SECRET, PERSON = "T0-a-secret-path", "tom.ops"


@pytest.fixture(autouse=True)
def targets(valkey: redis.Redis) -> None:
    make_world()
    for kind, address in (
        ("webhook", f"https://hooks.example.com/{SECRET}?key={SECRET}"),
        ("email", f"{PERSON}@a.org"),
    ):
        row = AlertTarget.objects.create(kind=kind, address=address, secret=b"")
        AlertDelivery.objects.create(
            target=row, body={"events": [], "others": 0}, due_at=timezone.now(), tries=1, problem=f"no: {address}"
        )


def read(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


@pytest.mark.sweep
def test_a_viewer_finds_them_nowhere() -> None:
    api, pages = machine(token("viewer")), signed_in("vera", "viewer")
    for route in routes():
        client = api if route.path.startswith("/v1/") else pages
        answer = client.get(route.address())
        text = "" if answer.streaming else answer.content.decode(errors="replace")
        assert SECRET not in text, route.path
        assert PERSON not in text, route.path


@pytest.mark.parametrize("path", ["/settings", "/v1/alert-targets"])
def test_a_viewer_sees_which_targets_there_are(path: str) -> None:
    text = read(signed_in("vera", "viewer"), path)
    assert "https://hooks.example.com/…" in text
    assert "…@a.org" in text
    assert "no: …@a.org" in text


@pytest.mark.parametrize("path", ["/settings", "/v1/alert-targets"])
def test_who_may_edit_them_reads_them(path: str) -> None:
    text = read(signed_in("olga", "operator"), path)
    assert f"{PERSON}@a.org" in text
    assert SECRET in text


def test_a_machine_that_may_only_read_is_a_reader_whatever_its_role() -> None:
    assert SECRET not in read(machine(token("owner", "read")), "/v1/alert-targets")
    assert SECRET in read(machine(token("operator", "read", "write")), "/v1/alert-targets")
