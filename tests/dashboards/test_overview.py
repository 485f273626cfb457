"""The first page says what happened, what is not known, and what waits for a person."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from quotas.bypass import bypass_set
from quotas.changes.rollout import change_propose
from quotas.models.jobs import WATCH, Heartbeat, record_heartbeat
from quotas.models.usage import GapRecord
from quotas.overrides import override_create
from quotas.own_limits import own_limits_install
from quotas.policies.edit import limit_set
from quotas.usage.queries.periods import SPANS
from tests.dashboards.world import counted, denied, drained, make_world, page, published, text_of
from tests.quotas.world import SAID, bucket

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(valkey: object) -> None:
    make_world()


@pytest.mark.parametrize("span", SPANS)
def test_it_shows_what_was_asked_and_denied_over_every_span(client: Client, world: None, span: str) -> None:
    counted("acme", "a", 1_234)
    counted("acme", "d", 66, limit="burst")
    drained()
    text = page(client, f"/?span={span}")
    assert "of 1,300 requests in the last" in text
    assert re.search(r'href="/tenants/acme"[^>]*>acme</a>', text)
    assert "payments:charge" in text
    assert "5.1" in text


def test_429s_are_told_by_reason_limit_and_revision(client: Client, world: None) -> None:
    counted("acme", "a", 90)
    counted("acme", "d", 6, limit="burst")
    counted("acme", "p", 4)
    drained()
    published(timezone.now() - timedelta(minutes=30))
    text = page(client, "/")
    assert re.search(r"A limit</th>\s*<td[^>]*>burst</td>\s*<td class=\"num\"[^>]*>6</td>", text)
    assert re.search(r"Tenant suspended</th>\s*<td[^>]*>\N{EN DASH}</td>\s*<td class=\"num\"[^>]*>4</td>", text)
    assert re.search(r'revision=2">r2</a></th>.*?<td class="num"[^>]*>10</td>', text)


def test_it_says_how_fresh_it_is(client: Client, world: None) -> None:
    drained(seconds_ago=3)
    assert re.search(r"Usage data <b>[34] s ago", page(client, "/"))


def test_it_warns_when_no_alert_is_evaluated(client: Client, world: None) -> None:
    record_heartbeat(WATCH)
    assert "No alert has been evaluated" not in page(client, "/")
    Heartbeat.objects.filter(name=WATCH).update(at=timezone.now() - timedelta(seconds=90))
    assert "No alert has been evaluated since" in page(client, "/")


def test_it_warns_when_nothing_is_drained(client: Client, world: None) -> None:
    counted("acme", "a", 1)
    drained(seconds_ago=300)
    assert "No new usage data for 5 min." in page(client, "/")


def test_a_gap_is_told_to_the_chart_and_explained(client: Client, world: None) -> None:
    counted("acme", "a", 1)
    drained()
    now = timezone.now()
    GapRecord.objects.create(start=now - timedelta(minutes=9), end=now - timedelta(minutes=5), reason="Redis was gone.")
    text = page(client, "/")
    assert re.search(r'<li data-kind="gap"[^>]+>Redis was gone.', text)
    assert "no data</td>" in text
    assert "UTC: Redis was gone." in text


def test_last_week_stands_beside_this_one_unless_it_is_not_wanted(client: Client, world: None) -> None:
    counted("acme", "a", 600)
    counted("acme", "a", 300, ago=timedelta(days=7))
    drained()
    assert "vs last week" in page(client, "/")
    assert "vs last week" not in page(client, "/?compare=0")


def test_a_revision_stands_on_the_chart_and_leads_to_itself(client: Client, world: None) -> None:
    counted("acme", "a", 1)
    drained()
    published()
    text = page(client, "/")
    assert re.search(r'<li data-kind="mark"[^>]+data-href="/changes\?revision=2"\s*>r2</li>', text)
    assert re.search(r'fig-events.*?<a class="rowlink" href="/changes\?revision=2">r2</a></td> <td[^>]*>because', text)


def test_a_bypass_stands_on_the_chart(client: Client, world: None) -> None:
    counted("acme", "a", 1)
    drained()
    bypass_set(scope="limit", name="burst", duration="5m", author="olga", reason="an incident")
    text = page(client, "/")
    assert re.search(r'<li data-kind="mark"[^>]+data-words="Bypass of limit burst: an incident"[^>]*>bypass</li>', text)


def test_once_a_change_has_helped_it_says_so_and_calms_down(client: Client, world: None) -> None:
    counted("acme", "a", 60, ago=timedelta(minutes=10))
    counted("acme", "d", 40, limit="burst", ago=timedelta(minutes=10))
    drained()
    published(timezone.now() - timedelta(minutes=50))
    assert "acme is throttled on" in page(client, "/")
    limit_set(policy="pro-all", limit=bucket(500), **SAID)
    published(timezone.now() - timedelta(minutes=2))
    text = page(client, "/")
    assert re.search(r"<b>0 denied since <a[^>]+>r3</a>, <time[^>]*>", text)
    assert "0 since r3</span>" in text
    assert "acme is throttled on" not in text


def test_a_share_says_its_window_and_leads_to_its_requests(client: Client, world: None) -> None:
    counted("acme", "a", 60)
    counted("acme", "d", 40, limit="burst")
    denied("acme")
    drained()
    text = page(client, "/")
    assert "429 share, all tenants, last hour" in text
    found = re.search(r'<a class="rowlink" href="(/decisions\?[^"]+)">40 ', text)
    assert found is not None
    log = page(client, found[1].replace("&amp;", "&"))
    assert 'href="/tenants/acme">acme</a>' in log
    assert "from <time" in log


def test_causes_and_revisions_lead_to_their_requests(client: Client, world: None) -> None:
    counted("acme", "a", 56)
    counted("acme", "d", 40, limit="burst")
    counted("acme", "p", 4)
    denied("acme")
    drained()
    published(timezone.now() - timedelta(minutes=30))
    causes = page(client, "/").partition("429s by cause")[2]
    by_limit, suspended, by_revision = (
        each.replace("&amp;", "&") for each in re.findall(r'"(/decisions[^"]+)"', causes)[:3]
    )
    log = page(client, by_limit)
    assert "<b>40 requests denied</b> in this time match the filter, counted exactly. Below is a sample of them." in log
    assert 'href="/tenants/acme">acme</a>' in log
    log = page(client, suspended)
    assert "<b>4 requests denied</b>" in log
    assert "counted, but not listed one by one" in log
    log = page(client, by_revision)
    assert "<b>44 requests denied</b> in this time, counted exactly." in log
    assert "without 4 that were refused before a limit was checked" in log


def test_the_share_after_a_revision_leads_to_its_requests(client: Client, world: None) -> None:
    counted("acme", "a", 60)
    counted("acme", "d", 40, limit="burst")
    drained(seconds_ago=0)
    published(timezone.now() - timedelta(minutes=30))
    after = re.findall(r'"(/decisions[^"]+)"', page(client, "/").partition("Latest revisions")[2])[-1]
    assert "<b>40 requests denied</b>" in page(client, after.replace("&amp;", "&"))


def test_what_waits_for_a_person_is_listed(client: Client, world: None) -> None:
    counted("acme", "a", 90)
    counted("acme", "d", 10, limit="burst")
    drained()
    end = timezone.now() + timedelta(hours=3)
    override_create(tenant="bolt", limits={"burst": {"rate": 20}}, end=end, **SAID)
    change_propose(limit_set, policy="pro-all", limit=bucket(300), **SAID)
    text = page(client, "/")
    assert 'acme is throttled on <span class="ep">payments:charge</span>' in text
    assert "Override ends soon: bolt on" in text
    assert re.search(r"Change \d+ is pending", text)


def test_a_range_that_was_dragged_is_in_the_address(client: Client, world: None) -> None:
    counted("acme", "a", 5, ago=timedelta(minutes=20))
    drained()
    now = timezone.now().timestamp()
    text = page(client, f"/?from={now - 1800}&to={now - 600}")
    assert "of 5 requests in the chosen time" in text or "All 5 requests in the chosen time" in text
    assert "zoomed" in text


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("span=1y", "span must be one of 15m, 1h, 6h, 24h, 7d, 14d."),
        ("from=5", "from and to are times in seconds since 1970; give both."),
        ("from=1700000000&to=1600000000", "to must be later than from."),
        ("from=1&to=nan", "from and to are times in seconds since 1970; give both."),
    ],
)
def test_a_time_that_cannot_be_is_refused_in_one_sentence(
    client: Client, world: None, query: str, sentence: str
) -> None:
    response = client.get(f"/?{query}")
    assert response.status_code == 400
    assert response.content.decode() == sentence


def test_a_browser_gets_the_page_of_a_bad_address(client: Client, world: None) -> None:
    response = client.get("/?span=9y", headers={"accept": "text/html,*/*;q=0.8"})
    assert (response.status_code, response.headers["Content-Type"]) == (400, "text/html; charset=utf-8")
    text = text_of(response.content)
    assert "span must be one of 15m, 1h, 6h, 24h, 7d, 14d." in text
    assert '<a class="link" href="?">' in text


def test_before_anything_is_set_up_it_leads_to_the_first_steps(client: Client) -> None:
    own_limits_install("headroom")
    assert client.get("/").headers["Location"] == "/first-run"


@pytest.mark.django_db(transaction=True)
def test_without_postgres_it_says_so_and_what_still_works(client: Client) -> None:
    with connection.cursor() as cursor, connection.copy().cursor() as killer:
        cursor.execute("SELECT pg_backend_pid()")
        killer.execute("SELECT pg_terminate_backend(%s, 5000)", cursor.fetchone())
        killer.connection.close()
    response = client.get("/")
    connection.close()
    assert response.status_code == 503
    assert b"Limits are still enforced" in response.content


def test_it_is_for_reading_only(client: Client) -> None:
    assert client.post("/").status_code == 405


def test_a_name_cannot_bring_markup(client: Client, world: None) -> None:
    counted("acme", "a", 1)
    drained()
    now = timezone.now()
    GapRecord.objects.create(start=now, end=now, reason="<script>alert(1)</script>")
    assert "<script>alert" not in page(client, "/")


def test_the_policy_allows_nothing_inline_and_the_page_needs_nothing_inline(client: Client, world: None) -> None:
    counted("acme", "d", 5, limit="burst")
    drained()
    response = client.get("/")
    policy = response.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    text = response.content.decode()
    assert not re.search(r"<style|<script(?![^>]+src=)|\sstyle=|\son[a-z]+=|javascript:", text)
