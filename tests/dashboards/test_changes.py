"""Changes: what was done and what it did, what waits, and the way back."""

from __future__ import annotations

import re
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
import redis
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboards.pages.changes.promotion import expected_a_day
from quotas.changes import draft as drafts
from quotas.changes import restore
from quotas.changes.rollout import change_propose, change_start
from quotas.changes.undo_preview import MOST_COMPARED, MOST_JUDGED
from quotas.errors import accepted
from quotas.models import Change, Endpoint, Limit, Override, Revision
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.overrides import override_create
from quotas.own_limits import own_limits_install
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.policies.edit import limit_set
from quotas.tenants import NewTenant, tenant_create, tenant_move, tenants_create
from quotas.usage.rates import add_rates
from tenants.models import ApiToken, Tenant
from tests.access.people import person, signed_in, token
from tests.dashboards.world import counted, drained, make_world, page, published, text_of
from tests.quotas.world import FORCED, GET, SAID, bucket

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world(valkey: redis.Redis) -> None:
    make_world()
    drained()


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("olga", "operator")


@pytest.fixture
def proposed() -> Change:
    return change_propose(limit_set, policy="pro-all", limit=bucket(300), **SAID)


def test_a_revision_says_who_why_what_and_what_it_did(client: Client) -> None:
    counted("acme", "a", 90, ago=timedelta(minutes=30))
    counted("acme", "d", 10, limit="burst", ago=timedelta(minutes=30))
    counted("bolt", "d", 500, limit="burst", ago=timedelta(minutes=30))
    limit_set(policy="pro-all", limit=bucket(200), **SAID)
    published(timezone.now() - timedelta(minutes=15))
    counted("acme", "a", 50)
    counted("bolt", "d", 500, limit="burst")
    text = page(client, "/changes")
    assert "Raise pro × *" in text
    assert "rate 100 → 200" in text
    assert "“because”" in text
    assert re.search(r"10 % → 0 %", text.replace("\N{NO-BREAK SPACE}", " "))
    assert re.search(r'class="del"><td class="sg">−</td><td>limits.burst.rate: <mark>100</mark>', text)


def test_a_diff_has_a_word_for_what_is_empty(client: Client) -> None:
    tenant_create(name="cargo", tier="pro", **SAID)
    text = page(client, "/changes")
    assert "suspended: <mark>no</mark>" in text
    assert "<mark></mark>" not in text


def test_titles_say_how_many_tenants_are_new_and_where_one_moved(client: Client) -> None:
    tenants_create(tenants=[NewTenant("cargo", "pro"), NewTenant("dash", "pro")], **SAID)
    tenant_move(name="cargo", tier="free", **FORCED)
    text = page(client, "/changes")
    assert "2 new tenants" in text
    assert "Move cargo to free" in text


def test_what_a_revision_did_is_not_said_before_there_is_enough_of_it(client: Client) -> None:
    counted("acme", "a", 100, ago=timedelta(minutes=30))
    limit_set(policy="pro-all", limit=bucket(50), **FORCED)
    published(timezone.now() - timedelta(minutes=3))
    counted("acme", "d", 100, limit="burst")
    found = re.search(r'<div class="ba">.*?</b>', page(client, "/changes"))
    assert found
    assert "measured yet" in found[0]
    assert "t-denied" not in found[0]


def test_a_new_tier_is_measured_by_what_comes_with_it(client: Client) -> None:
    """Not by what everybody else is denied meanwhile."""
    counted("acme", "d", 500, limit="burst", ago=timedelta(minutes=30))
    own_limits_install("headroom")
    published(timezone.now() - timedelta(minutes=15))
    counted("acme", "d", 900, limit="burst")
    counted("acme", "a", 900)
    found = re.search(r'<div class="ba">.*?</b>', page(client, "/changes?revision=3"))
    assert found
    assert '<span class="faint">\N{EN DASH}</span>' in found[0]


def test_revisions_are_found_by_author_and_by_what_they_touched(client: Client) -> None:
    limit_set(policy="free-all", limit=bucket(50), author="zoe", reason="more")
    assert re.findall(r'class="id">r(\d+)', page(client, "/changes?q=zoe")) == ["3"]
    assert re.findall(r'class="id">r(\d+)', page(client, "/changes?q=free-all")) == ["3", "1"]
    assert re.findall(r'class="id">r(\d+)', page(client, "/changes?touched=tenant:acme")) == ["2"]
    assert "No matching revisions" in page(client, "/changes?q=nothing")


def test_an_unknown_revision_is_not_there(client: Client) -> None:
    assert client.get("/changes?revision=99").status_code == 404
    assert client.get("/changes?revision=x").status_code == 404
    assert client.get("/changes/99").status_code == 404
    assert client.get("/changes/99.csv").status_code == 404
    assert client.get("/changes?change=99").headers["Location"] == "/changes/99"


def test_going_back_is_rehearsed_and_asks_for_force_when_it_cuts(operator: Client) -> None:
    limit_set(policy="pro-all", limit=bucket(200), **SAID)
    text = text_of(operator.get("/changes/2/undo/rollback").content)
    assert "Blocked: this would cut" in text
    assert Revision.objects.count() == 3
    refused = operator.post("/changes/2/undo/rollback", {"reason": "too much"})
    assert refused.status_code == 422
    assert "apply it anyway (force)" in text_of(refused.content)
    assert "within the last hour" not in text_of(refused.content)
    assert operator.post("/changes/2/undo/rollback", {"reason": "too much", "force": "on"}).status_code == 200
    assert Limit.objects.get(policy__name="pro-all", name__name="burst").parameters["rate"] == 100
    assert Revision.objects.latest("number").author == "olga"


def test_a_rollback_does_not_undo_what_its_page_did_not_show(operator: Client) -> None:
    limit_set(policy="pro-all", limit=bucket(50), **FORCED)
    shown = text_of(operator.get("/changes/2/undo/rollback").content)
    seen = re.search(r'<input type="hidden" name="newest" value="(\d+)"', shown)
    assert seen
    limit_set(policy="free-all", limit=bucket(20), **SAID)
    refused = operator.post("/changes/2/undo/rollback", {"reason": "too little", "newest": seen[1]})
    assert refused.status_code == 422
    assert "revision 4 was written since, and would be undone too" in text_of(refused.content)
    assert Revision.objects.count() == 4
    nonsense = operator.post("/changes/2/undo/rollback", {"reason": "too little", "newest": "4x"})
    assert nonsense.status_code == 422
    assert "The newest revision that you saw must be a number" in text_of(nonsense.content)
    looked_again = {"reason": "too little", "newest": "4", "force": "on"}
    assert operator.post("/changes/2/undo/rollback", looked_again).status_code == 200


def test_one_change_is_reverted(operator: Client) -> None:
    limit_set(policy="pro-all", limit=bucket(50), **FORCED)
    response = operator.post("/changes/3/undo/revert", {"reason": "too little"})
    assert response.headers["HX-Redirect"] == "/changes"
    assert Limit.objects.get(policy__name="pro-all", name__name="burst").parameters["rate"] == 100


def endpoints(count: int, cost: int) -> None:
    lines = [f"  - {{name: 'many:op{n:04}', path: /many/{n}, default_cost: {cost}}}" for n in range(count)]
    document_apply(document=accepted(read_document("\n".join(["endpoints:", *lines]))), **FORCED)


def hunks(content: bytes) -> int:
    return content.count(b'class="hunk"')


def test_a_page_shows_the_first_hundred_objects_of_a_change(operator: Client) -> None:
    endpoints(120, cost=1)
    for address in ("/changes", "/changes/2/undo/rollback", "/changes/3/undo/revert"):
        response = operator.get(address)
        assert hunks(response.content) == 100
        assert "And 20 more." in text_of(response.content)


def noted(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[tuple[Any, ...]]:
    """What the function is called with from now on."""
    found: list[tuple[Any, ...]] = []
    work = getattr(module, name)

    def call(*given: Any) -> Any:
        found.append(given)
        return work(*given)

    monkeypatch.setattr(module, name, call)
    return found


@pytest.mark.parametrize(("way", "number"), [("rollback", 3), ("revert", 4)])
def test_a_page_does_not_judge_an_undo_of_many_objects_until_it_is_done(
    operator: Client, monkeypatch: pytest.MonkeyPatch, way: str, number: int
) -> None:
    endpoints(MOST_JUDGED + 5, cost=1)
    endpoints(MOST_JUDGED + 5, cost=2)
    judged, read = noted(monkeypatch, drafts, "_proposal"), noted(monkeypatch, restore, "snapshots")
    response = operator.get(f"/changes/{number}/undo/{way}")
    assert judged == []
    assert [len(keys) for (keys,) in read] == [MOST_COMPARED]
    text = text_of(response.content)
    assert "touched 505 objects." in text
    assert f"Of the first {MOST_COMPARED} endpoints, policies and tenants, {MOST_COMPARED} would change:" in text
    assert "default_cost: <mark>2</mark>" in text
    assert hunks(response.content) == 100
    assert operator.post(f"/changes/{number}/undo/{way}", {"reason": "too dear"}).status_code == 200
    assert judged
    assert set(Endpoint.objects.filter(name__startswith="many:").values_list("default_cost", flat=True)) == {1}


@pytest.mark.parametrize("way", ["rollback", "revert"])
def test_the_page_of_an_undo_sends_and_reads_as_much_for_twice_the_objects(operator: Client, way: str) -> None:
    found = []
    for count in (600, 1200):
        endpoints(count, cost=count)
        newest = Revision.objects.latest("number").number
        with CaptureQueriesContext(connection) as seen:
            response = operator.get(f"/changes/{newest - (way == 'rollback')}/undo/{way}")
        found.append((len(seen), len(response.content), sum(len(query["sql"]) for query in seen)))
    few, many = found
    assert many[0] == few[0]
    assert many[1] <= 1.05 * few[1]
    assert many[2] <= 1.05 * few[2]


def test_an_undo_of_many_objects_that_cuts_is_refused_until_it_is_forced(operator: Client) -> None:
    endpoints(MOST_JUDGED + 1, cost=1)
    limit_set(policy="pro-all", limit=bucket(200), **SAID)
    assert "Blocked" not in text_of(operator.get("/changes/2/undo/rollback").content)
    refused = operator.post("/changes/2/undo/rollback", {"reason": "too much"})
    assert refused.status_code == 422
    assert "apply it anyway (force)" in text_of(refused.content)
    assert Revision.objects.latest("number").number == 4
    assert operator.post("/changes/2/undo/rollback", {"reason": "too much", "force": "on"}).status_code == 200
    assert Limit.objects.get(policy__name="pro-all", name__name="burst").parameters["rate"] == 100
    assert not Endpoint.objects.filter(name__startswith="many:", retired=False).exists()


def test_a_revert_of_many_objects_that_were_touched_since_names_the_first(operator: Client) -> None:
    endpoints(MOST_JUDGED + 1, cost=1)
    endpoints(MOST_JUDGED + 1, cost=2)
    text = text_of(operator.get("/changes/3/undo/revert").content)
    assert "Revision 4 touched endpoint:many:op0000, " in text
    assert "endpoint:many:op0009 and 491 more since; revert that one first" in text


def test_an_unknown_way_back_is_not_there(operator: Client) -> None:
    assert operator.get("/changes/1/undo/sideways").status_code == 404


def test_a_proposal_waits_where_it_can_be_seen(client: Client, proposed: Change) -> None:
    text = page(client, f"/changes/{proposed.pk}")
    assert "Not on trial yet" in text
    assert "no limit gets tighter" in text
    assert f'href="/changes/{proposed.pk}"' in page(client, "/changes")


def test_a_proposal_is_tried_in_shadow_promoted_and_then_over(operator: Client, proposed: Change) -> None:
    address = f"/changes/open/{proposed.pk}"
    assert operator.post(f"{address}/start", {"mode": "shadow", "reason": "to see"}).status_code == 200
    proposed.refresh_from_db()
    assert proposed.state == "shadow"
    assert operator.post(f"{address}/promote", {"reason": "it hurts nobody"}).status_code == 200
    proposed.refresh_from_db()
    assert proposed.state == "promoted"
    again = operator.post(f"{address}/drop", {"reason": "too late"})
    assert again.status_code == 422


def test_a_proposal_is_scheduled_in_the_viewers_zone(operator: Client, proposed: Change) -> None:
    fields = {"mode": "scheduled", "at": "2099-01-01T10:00", "zone": "Asia/Tokyo", "reason": "at night"}
    assert operator.post(f"/changes/open/{proposed.pk}/start", fields).status_code == 200
    proposed.refresh_from_db()
    assert proposed.at is not None
    assert proposed.at.isoformat() == "2099-01-01T01:00:00+00:00"


def test_only_an_approver_approves_and_not_their_own(operator: Client, proposed: Change) -> None:
    address = f"/changes/open/{proposed.pk}/approve"
    assert operator.post(address, {"reason": "fine"}).status_code == 403
    own = signed_in("ann", "approver")
    assert "somebody else has to approve it" in text_of(own.post(address, {"reason": "fine"}).content)
    alex = signed_in("alex", "approver")
    where = f"/changes/{proposed.pk}"
    assert 'data-open="dlg-approve"' in alex.get(where).content.decode()
    assert alex.post(address, {"reason": "fine"}).status_code == 200
    assert 'data-open="dlg-approve"' not in alex.get(where).content.decode()  # there is nothing to do twice
    assert "Approved by alex" in page(operator, where)


@pytest.fixture
def four_eyes(settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True


def button(text: str, dialog: str) -> str:
    """The classes of the button that opens the dialog; empty: there is none."""
    found = re.search(rf'<button class="([^"]*)" type="button" data-open="{dialog}"', text)
    return found[1] if found else ""


@pytest.mark.usefixtures("four_eyes")
def test_under_four_eyes_one_approves_first_and_promotes_then(proposed: Change) -> None:
    person("ann", "approver")
    where, olga, alex = f"/changes/{proposed.pk}", signed_in("olga", "operator"), signed_in("alex", "approver")
    assert button(page(olga, where), "dlg-promote") == ""
    assert "An approver or owner has to approve it." in page(olga, where)
    assert button(page(alex, where), "dlg-approve") == "btn btn-primary"
    assert "Promote in an emergency" in page(alex, where)
    assert "Ann is the author; somebody else has to approve it." in page(signed_in("ann", "approver"), where)
    assert alex.post(f"/changes/open/{proposed.pk}/approve", {"reason": "fine"}).status_code == 200
    for viewer in (olga, alex):
        assert button(page(viewer, where), "dlg-promote") == "btn btn-primary"
        assert button(page(viewer, where), "dlg-approve") == ""


def test_who_issued_a_token_is_not_offered_to_approve_what_it_asked_for() -> None:
    alice, alex = signed_in("alice", "approver"), signed_in("alex", "approver")
    row = change_propose(limit_set, policy="pro-all", limit=bucket(300), author=token_name("alice"), reason="more")
    where = f"/changes/{row.pk}"
    assert button(page(alice, where), "dlg-approve") == ""
    assert button(page(alex, where), "dlg-approve") == "btn"


def token_name(issuer: str) -> str:
    row = ApiToken.objects.get(key_id=token("operator", issuer=issuer).split("_")[1])
    return f"token {row.key_id} ({row.label})"


@pytest.mark.usefixtures("four_eyes")
def test_a_refusal_that_force_does_not_help_against_does_not_offer_it(operator: Client, proposed: Change) -> None:
    refused = operator.post(f"/changes/open/{proposed.pk}/promote", {"reason": "now"})
    text = text_of(refused.content)
    assert (refused.status_code, "waits for an approver" in text) == (422, True)
    assert "Apply anyway" not in text
    alex = text_of(
        signed_in("alex", "approver").post(f"/changes/open/{proposed.pk}/promote", {"reason": "now"}).content
    )
    assert "Emergency: skip approval" in alex


def test_who_takes_back_their_own_edit_is_not_asked_to_force_it(operator: Client) -> None:
    limit_set(policy="pro-all", limit=bucket(200), author="olga", reason="a typo")
    text = text_of(operator.get("/changes/3/undo/revert").content)
    assert "This takes back what you wrote within the last hour" in text
    assert operator.post("/changes/3/undo/revert", {"reason": "a typo"}).status_code == 200


def test_a_promotion_shows_its_cuts_and_takes_those_that_were_reviewed() -> None:
    row = change_propose(limit_set, policy="pro-all", limit=bucket(10), **SAID)
    olga = signed_in("olga", "operator")
    where = f"/changes/open/{row.pk}/promote"
    shown = text_of(olga.get(where).content)
    assert "This cuts 1 tenant" in shown
    assert "Emergency" not in shown
    (seen,) = re.findall(r'name="seen" value="([^"]+)"', shown)
    assert seen == "90.0|*|burst"
    refused = olga.post(where, {"reason": "now"})
    assert (refused.status_code, "a cut of 90 %" in text_of(refused.content)) == (422, True)
    smaller = olga.post(where, {"reason": "now", "reviewed": "on", "seen": "50.0|*|burst"})
    assert (smaller.status_code, "would now lose 90 % (tier pro)" in text_of(smaller.content)) == (422, True)
    assert olga.post(where, {"reason": "now", "reviewed": "on", "seen": seen}).status_code == 200
    row.refresh_from_db()
    assert row.state == "promoted"


def test_a_tenant_below_its_peak_is_named_and_kept_or_accepted(operator: Client) -> None:
    asked_for("acme", 290)
    row = change_propose(limit_set, policy="pro-all", limit=bucket(60), **SAID)
    where = f"/changes/open/{row.pk}/promote"
    shown = text_of(operator.get(where).content)
    assert "1 of them below what they really use" in shown
    assert "What to do about acme" in shown
    assert re.search(r'data-l="429s a day"><span class="faint">not known yet</span>', shown)
    fields = {"reason": "now", "reviewed": "on", "seen": re.findall(r'name="seen" value="([^"]+)"', shown)}
    refused = operator.post(where, fields)
    assert refused.status_code == 422
    assert "accept the cut for each of them by name" in text_of(refused.content)
    assert operator.post(where, {**fields, "cut-acme": "keep"}).status_code == 200
    override = Override.objects.get()
    assert (override.tenant.name, override.limits["burst"]["rate"]) == ("acme", 100)
    assert override.end is not None
    assert timedelta(days=29) < override.end - timezone.now() < timedelta(days=31)


def test_a_promotion_repeats_that_it_is_too_early(operator: Client) -> None:
    row = change_propose(limit_set, policy="pro-all", limit=bucket(99), **SAID)
    change_start(change=row.pk, mode="shadow", **SAID)
    counted("acme", "a", 500, ago=timedelta(0))
    shown = text_of(operator.get(f"/changes/open/{row.pk}/promote").content)
    assert "Going well, but too early: 0 of 1 tenant would see 429s." in shown


@pytest.mark.parametrize(
    ("would_deny", "days", "expected"), [(0, 0.0, None), (0, 0.5, None), (3, 0.5, 6), (0, 2.0, 0), (3, 2.0, 2)]
)
def test_a_part_of_a_day_without_would_be_429s_promises_nothing(
    would_deny: int, days: float, expected: int | None
) -> None:
    assert expected_a_day(would_deny, days) == expected


def test_a_canary_names_whom_it_cuts_below_their_peak_and_takes_those_ticked(operator: Client) -> None:
    for name in ("acme", "t-1", "t-2", "t-3"):
        if name != "acme":
            tenants_create(tenants=[NewTenant(name, "pro")], **SAID)
        asked_for(name, 290)
    row = change_propose(limit_set, policy="pro-all", limit=bucket(60), **SAID)
    where = f"/changes/open/{row.pk}/start"
    fields = {"mode": "canary", "share_percent": "99.9", "reason": "some first", "force": "on"}
    refused = operator.post(where, fields)
    assert refused.status_code == 422
    names = re.findall(r'name="accept" value="([^"]+)"', refused.content.decode())
    assert len(names) == 4
    assert "4 tenants would be left less than they asked for. Tick each that may be cut." in refused.content.decode()
    again = operator.post(where, {**fields, "accept": names[:2]})
    assert re.findall(r'type="hidden" name="accept" value="([^"]+)"', again.content.decode()) == names[:2]
    assert operator.post(where, {**fields, "accept": names}).status_code == 200


def asked_for(tenant: str, peak: int) -> None:
    """So many requests in one second, some days ago."""
    now = timezone.now()
    number, endpoint = Tenant.objects.get(name=tenant).number, Endpoint.objects.get(name=GET).number
    start = int((now - timedelta(days=3)).timestamp()) // 60 * 60
    with transaction.atomic():
        add_rates(Cells.of([Cell(start, CellSeries(number, endpoint, "a", 0), peak, peak)]), now)


def test_the_page_of_a_trial_shows_its_result_and_its_rule(operator: Client, client: Client) -> None:
    row = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID)
    start = {"mode": "shadow", "reason": "to see"}
    assert operator.post(f"/changes/open/{row.pk}/start", start).headers["HX-Redirect"] == f"/changes/{row.pk}"
    counted("acme", "a", 500, ago=timedelta(0))
    counted("acme", "n", 40, limit="burst~candidate", ago=timedelta(0))
    text = page(client, f"/changes/{row.pk}")
    assert "Not safe: 1 of 1 tenant would see 429s" in text
    assert "40 of 500 requests, 8 %, above your bar of 1 %" in text
    assert "Would-be 429s" in text
    lines = b"".join(client.get(f"/changes/{row.pk}.csv").streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert lines[1].startswith("acme,500,40,8.0,0,0,")
    where = f"/changes/open/{row.pk}/trial"
    rule = {"bar_share": "10", "bar_tenant": "20", "then": "end", "auto_stop": "on", "reason": "this much is fine"}
    assert operator.post(where, {**rule, "bar_share": "0"}).status_code == 422
    for planned in (row.created.isoformat(), "2026-01-01", "9999-12-31T23:59:59+00:00", "soon"):
        assert operator.post(where, {**rule, "extend_h": "24", "planned": planned}).status_code == 200
    row.refresh_from_db()
    assert (row.bar_share, row.bar_tenant, row.trial_then) == (0.1, 0.2, "end")
    assert "below your bar of 10 %" in page(client, f"/changes/{row.pk}")
    for place in ("/tenants/acme", "/endpoints/rides:get"):
        assert f'href="/changes/{row.pk}"' in client.get(place).content.decode()


def test_a_canary_is_shown_beside_the_rest_and_goes_on_step_by_step(operator: Client) -> None:
    tenants_create(tenants=[NewTenant(f"t-{n}", "pro") for n in range(20)], **SAID)
    row = change_propose(limit_set, policy="pro-all", limit=bucket(300), **SAID)
    where = f"/changes/open/{row.pk}/start"
    assert operator.post(where, {"mode": "canary", "share_percent": "25", "reason": "some first"}).status_code == 200
    text = page(operator, f"/changes/{row.pk}")
    assert "Canary and the rest, side by side" in text
    assert "Go to 50 %" in text
    assert "Stop and undo" in text
    assert operator.post(where, {"mode": "canary", "share_percent": "50", "reason": "next"}).status_code == 200
    assert "Promote…" in page(operator, f"/changes/{row.pk}")
    assert operator.post(f"/changes/open/{row.pk}/drop", {"reason": "enough"}).status_code == 200
    assert "Dropped by olga" in page(operator, f"/changes/{row.pk}")


def test_reverting_a_promotion_asks_before_it_reopens_the_trial(operator: Client, proposed: Change) -> None:
    address = f"/changes/open/{proposed.pk}"
    operator.post(f"{address}/start", {"mode": "shadow", "reason": "to see"})
    operator.post(f"{address}/promote", {"reason": "it hurts nobody"})
    proposed.refresh_from_db()
    undo = f"/changes/{proposed.end_revision_id}/undo/revert"
    assert "was on trial then, and is over now" in text_of(operator.get(undo).content)
    assert operator.post(undo, {"reason": "not yet"}).status_code == 200
    proposed.refresh_from_db()
    assert proposed.state == "reverted"
    assert "Reverted by olga" in page(operator, f"/changes/{proposed.pk}")


def test_a_promotion_says_for_whom(operator: Client, proposed: Change) -> None:
    row = change_propose(override_create, tenant="acme", multiplier=(2, 1), **SAID)
    text = text_of(operator.get(f"/changes/open/{row.pk}/promote").content)
    assert "Promote for acme" in text
    assert "enforced for acme from the next check" in text
    refused = operator.post(f"/changes/open/{row.pk}/promote", {"reason": ""})
    assert "enforced for acme from the next check" in text_of(refused.content)


@pytest.mark.parametrize("address", ["/tenants/acme/override", "/changes/2/undo/revert"])
def test_a_form_says_that_its_edit_will_wait(operator: Client, settings: Any, address: str) -> None:
    assert "This only files a change." not in page(operator, address)
    settings.HEADROOM_FOUR_EYES = True
    assert "This only files a change." in page(operator, address)


def test_a_bypass_is_switched_on_shown_and_ended(operator: Client) -> None:
    fields = {"scope": "tenant", "name": "acme", "duration": "1h", "reason": "3 a.m."}
    assert operator.post("/bypass", fields).status_code == 200
    assert "Bypass active: tenant acme." in page(operator, "/changes")
    assert "Bypass active: tenant acme" in page(operator, "/")
    operator.post("/bypass/end", {"scope": "tenant", "name": "acme", "reason": "over"})
    assert "Bypass active" not in page(operator, "/changes")


def test_a_bypass_of_everything_says_so() -> None:
    owner = signed_in("otto", "owner")
    assert owner.post("/bypass", {"scope": "all", "duration": "1h", "reason": "3 a.m."}).status_code == 200
    text = page(owner, "/changes")
    assert "Bypass active: all limits." in text
    assert "bypass of all limits" in text


def test_a_bypass_of_nobody_is_refused_beside_its_name(operator: Client) -> None:
    response = operator.post("/bypass", {"scope": "tenant", "name": "nobody", "duration": "1h", "reason": "x"})
    assert response.status_code == 422
    assert ">There is no tenant nobody; " in text_of(response.content)
    response = operator.post("/bypass", {"scope": "tenant", "name": "", "duration": "1h", "reason": "x"})
    assert response.status_code == 422
    assert "name is missing; enter the name of the tenant" in text_of(response.content).lower()


def test_the_chart_of_a_trial_has_the_unit_of_its_limit(operator: Client) -> None:
    """6 in ten seconds stay 6 in ten seconds."""
    tight = bucket(6) | {"per": "10s", "burst": 10}
    row = change_propose(limit_set, policy="pro-all", limit=tight, **SAID)
    change_start(change=row.pk, mode="shadow", **SAID)
    text = text_of(operator.get(f"/changes/{row.pk}").content)
    figure = text[text.index('id="live-and-candidate"') :]
    assert '<div class="chart-unit">req/10s</div>' in figure
    assert "the rate is of the busiest 60 s of one tenant in the hour" in figure
    assert re.search(r'data-kind="limit"[^>]*data-at="6"[^>]*>candidate 6/10s burst 10<', figure)
    assert re.search(r'data-kind="limit"[^>]*data-at="1000"[^>]*>live limit 100/s burst 200<', figure)


def test_the_page_of_a_trial_costs_the_same_however_many_tenants_it_has(operator: Client) -> None:
    row = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID)
    operator.post(f"/changes/open/{row.pk}/start", {"mode": "shadow", "reason": "to see"})
    costs = []
    for names in (["one"], [f"t-{n}" for n in range(15)]):
        tenants_create(tenants=[NewTenant(name, "pro") for name in names], **SAID)
        for name in names:
            counted(name, "a", 50)
            counted(name, "n", 5, limit="burst~candidate")
        operator.get(f"/changes/{row.pk}")
        with CaptureQueriesContext(connection) as captured:
            assert operator.get(f"/changes/{row.pk}").status_code == 200
        costs.append(len(captured))
    assert costs[0] == costs[1] <= 45
