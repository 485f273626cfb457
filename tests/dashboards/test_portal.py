"""A tenant's own page: its limits and nobody else's, and a request for more that an approver answers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.utils import timezone

from quotas.api_keys import api_key_issue
from quotas.models import AuditEvent, Change, LimitName, Override
from quotas.models.quota_request import QuotaRequest
from quotas.overrides import override_create
from quotas.policies.edit import limit_set, policy_update
from quotas.policies.spec import to_us
from quotas.usage.batch_format import DenialRecord
from quotas.usage.rollups import add_denials
from tenants.models import Tenant
from tests.access.people import person, signed_in
from tests.dashboards.world import counted, drained, make_world, page, published, text_of
from tests.quotas.world import SAID, bucket, newest

pytestmark = pytest.mark.django_db

ASK = {"place": "*|burst", "wanted": "150", "reason": "we launch in Lyon"}


@pytest.fixture(autouse=True)
def world(valkey: object) -> None:
    make_world()
    drained()


@pytest.fixture
def carol(world: None) -> Client:
    return signed_in("carol", "tenant", "acme")


def test_it_shows_the_tenants_own_limits_and_nobody_elses(carol: Client) -> None:
    text = page(carol, "/portal")
    assert "100/s burst 200" in text
    assert "The first number of the limit, such as 6 in 6/10s burst 10." in text
    assert "bolt" not in text
    assert "10/s burst 20" not in text


def test_it_says_what_was_denied_and_what_to_do(carol: Client) -> None:
    counted("acme", "a", 60)
    counted("acme", "d", 40, limit="burst")
    assert "requests got a 429" in page(carol, "/portal")
    assert 'RateLimit-Policy: "burst";' in page(carol, "/portal")


def test_it_says_that_the_pool_was_full_and_the_share_used(carol: Client) -> None:
    share = {"name": "burst", "algorithm": "borrowing", "assured": 40, "ceiling": 80, "parent": "org"}
    policy_update(
        name="pro-all", limits=[{"name": "org", "algorithm": "pool", "rate": 1_000}, share], force=True, **SAID
    )
    counted("acme", "l", 60, limit="org")
    counted("acme", "d", 40, limit="burst")
    limit, tenant, now = LimitName.objects.get(name="burst"), Tenant.objects.get(name="acme"), timezone.now()
    denial = DenialRecord(tenant.number, 1, to_us(now), limit.number, "limit/pool", 1, 1, newest().number, b"")
    with transaction.atomic():
        add_denials([denial], now)
    text = page(carol, "/portal")
    assert "The pool org was full and your guaranteed share of 40/s was used." in text
    assert "40 % of your" in text


def test_once_a_change_has_helped_it_calms_down_and_names_no_revision(carol: Client) -> None:
    counted("acme", "a", 60, ago=timedelta(minutes=10))
    counted("acme", "d", 40, limit="burst", ago=timedelta(minutes=10))
    published(timezone.now() - timedelta(minutes=50))
    limit_set(policy="pro-all", limit=bucket(500), author="olga", reason="an inside story")
    published(timezone.now() - timedelta(minutes=2))
    text = page(carol, "/portal")
    assert re.search(r"<b>0 denied since your limit was changed, <time[^>]*>", text)
    assert "banner-info" in text.partition('id="answer"')[2][:200]
    assert "inside story" not in text
    assert "olga" not in text
    assert "/changes" not in text


def test_the_limit_is_drawn_as_a_step_where_it_changed(carol: Client) -> None:
    counted("acme", "a", 60)
    published(timezone.now() - timedelta(minutes=50))
    limit_set(policy="pro-all", limit=bucket(500), **SAID)
    published(timezone.now() - timedelta(minutes=2))
    text = page(carol, "/portal?endpoint=*&limit=burst")
    assert re.search(r'data-kind="limit"[^>]*>limit 100/s<', text)
    assert re.search(r'data-kind="limit"[^>]*>limit 500/s<', text)
    assert re.search(r'data-kind="mark"[^>]*>limit changed<', text)


def test_until_is_in_the_zone_of_the_viewer(carol: Client) -> None:
    assert 'data-also="UTC"' in page(carol, "/portal")
    ahead = timezone.now().year + 1
    carol.post("/portal/ask", {**ASK, "until": f"{ahead}-06-01T12:00", "zone": "Europe/Berlin"})
    assert QuotaRequest.objects.get().until == datetime(ahead, 6, 1, 10, tzinfo=UTC)


def test_another_tenants_page_cannot_be_asked_for(carol: Client) -> None:
    counted("bolt", "d", 77, limit="burst")
    assert "got a 429" not in page(carol, "/portal?tenant=bolt")
    assert carol.get("/tenants/bolt").status_code == 403
    assert carol.get("/").headers["Location"] == "/portal"


def test_a_request_goes_along_with_the_usage_and_waits(carol: Client) -> None:
    assert carol.post("/portal/ask", ASK).status_code == 302
    row = QuotaRequest.objects.get()
    assert (row.tenant.name, row.scope, row.limit, row.wanted, row.author) == ("acme", "*", "burst", 150, "carol")
    assert row.usage["held"] == "100/s burst 200"
    assert "we launch in Lyon" in page(carol, "/portal")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"wanted": "50"}, "That is not more than what you have, 100"),
        ({"reason": ""}, "Enter a reason"),
        ({"until": "2020-01-01T00:00"}, "Until is in the past"),
        ({"until": "2199-12-31T23:59"}, "Until is more than ten years ahead"),
        ({"until": "9999-12-31T23:59"}, "The year 9999 is out of range"),
        ({"wanted": "9223372036854775808"}, "Ask for at most 4,503,599,627,370,496"),
        ({"place": "*|nothing"}, "Tenant acme has no limit nothing on *"),
    ],
)
def test_a_request_that_cannot_be_is_refused_beside_its_field(
    carol: Client, change: dict[str, str], sentence: str
) -> None:
    response = carol.post("/portal/ask", {**ASK, **change})
    assert response.status_code == 422
    assert sentence in text_of(response.content)
    assert not QuotaRequest.objects.exists()


def test_the_same_is_not_asked_for_twice(carol: Client) -> None:
    carol.post("/portal/ask", ASK)
    assert "is already waiting" in text_of(carol.post("/portal/ask", ASK).content)


def test_an_approver_grants_it_with_an_override(carol: Client) -> None:
    carol.post("/portal/ask", ASK)
    row = QuotaRequest.objects.get()
    approver = signed_in("alex", "approver")
    assert "we launch in Lyon" in page(approver, "/tenants/acme")
    assert "acme requests 150 of burst on" in page(approver, "/")
    assert approver.post(f"/requests/{row.pk}/answer", {"reason": "good luck", "say": "yes"}).status_code == 200
    row.refresh_from_db()
    assert (row.answer, row.answer_author, row.override) == ("granted", "alex", Override.objects.get())
    assert Override.objects.get().limits == {"burst": {"rate": 150, "burst": 300}}
    assert re.search(r"granted</span> good luck", page(carol, "/portal"))


def test_under_four_eyes_asking_and_granting_are_the_two_pairs(carol: Client, settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True
    carol.post("/portal/ask", ASK)
    answer = f"/requests/{QuotaRequest.objects.get().pk}/answer"
    approver = signed_in("alex", "approver")
    more = approver.post(answer, {"reason": "even more", "say": "yes", "wanted": "151"})
    assert "grant that or less" in text_of(more.content)
    assert approver.post(answer, {"reason": "good luck", "say": "yes"}).status_code == 200
    change = Change.objects.get()
    assert (change.state, change.author, change.approvals.get().approver) == ("promoted", "carol", "alex")
    assert QuotaRequest.objects.get().override == Override.objects.get()
    assert not AuditEvent.objects.filter(kind="approval_skipped").exists()


@pytest.mark.parametrize("wanted", ["60", "100"])
def test_granting_it_is_never_a_cut(carol: Client, settings: Any, wanted: str) -> None:
    settings.HEADROOM_FOUR_EYES = True
    carol.post("/portal/ask", ASK)
    answer = f"/requests/{QuotaRequest.objects.get().pk}/answer"
    approver = signed_in("alex", "approver")
    less = approver.post(answer, {"reason": "less", "say": "yes", "wanted": wanted})
    assert "That is not more than what acme has, 100; grant more, or decline the request" in text_of(less.content)
    assert (QuotaRequest.objects.get().answer, Override.objects.count()) == ("waiting", 0)
    assert approver.post(answer, {"reason": "a little", "say": "yes", "wanted": "101"}).status_code == 200
    assert Override.objects.get().limits["burst"]["rate"] == 101


def test_granting_what_was_asked_for_is_no_cut_of_what_the_tenant_got_since(carol: Client) -> None:
    carol.post("/portal/ask", ASK)
    override_create(tenant="acme", endpoint="*", limits={"burst": {"rate": 400, "burst": 800}}, **SAID)
    answer = f"/requests/{QuotaRequest.objects.get().pk}/answer"
    late = signed_in("alex", "approver").post(answer, {"reason": "good luck", "say": "yes"})
    assert "That is not more than what acme has, 400" in text_of(late.content)
    assert Override.objects.count() == 1


def test_under_four_eyes_nobody_grants_what_an_api_key_asked_for(world: None, settings: Any) -> None:
    """Operators issue keys, so an approver could ask with a key of their own and then grant it."""
    settings.HEADROOM_FOUR_EYES = True
    key = api_key_issue(tenant="acme", scopes=["write"], author="alex", reason="for acme").text
    Client().post("/portal/ask", ASK, headers={"Authorization": f"Bearer {key}"})
    answer = f"/requests/{QuotaRequest.objects.get().pk}/answer"
    granted = signed_in("alex", "approver").post(answer, {"reason": "good luck", "say": "yes"})
    assert "users has to ask, signed in" in text_of(granted.content)
    assert not Override.objects.exists()
    settings.HEADROOM_FOUR_EYES = False
    assert signed_in("bea", "approver").post(answer, {"reason": "good luck", "say": "yes"}).status_code == 200
    assert Override.objects.exists()


def test_an_approver_declines_it_with_a_reason(carol: Client) -> None:
    carol.post("/portal/ask", ASK)
    row = QuotaRequest.objects.get()
    approver = signed_in("alex", "approver")
    assert approver.post(f"/requests/{row.pk}/answer", {"say": "no", "reason": ""}).status_code == 422
    approver.post(f"/requests/{row.pk}/answer", {"say": "no", "reason": "wait for the new cluster"})
    assert "wait for the new cluster" in page(carol, "/portal")
    again = approver.post(f"/requests/{row.pk}/answer", {"say": "yes", "reason": "after all"})
    assert "already declined" in text_of(again.content)
    assert not Override.objects.exists()


def test_an_operator_cannot_answer(carol: Client) -> None:
    carol.post("/portal/ask", ASK)
    row = QuotaRequest.objects.get()
    assert signed_in("olga", "operator").post(f"/requests/{row.pk}/answer", {"say": "yes"}).status_code == 403


def test_staff_see_it_as_the_tenant_does_and_cannot_ask(client: Client) -> None:
    assert "You see this page as a user of acme does." in page(client, "/portal?tenant=acme")
    assert client.get("/portal").headers["Location"] == "/tenants"
    assert client.post("/portal/ask", ASK).status_code == 403


def test_a_tenants_user_lands_on_it_after_signing_in() -> None:
    person("carol", "tenant", "acme")
    user = User.objects.get(username="carol")
    user.set_password("a long password of hers")
    user.save()
    client = Client()
    fields = {"username": "carol", "password": "a long password of hers", "next": "/"}
    assert client.post("/login", fields).headers["Location"] == "/portal"
