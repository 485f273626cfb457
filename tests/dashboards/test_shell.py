"""What every page has: the menu, the palette, news; and the first steps of an empty installation."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dashboards.actions import ACTIONS
from dashboards.menu import MENU
from dashboards.pages import live
from quotas.changes.rollout import change_propose
from quotas.models import AlertState, Change, Heartbeat, Limit, Revision
from quotas.models.jobs import record_heartbeat, record_publish_trouble
from quotas.models.quota_request import QuotaRequest
from quotas.own_limits import own_limits_install
from quotas.policies.edit import limit_set
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from tenants.models import ApiKey, Tenant
from tests.access.people import signed_in
from tests.dashboards.world import PAY, counted, drained, make_world, page, text_of
from tests.quotas.turns import full_queue
from tests.quotas.world import FORCED, SAID, bucket, opened_by

pytestmark = pytest.mark.django_db


def test_the_menu_marks_the_page_and_counts_only_what_somebody_has_to_act_on(client: Client) -> None:
    make_world()
    text = page(client, "/tenants")
    assert '<a href="/tenants" aria-current="page" data-go="t">' in text
    assert 'class="count' not in text[text.index('<nav class="nav"') : text.index("</nav>")]
    change_propose(limit_set, policy="pro-all", limit=bucket(300), **SAID)
    assert re.search(r'<a href="/changes" data-go="c">.*?aria-label="1 changes to decide">1<', page(client, "/tenants"))


def test_the_account_menu_leads_out_and_the_status_lines_to_the_state(client: Client) -> None:
    make_world()
    text = page(client, "/tenants")
    assert '<form method="post" action="/logout" id="sign-out">' in text
    assert 'class="health-link" href="/settings#freshness"' in text
    assert 'id="freshness"' in page(client, "/settings")
    assert client.post("/logout").headers["Location"] == "/login"


def waits(client: Client) -> tuple[int, list[str]]:
    """What the tray says on every page, and the titles of the viewer's entries."""
    said = re.search(r'aria-label="Inbox, (\d+|nothing) wait', page(client, "/tenants"))
    assert said is not None
    part = text_of(client.get("/inbox", headers={"HX-Request": "true"}).content)
    mine = part[: part.index('<div class="pane p2">')]
    titles = re.findall(r'<strong><a href="[^"]+">(.*?)</a>', mine)
    return (0 if said[1] == "nothing" else int(said[1])), titles


@pytest.fixture
def busy(valkey: object, settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True
    make_world()
    now = timezone.now()
    change_propose(limit_set, policy="pro-all", limit=bucket(300), author="olga", reason="more load")
    AlertState.objects.create(
        name="denied-share", about="", value=1, text="too much was denied", since=now, seen_at=now, told_at=now
    )
    QuotaRequest.objects.create(
        tenant=Tenant.objects.get(name="acme"), scope="*", limit="burst", wanted=900, reason="a sale", author="tess"
    )


def test_the_inbox_has_what_the_viewer_can_decide_and_the_tray_counts_the_same(busy: None) -> None:
    olga, anna, alice = signed_in("olga", "operator"), signed_in("anna", "approver"), signed_in("alice", "viewer")
    assert waits(alice) == (0, [])
    assert waits(olga) == (1, ["too much was denied"])
    count, titles = waits(anna)
    assert count == len(titles) == 3
    assert re.search(r"Approve change \d+ by olga", " ".join(titles))
    assert "acme requests 900 of burst on" in " ".join(titles)


def test_nobody_is_asked_to_approve_their_own_change(busy: None) -> None:
    anna = signed_in("anna", "approver")
    Change.objects.update(author="anna", author_identity=f"person:{User.objects.get(username='anna').pk}")
    count, titles = waits(anna)
    assert count == len(titles) == 2
    assert "Approve" not in " ".join(titles)


def test_an_entry_leaves_the_inbox_when_it_is_done(busy: None) -> None:
    olga = signed_in("olga", "operator")
    waits(olga)
    assert waits(olga) == (1, ["too much was denied"])
    AlertState.objects.update(resolved_at=timezone.now())
    assert waits(olga) == (0, [])


def test_the_inbox_is_a_page_too(busy: None, client: Client) -> None:
    text = page(client, "/inbox")
    assert "<h1>Inbox</h1>" in text
    assert "Nothing waits for you" in text
    assert "too much was denied" in text


def test_an_action_with_these_words_comes_before_one_that_only_fits(busy: None, client: Client) -> None:
    found = page(signed_in("olga", "operator"), "/palette?q=new+tenant")
    assert found.index("New tenant") < found.index("Give override")


def test_no_two_actions_of_the_palette_have_one_name() -> None:
    labels = [action.label for action in ACTIONS]
    assert len(labels) == len(set(labels))


def test_each_action_of_the_palette_leads_to_a_page_that_has_its_dialog(busy: None) -> None:
    owner = signed_in("ann-owner", "owner")
    for action in ACTIONS:
        if action.url:
            text = page(owner, action.href.partition("#")[0])
            assert not action.dialog or f'id="{action.dialog}"' in text, action


def test_the_palette_finds_actions_of_the_role(busy: None, client: Client) -> None:
    olga = signed_in("olga", "operator")
    assert 'data-href="/changes#open-dlg-bypass"' in page(olga, "/palette?q=bypass")
    assert "Bypass limits" not in page(client, "/palette?q=bypass")
    assert "Freeze changes" not in page(olga, "/palette?q=freeze")
    assert "Freeze changes" in page(signed_in("anna", "approver"), "/palette?q=freeze")
    assert 'data-href="/tenants/acme#open-dlg-override"' in page(olga, "/palette?q=give+override+ac")
    assert "Give acme an override" not in page(client, "/palette?q=give+override+ac")
    assert 'data-href="/endpoints/new"' in page(olga, "/palette?q=new+endpoint")
    assert 'data-href="/endpoints/import"' in page(olga, "/palette?q=import+openapi")
    assert 'data-href="/endpoints/new"' not in page(client, "/palette?q=new+endpoint")
    assert 'data-presses="#sign-out button"' in page(client, "/palette?q=sign+out")


def test_the_palette_finds_tenants_endpoints_policies_and_pages(client: Client) -> None:
    make_world()
    assert 'data-href="/tenants/acme"' in page(client, "/palette?q=ac")
    assert f'data-href="/endpoints/{PAY}"' in page(client, "/palette?q=charge")
    assert 'data-href="/policies/pro-all"' in page(client, "/palette?q=pro")
    assert 'data-href="/changes"' in page(client, "/palette?q=chang")
    assert "No results for “zzz”" in page(client, "/palette?q=zzz")


def test_the_palette_finds_no_more_than_a_few_of_each(client: Client) -> None:
    make_world()
    tier = Tenant.objects.get(name="acme").tier
    Tenant.objects.bulk_create(Tenant(name=f"many-{i:02}", tier=tier) for i in range(20))
    assert page(client, "/palette?q=many").count('role="option"') == 6


@pytest.mark.django_db(transaction=True)
async def test_an_open_page_hears_of_a_drain_and_of_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = iter([1, 1, 2, 2, 3])
    looks = iter(live.PageVersion(None, n, None) for n in marks)
    monkeypatch.setattr(live, "_look_apart", lambda: next(looks, None))
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.0)
    stream = live.events()
    said = [await anext(stream) for _ in range(3)]
    await stream.aclose()  # type: ignore[attr-defined]
    assert said == ["retry: 2000\n\n", "event: fresh\ndata: \n\n", "event: fresh\ndata: \n\n"]


def test_what_is_told_to_open_pages_follows_drains_and_revisions() -> None:
    make_world()
    before = live._look()
    assert before == live._look()
    drained()
    assert live._look() != before


def test_the_first_steps_lead_from_nothing_to_a_limit(valkey: object) -> None:
    own_limits_install("headroom")
    operator = signed_in("olga", "operator")
    assert "Add an endpoint" in page(operator, "/first-run")
    for fields in (
        {"step": "endpoint", "name": "orders:create", "method": "POST", "path": "/v1/orders"},
        {"step": "tenant", "name": "first-tenant", "tier": "free"},
        {"step": "limit", "rate": "2", "burst": "5"},
    ):
        assert operator.post("/first-run", fields).status_code == 302
    assert Limit.objects.get(policy__tier__name="free").parameters == {"rate": 2, "burst": 5, "per": "1s"}
    waiting = page(operator, "/first-run")
    # What is sent next appears without a reload, and is left alone from then on.
    assert ("publishing to Redis" in waiting, 'hx-select-oob="#progress,#try"' in waiting) == (True, True)
    assert '<div id="try"></div>' in waiting
    newest = Revision.objects.latest("number").number
    Heartbeat.objects.create(name="publisher", at=timezone.now(), detail=str(newest))
    ready = page(operator, "/first-run")
    assert ("FCALL hr_check 1 hr:{" in ready, 'hx-select-oob="#progress"' in ready) == (True, True)
    assert 'href="/first-run">first steps</a>' in page(operator, "/")
    counted("first-tenant", "d", 3, endpoint="orders:create")
    assert "The first 429 was counted." in page(operator, "/first-run")


def test_a_failing_publisher_shows_on_every_page(client: Client, valkey: object) -> None:
    record_heartbeat("publisher", "0")
    record_publish_trouble("21 of 64 shards failed: refused")
    assert 'title="21 of 64 shards failed: refused">failing</b>' in page(client, "/settings")


def first_limit(operator: Client) -> None:
    own_limits_install("headroom")
    operator.post("/first-run", {"step": "endpoint", "name": "orders:create", "method": "POST", "path": "/v1/orders"})
    operator.post("/first-run", {"step": "tenant", "name": "first-tenant", "tier": "free"})
    operator.post("/first-run", {"step": "limit", "rate": "2", "burst": "5"})
    # So slow that nothing comes back between two requests, however slow the machine is.
    limit_set(policy="free-first", limit=bucket(1, per="1h", burst=5), **FORCED)
    client = store.connect(settings.REDIS_URL)
    store.prepare(client)
    Publisher(client, settings.HEADROOM_SHARDS).publish()
    record_heartbeat("publisher", str(Revision.objects.latest("number").number))


def test_ten_requests_are_sent_for_the_viewer_and_their_answers_are_shown(valkey: object) -> None:
    operator = signed_in("olga", "operator")
    first_limit(operator)
    text = text_of(operator.post("/first-run", {"step": "send"}).content)
    answers = re.findall(r'<th scope="row">\d+</th> <td data-l="Answer"><span class="badge badge-(\w+)">', text)
    assert answers == ["allowed"] * 5 + ["denied"] * 5
    counted("first-tenant", "d", 3, endpoint="orders:create")
    again = text_of(operator.post("/first-run", {"step": "send"}).content)
    assert "Nothing was sent" in again
    assert "5 of 5 done" in again


def test_a_key_is_issued_for_the_curl_line_and_shown_once(valkey: object) -> None:
    operator = signed_in("olga", "operator")
    first_limit(operator)
    assert "Bearer $KEY" in page(operator, "/first-run")
    text = text_of(operator.post("/first-run", {"step": "key"}).content)
    shown = re.search(r"Bearer (hr_\w+)", text)
    assert shown is not None
    assert opened_by(shown[1]) == ApiKey.objects.get()
    assert shown[1] not in page(operator, "/first-run")


def test_under_four_eyes_the_first_endpoint_is_proposed(valkey: object, settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True
    own_limits_install("headroom")
    operator = signed_in("olga", "operator")
    fields = {"step": "endpoint", "name": "orders:create", "method": "POST", "path": "/v1/orders"}
    assert operator.post("/first-run", fields).status_code == 302
    change = Change.objects.get()
    text = page(operator, "/first-run")
    assert f'href="/changes?change={change.pk}">Change {change.pk}</a> by olga waits for somebody else' in text
    assert "1 of 5 done" in text


def test_the_first_steps_skip_no_approval_once_there_are_limits(valkey: object, settings: Any) -> None:
    make_world()
    settings.HEADROOM_FOUR_EYES = True
    written = Revision.objects.count()
    signed_in("olga", "operator").post("/first-run", {"step": "limit", "rate": "1", "burst": "1"})
    assert Revision.objects.count() == written


def test_a_step_that_is_refused_says_why_and_keeps_what_was_typed(valkey: object) -> None:
    operator = signed_in("olga", "operator")
    response = operator.post("/first-run", {"step": "endpoint", "name": "No Good", "method": "GET", "path": "/x"})
    assert response.status_code == 422
    assert 'value="No Good"' in text_of(response.content)
    assert not Revision.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_step_waits_for_its_turn_without_a_transaction(valkey: object, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = signed_in("olga", "operator")
    with full_queue(monkeypatch) as seen:
        fields = {"step": "endpoint", "name": "orders:create", "method": "POST", "path": "/v1/orders"}
        response = operator.post("/first-run", fields)
    assert "another change is being written" in text_of(response.content).lower()
    assert seen == [False]


def test_who_only_looks_is_shown_the_steps_and_no_form(client: Client, valkey: object) -> None:
    assert "Continue" not in page(client, "/first-run")


@pytest.mark.parametrize("path", ["/nothing-here", "/tenants/nobody", "/recommendations/999"])
def test_a_wrong_address_gets_a_page_that_leads_back(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    text = response.content.decode()
    assert "There is nothing at this address" in text
    assert 'href="/"' in text


def test_a_failure_gets_a_page_that_says_where_its_cause_is(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboards.pages.tenants.render", None)
    client.raise_request_exception = False
    response = client.get("/tenants")
    assert response.status_code == 500
    assert "its log has the cause" in response.content.decode()


def test_each_page_of_the_menu_has_a_key_of_its_own() -> None:
    keys = [item.go for item in MENU]
    assert all(keys)
    assert len(set(keys)) == len(keys)
