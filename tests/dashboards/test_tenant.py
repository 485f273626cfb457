"""One tenant: why it is throttled, why its limits are so, and what can be done about it."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
import redis
from django.test import Client
from django.utils import timezone

from quotas.api_keys import api_key_issue
from quotas.models import Endpoint, LimitName, Override, Revision
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.overrides import override_create
from quotas.policies.edit import limit_set, policy_create, policy_update
from quotas.tenant_summary import measure_tenants
from quotas.tenants import tenant_suspend
from quotas.usage.backfill import backfill_usage
from tenants.models import ApiKey, Tenant
from tests.access.people import signed_in
from tests.dashboards.world import GET, PAY, counted, denied, drained, make_world, page, published, text_of
from tests.quotas.heartbeats import leasing
from tests.quotas.world import FORCED, SAID, bucket

pytestmark = pytest.mark.django_db

GIVE = {"place": "*|burst", "main": "150", "size": "300", "reason": "a festival"}


@pytest.fixture(autouse=True)
def world(valkey: object) -> None:
    make_world()
    drained()


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("olga", "operator")


def test_it_lists_every_limit_with_what_it_comes_from(client: Client) -> None:
    policy_create(name="acme-pay", tenant="acme", endpoint=PAY, limits=[bucket(5)], **FORCED)
    text = page(client, "/tenants/acme")
    assert re.search(r"payments:charge</a></th>\s*<td class=\"wrap tight\">\s*<b>5/s</b>", text)
    assert "acme × payments:charge" in text
    assert re.search(r"<b>100/s</b> <span class=\"faint small\">burst 200</span>", text)


def test_it_says_on_which_endpoints_leases_are_in_use(client: Client, valkey: redis.Redis) -> None:
    assert 'id="leases"' not in page(client, "/tenants/acme")
    leasing(valkey, "one", GET, PAY, ms=1_000)
    leasing(valkey, "two", GET)
    note = page(client, "/tenants/acme").partition('id="leases"')[2].partition("</div>")[0]
    words = re.sub(r"<[^>]*>", "", note).partition(">")[2].strip()
    assert words == (
        "Leased by 2 processes on payments:charge and 1 more endpoint: an edit arrives up to 100 ms later, and a "
        "process that dies may waste up to one block."
    )
    policy_update(name="pro-all", limits=[bucket(100, lease="never")], **FORCED)
    text = page(client, "/tenants/acme")
    assert 'id="leases"' not in text
    assert "If Redis fails: open. Never leased." in text


def test_why_this_value_goes_from_most_to_least_specific(client: Client) -> None:
    policy_create(name="acme-pay", tenant="acme", endpoint=PAY, limits=[bucket(5)], **FORCED)
    text = page(client, f"/tenants/acme?endpoint={PAY}&limit=burst")
    ladder = text[text.index('<ol class="ladder"') : text.index("</ol>", text.index('<ol class="ladder"'))]
    kinds = re.findall(r'<li class="(\w+)"', ladder)
    assert kinds == ["none", "wins", "none", "none", "lost", "and"]
    assert "minute, also applies" in ladder


def test_a_throttled_tenant_hears_where_and_by_what(client: Client) -> None:
    counted("acme", "a", 60)
    counted("acme", "d", 40, limit="burst")
    denied("acme")
    text = page(client, "/tenants/acme")
    assert "40 % of requests to" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "The limit burst was used up (cost 1); retry after 500 ms." in text


def test_each_limit_shows_only_what_it_denied_itself(client: Client) -> None:
    """Both stand on `*` and count the same requests; `burst` denied a tenth of them, `minute` none."""
    acme, pay = Tenant.objects.get(name="acme").number, Endpoint.objects.get(name=PAY).number
    burst = LimitName.objects.get(name="burst").number
    at = int(timezone.now().replace(minute=0, second=0, microsecond=0).timestamp())
    cells = [Cell(at, CellSeries(acme, pay, "a", 0), 90, 90), Cell(at, CellSeries(acme, pay, "d", burst), 10, 10)]
    backfill_usage(Cells.of(cells), timezone.now())
    text = page(client, "/tenants/acme")
    shares = dict(
        re.findall(r'class="muted small">(burst|minute)</span>.*?<td class="num hide-card" data-v="([^"]*)"', text)
    )
    assert shares == {"burst": "0.1", "minute": "0"}


def test_it_is_compared_with_its_tier_with_another_tenant_or_with_nobody(client: Client) -> None:
    assert "10/s burst 20" in page(client, "/tenants/acme?with=free")
    assert "10/s burst 20" in page(client, "/tenants/acme?with=bolt")
    assert "No other tenant or tier is called nobody." in page(client, "/tenants/acme?with=nobody")


def test_an_override_is_rehearsed_before_it_is_given(operator: Client) -> None:
    response = operator.post("/tenants/acme/override/preview", {**GIVE, "reason": ""})
    text = text_of(response.content)
    assert "limits.burst.rate" in text
    assert "No limit gets tighter." in text
    assert not Override.objects.exists()


def test_a_rehearsal_tells_the_peak_as_a_share_of_the_limit(operator: Client) -> None:
    """A limit with a burst is measured over a minute, so a number of requests would be none that was ever seen."""
    acme, pay = Tenant.objects.get(name="acme").number, Endpoint.objects.get(name=PAY).number
    at = int(timezone.now().replace(minute=0, second=0, microsecond=0).timestamp())
    backfill_usage(Cells.of([Cell(at, CellSeries(acme, pay, "a", 0), 600, 600)]), timezone.now())
    text = text_of(operator.post("/tenants/acme/override/preview", GIVE).content)
    assert re.search(r"Peak use of the present limit: 10\s%\.", text)


def test_a_rehearsal_tells_what_takes_force(operator: Client) -> None:
    response = operator.post("/tenants/acme/override/preview", {**GIVE, "main": "10"})
    assert "Blocked: this would cut" in text_of(response.content)


def test_an_override_is_given_with_its_end_in_the_viewers_zone(operator: Client) -> None:
    fields = {**GIVE, "ends": "2099-07-01T20:00", "zone": "Europe/Berlin"}
    response = operator.post("/tenants/acme/override/give", fields)
    assert response.headers["HX-Redirect"] == "/tenants/acme"
    row = Override.objects.get()
    assert (row.author, row.reason, row.limits) == ("olga", "a festival", {"burst": {"rate": 150, "burst": 300}})
    assert row.end is not None
    assert row.end.isoformat() == "2099-07-01T18:00:00+00:00"
    text = page(operator, "/tenants/acme")
    assert "a festival" in text
    assert "override of pro × *" in text


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"reason": ""}, "Enter a reason. It is saved with the revision."),
        ({"ends": "2020-01-01T00:00"}, ">End must be later than start; move one of them.<"),
        ({"main": "10"}, ">Tenant acme: limit burst on *: "),
        ({"main": "10"}, "make the cut smaller, or apply it anyway (force).<"),
        ({"main": ""}, "Enter a number."),
    ],
)
def test_a_refusal_stands_beside_its_field_and_what_was_typed_stays(
    operator: Client, change: dict[str, str], sentence: str
) -> None:
    response = operator.post("/tenants/acme/override/give", {**GIVE, **change})
    assert response.status_code == 422
    text = text_of(response.content)
    assert sentence in text
    assert 'value="300"' in text
    assert not Override.objects.exists()


def test_an_override_can_guarantee_nothing(operator: Client) -> None:
    share = {"name": "burst", "algorithm": "borrowing", "assured": 200, "burst": 50, "reserve": 5, "parent": "org"}
    pool = {"name": "org", "algorithm": "pool", "rate": 1_000, "burst": 250}
    policy_update(name="pro-all", limits=[pool, share], **FORCED)
    response = operator.post("/tenants/acme/override/give", {**GIVE, "main": "0", "size": "", "force": "on"})
    assert response.status_code == 200, text_of(response.content)
    assert Override.objects.get().limits == {"burst": {"assured": 0, "burst": None, "reserve": 0}}
    text = page(operator, "/tenants/acme")
    assert "0/s guaranteed, more from org" in re.sub(r"<[^>]+>", "", text)
    assert "burst None" not in text


def test_an_override_can_be_ended(operator: Client) -> None:
    row = override_create(tenant="acme", limits={"burst": {"rate": 150, "burst": 300}}, **SAID)
    response = operator.post(f"/tenants/acme/overrides/{row.pk}/end", {"reason": "it is over", "force": "on"})
    assert response.headers["HX-Redirect"].startswith("/tenants/acme")
    row.refresh_from_db()
    assert row.cancelled_at is not None


def test_a_key_is_shown_once_and_can_be_revoked(operator: Client) -> None:
    response = operator.post("/tenants/acme/keys", {"label": "billing", "scopes": ["check"], "reason": "they asked"})
    text = text_of(response.content)
    key = ApiKey.objects.get()
    assert re.search(rf"hr_{key.key_id}_\w{{64}}", text)
    assert not re.search(r"hr_\w+_\w{64}", page(operator, "/tenants/acme"))
    assert operator.post(f"/tenants/acme/keys/{key.key_id}/revoke", {"reason": "it leaked"}).status_code == 200
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_key_is_rotated_with_an_overlap(operator: Client) -> None:
    old = api_key_issue(tenant="acme", label="billing", **SAID).row
    path = f"/tenants/acme/keys/{old.key_id}/rotate"
    assert "The old key works until" in text_of(operator.get(path).content)
    until = timezone.now() + timedelta(days=1)
    typed = {"until": f"{until:%Y-%m-%dT%H:%M}", "zone": "UTC", "reason": "yearly"}
    wrong = operator.post(path, {**typed, "until": "2020-01-01T00:00"})
    assert wrong.status_code == 422
    assert "Until is in the past; choose a later time." in text_of(wrong.content)
    text = text_of(operator.post(path, typed).content)
    new = ApiKey.objects.exclude(pk=old.pk).get()
    example = rf"curl -s \S+/v1/check \\ -H .Authorization: Bearer hr_{new.key_id}_\w{{64}}"
    assert re.search(example, html.unescape(text))
    shown = page(operator, "/tenants/acme")
    assert "in overlap" in shown
    assert f'replaced by <span class="mono">{new.key_id[:6]}' in shown
    assert "never" in shown


def test_the_purpose_of_a_key_is_changed(operator: Client) -> None:
    key = api_key_issue(tenant="acme", label="billing", **SAID).row
    path = f"/tenants/acme/keys/{key.key_id}/label"
    assert 'value="billing"' in text_of(operator.get(path).content)
    assert operator.post(path, {"label": "web", "reason": ""}).status_code == 422
    assert operator.post(path, {"label": "web", "reason": "typo"}).headers["HX-Redirect"] == "/tenants/acme#keys"
    key.refresh_from_db()
    assert key.label == "web"


def test_the_page_warns_where_only_limits_per_key_bound_a_tenant(operator: Client) -> None:
    api_key_issue(tenant="acme", **SAID)
    assert "Each new key adds budget." not in page(operator, "/tenants/acme")
    per_key = {"name": "per-key", "algorithm": "fixed_window", "limit": 9, "window": "1h", "subject": "key"}
    policy_update(name="pro-all", limits=[per_key], **FORCED)
    assert "Each new key adds budget.</b> per-key counts each" in " ".join(page(operator, "/tenants/acme").split())


def test_a_key_of_another_tenant_is_not_revoked_from_here(operator: Client) -> None:
    key = api_key_issue(tenant="bolt", **SAID).row
    assert operator.post(f"/tenants/acme/keys/{key.key_id}/revoke", {"reason": "x"}).status_code == 404
    key.refresh_from_db()
    assert key.revoked_at is None


def test_a_tenant_is_suspended_and_resumed_with_a_reason(operator: Client) -> None:
    assert operator.post("/tenants/acme/suspend", {"reason": ""}).status_code == 422
    operator.post("/tenants/acme/suspend", {"reason": "invoice overdue"})
    assert "Suspended: all requests are denied." in page(operator, "/tenants/acme")
    operator.post("/tenants/acme/resume", {"reason": "it is paid"})
    assert not Tenant.objects.get(name="acme").suspended


def test_who_only_looks_is_offered_nothing_to_press(client: Client) -> None:
    text = page(client, "/tenants/acme")
    assert "Add override" not in text
    assert "dlg-switch" not in text


def test_the_list_finds_tenants_by_name_tier_and_state(client: Client) -> None:
    tenant_suspend(name="bolt", **SAID)
    counted("acme", "d", 3, limit="burst")
    measure_tenants(timezone.now())
    for query, names in (
        ("", {"acme", "bolt"}),
        ("q=ac", {"acme"}),
        ("tier=free", {"bolt"}),
        ("only=suspended", {"bolt"}),
        ("only=denied", {"acme"}),
        ("only=override", set()),
        ("after=acme", {"bolt"}),
    ):
        assert set(re.findall(r'rowlink" href="/tenants/(\w+)"', page(client, f"/tenants?{query}"))) == names, query


def test_an_unknown_tenant_is_not_there(client: Client) -> None:
    assert client.get("/tenants/nobody").status_code == 404


def test_an_override_that_ended_says_so(client: Client) -> None:
    row = override_create(tenant="acme", limits={"burst": {"rate": 150, "burst": 300}}, **SAID)
    past = timezone.now() - timedelta(hours=2)
    Override.objects.filter(pk=row.pk).update(start=past, end=past + timedelta(hours=1))
    assert re.search(r"ended <time", page(client, "/tenants/acme"))
    assert Revision.objects.count() == 3


def test_the_end_of_an_override_names_its_zone_and_the_tenants(operator: Client) -> None:
    Tenant.objects.filter(name="acme").update(timezone="Asia/Tokyo")
    text = page(operator, "/tenants/acme")
    assert 'data-also="Asia/Tokyo" data-default="86400" data-after="o_starts"' in text
    assert text.count("data-lasts=") == 3


def test_the_chart_has_a_step_for_each_value_of_the_limit_and_nothing_before_the_first(client: Client) -> None:
    now = timezone.now()
    counted("acme", "a", 6)
    published(now - timedelta(hours=3))
    limit_set(policy="pro-all", limit=bucket(60), **FORCED)
    published(now - timedelta(hours=1))
    text = page(client, "/tenants/acme?limit=burst")
    lines = re.findall(
        r'<li data-kind="limit"[^>]+data-at="(\d+)"[^>]+data-held-from="([\d.]+)" data-held-to="([\d.]+)"', text
    )
    assert [value for value, _, _ in lines] == ["100", "60"]
    assert float(lines[0][1]) == pytest.approx((now - timedelta(hours=3)).timestamp(), abs=1)
    assert lines[0][2] == lines[1][1]
    assert re.search(r'fig-events.*?revision=3">r3</a>', text)
    # The table has the limit of each time, and says where none is known.
    held = re.findall(r'<tr data-x="[\d.]+">.*?</tr>', text)
    assert 'data-v="60"' in held[0]
    assert "data-v" not in held[-1].rpartition("<td")[2]


@pytest.mark.parametrize("ceiling", [None, 800])
def test_the_chart_of_a_share_has_its_guaranteed_rate_and_its_ceiling(client: Client, ceiling: int | None) -> None:
    counted("acme", "a", 6)
    share = {"name": "burst", "algorithm": "borrowing", "assured": 200, "parent": "org", "ceiling": ceiling}
    pool = {"name": "org", "algorithm": "pool", "rate": 1_000, "burst": 250}
    policy_update(name="pro-all", limits=[pool, share], **FORCED)
    published(timezone.now() - timedelta(hours=1))
    text = page(client, "/tenants/acme?limit=burst")
    lines = re.findall(r'<li data-kind="limit"[^>]+data-at="(\d+)"[^>]*>([^<]+)', text)
    shown = [(at, label.strip()) for at, label in lines]
    assert ("200", "guaranteed 200/s") in shown
    assert (("800", "ceiling 800/s") in shown) == bool(ceiling)
    assert "Guaranteed, now 200/s" in text
    assert ("Ceiling, now 800/s" in text) == bool(ceiling)
    assert re.search(r"<th[^>]*>\s*Guaranteed", text)


def test_once_an_override_has_helped_the_banner_calms_down(client: Client) -> None:
    counted("acme", "a", 60, ago=timedelta(minutes=10))
    counted("acme", "d", 40, limit="burst", ago=timedelta(minutes=10))
    published(timezone.now() - timedelta(hours=9))
    assert 'class="banner banner-denied"' in page(client, "/tenants/acme")
    override_create(tenant="acme", limits={"burst": {"rate": 900, "burst": 1800}}, **SAID)
    published(timezone.now() - timedelta(minutes=2))
    text = page(client, "/tenants/acme")
    assert 'class="banner banner-denied"' not in text
    assert re.search(r"<b>0 denied since <a[^>]+>r3</a>, <time[^>]*>", text)
    assert "Before that, <a" in text
