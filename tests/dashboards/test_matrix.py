"""The limits matrix: shown, tried and written."""

from __future__ import annotations

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from quotas.changes.turn import _queue
from quotas.models import Change, Endpoint, Limit, LimitName, Policy, Revision
from quotas.models.jobs import record_heartbeat
from quotas.observations.cells import Cell, CellSeries
from quotas.own_limits import own_limits_install
from quotas.policies.edit import candidate_set, policy_create
from tenants.models import Tenant, Tier
from tests.access.people import signed_in
from tests.quotas.turns import judged_in_turn
from tests.quotas.usage.test_tier_usage import NOW, measured
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket, limit_of, make_world, newest


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    make_world()


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("olga", "operator")


def text_of(response: object) -> str:
    return re.sub(r"\s+", " ", response.content.decode())  # type: ignore[attr-defined]


def counts(outcome: str, n: int, limit: str = "") -> list[Cell]:
    """Requests of acme for PAY, just now."""
    tenant, endpoint = Tenant.objects.get(name="acme").number, Endpoint.objects.get(name=PAY).number
    number = LimitName.objects.get(name=limit).number if limit else 0
    return [Cell(int(NOW.timestamp()) - 600, CellSeries(tenant, endpoint, outcome, number), n, n)]


def edit(at: str = "pro/*", limit: str = "burst", **fields: str) -> dict[str, str]:
    filled = {"algorithm": "token_bucket", "p_rate": "150", "p_per": "1s", "p_burst": "300", "subject": "tenant"}
    return {
        "at": at,
        "limit_name": limit,
        "unit": "requests",
        "mode": "enforce",
        "on_failure": "open",
        **filled,
        **fields,
    }


def test_every_place_is_a_cell_with_its_limit(client: Client) -> None:
    text = text_of(client.get("/matrix"))
    assert text.count('class="cell') == 9
    assert 'data-cell="pro/*"' in text
    assert "100/s" in text
    assert "inherited from pro × *" in text


def test_the_limits_on_headroom_itself_are_shown_only_if_asked_for(client: Client) -> None:
    own_limits_install("headroom")
    text = text_of(client.get("/matrix"))
    assert "headroom:login" not in text
    assert text.count('class="cell') == 9
    assert 'data-cell="headroom/headroom:login"' in text_of(client.get("/matrix?own=1"))


def test_a_place_shows_what_its_own_limits_denied(client: Client) -> None:
    """Of 100 requests: 20 denied by the limit of the endpoint, 10 by one on `*` that others share."""
    policy_create(name="pay", tier="pro", endpoint=PAY, limits=[bucket(5, "pays")], **FORCED)
    measured(counts("a", 70), counts("d", 20, "pays"), counts("d", 10, "minute"))
    text = text_of(client.get("/matrix"))
    shares = dict(re.findall(r'data-cell="([^"]+)".*?(?:class="deny">.*?</svg>(.*?)<|</button>)', text))
    assert shares[f"pro/{PAY}"].replace("\N{NO-BREAK SPACE}", " ") == "20 %"
    assert shares["pro/*"].replace("\N{NO-BREAK SPACE}", " ") == "10 %"
    assert shares[f"pro/{GET}"] == shares["free/*"] == ""


def test_a_cell_opens_with_its_limit_filled_in(client: Client) -> None:
    text = text_of(client.get("/matrix/cell?at=pro/*&limit=minute"))
    assert 'value="1000"' in text
    assert "Publishing requires the operator role" in text
    assert client.get("/matrix/cell?at=gold/*").status_code == 400


def test_a_cell_without_a_limit_starts_from_what_it_inherits(operator: Client) -> None:
    text = text_of(operator.get(f"/matrix/cell?at=pro/{PAY}"))
    assert "Inherited from pro × *" in text
    assert 'name="limit_name" value="+"' in text
    assert 'value="100"' in text


def test_a_tier_is_offered_no_limit_on_a_whole_service(operator: Client) -> None:
    policy_create(name="backend", endpoint="payments:*", limits=[bucket(50)], **FORCED)
    text = text_of(operator.get("/matrix/cell?at=pro/payments:*"))
    assert "A tier has no limits on a whole service." in text
    assert "Inherited from" not in text
    assert "A tier has no limits" not in text_of(operator.get("/matrix/cell?at=/payments:*"))


def test_a_dry_run_says_what_changes_and_writes_nothing(client: Client) -> None:
    before = Revision.objects.count()
    text = text_of(client.post("/matrix/plan", edit()))
    assert "limits.burst.rate: <mark>100</mark>" in text
    assert "limits.burst.rate: <mark>150</mark>" in text
    assert "No limit drops by more than 10 %" in text
    assert "No changes." in text_of(client.post("/matrix/plan", edit(p_rate="100", p_burst="200")))
    assert Revision.objects.count() == before


def test_amounts_are_read_as_people_type_them(client: Client) -> None:
    text = text_of(client.post("/matrix/plan", edit(p_rate="1 500.5", p_burst="3,000")))
    assert "limits.burst.rate: <mark>1500.5</mark>" in text
    assert "limits.burst.burst: <mark>3,000</mark>" in text


def test_a_dry_run_of_a_cut_asks_for_force(client: Client) -> None:
    text = text_of(client.post("/matrix/plan", edit(p_rate="50")))
    assert "Blocked: this would cut" in text
    assert 'name="force"' in text


def test_what_is_wrong_is_said_while_typing(client: Client) -> None:
    assert "Rate must be a number above 0" in text_of(client.post("/matrix/plan", edit(p_rate="many")))


def test_publishing_writes_one_revision_and_follows_it_to_the_shards(operator: Client) -> None:
    response = operator.post("/matrix/publish", edit(reason="they grew"))
    assert f"Saved as r{newest().number}" in text_of(response)
    assert response.headers["HX-Trigger"] == "matrix:changed"
    assert (limit_of("pro-all").parameters["rate"], newest().author, newest().reason) == (150, "olga", "they grew")


def test_a_refusal_stays_in_the_editor_with_what_was_typed(operator: Client) -> None:
    text = text_of(operator.post("/matrix/publish", edit(p_rate="50", reason="too many")))
    assert "make the cut smaller, or apply it anyway (force)" in text
    assert 'value="50"' in text
    assert "Enter a reason" in text_of(operator.post("/matrix/publish", edit()))
    assert limit_of("pro-all").parameters["rate"] == 100
    operator.post("/matrix/publish", edit(p_rate="50", reason="too many", force="on"))
    assert limit_of("pro-all").parameters["rate"] == 50


def test_behind_a_writer_that_takes_too_long_the_editor_says_so(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quotas.changes.turn.MOST_WAITING", 0)  # a full queue refuses as one that took too long does
    assert _queue.enter(0)
    try:
        text = text_of(operator.post("/matrix/publish", edit(reason="they grew")))
    finally:
        _queue.leave()
    assert "Another change is being written; try again in 2 seconds." in text


def test_a_new_limit_makes_the_policy(operator: Client) -> None:
    operator.post(
        "/matrix/publish", edit(at=f"free/{PAY}", limit="+", name="pay", p_rate="5", reason="new", force="on")
    )
    assert limit_of("free-payments-charge", "pay").parameters["rate"] == 5
    again = edit(at=f"free/{PAY}", limit="+", name="pay", reason="again")
    assert "A limit called pay exists here" in text_of(operator.post("/matrix/publish", again))
    assert "Enter a name for the new limit" in text_of(operator.post("/matrix/publish", {**again, "name": ""}))


def test_a_limit_is_removed(operator: Client) -> None:
    operator.post("/matrix/publish", edit(limit="minute", remove="on", reason="not needed"))
    assert not limit_of("pro-all").policy.limits.filter(name__name="minute").exists()


def test_a_mode_that_takes_enforcement_away_warns_and_offers_a_trial_beside_the_live_limit(operator: Client) -> None:
    planned = text_of(operator.post("/matrix/plan", edit(mode="shadow", p_rate="50")))
    assert "Enforcement is lost for 1 tenant." in planned
    assert "Try beside the live limit" in planned
    refused = text_of(operator.post("/matrix/publish", edit(mode="shadow", p_rate="50", reason="to see")))
    assert "is no longer enforced for 1 tenant" in refused
    same = edit(mode="shadow", p_rate="100", p_burst="200", reason="to see", do="trial")
    assert "nothing to propose" in text_of(operator.post("/matrix/publish", same))
    tried = operator.post("/matrix/publish", edit(mode="shadow", p_rate="50", reason="to see", do="trial"))
    change = Change.objects.get()
    assert tried.headers["HX-Redirect"] == f"/changes/{change.pk}"
    live = limit_of("pro-all")
    assert (change.state, live.mode, live.parameters["rate"]) == ("shadow", "enforce", 100)
    assert live.candidate is not None


def test_a_cut_can_be_tried_beside_the_live_limit_instead(operator: Client) -> None:
    planned = text_of(operator.post("/matrix/plan", edit(p_rate="50")))
    assert "Blocked: this would cut limits." in planned
    assert "Try beside the live limit" in planned
    operator.post("/matrix/publish", edit(p_rate="50", reason="to see", do="trial"))
    live = limit_of("pro-all")
    assert (Change.objects.get().state, live.mode, live.parameters["rate"]) == ("shadow", "enforce", 100)


def pooled(**fields: str) -> dict[str, str]:
    filled = {"algorithm": "pool", "p_rate": "1000", "p_burst": "250", "p_reserve": "50"}
    return edit(limit="+", name="org", **filled, reason="they share", force="on") | fields


def shared(**fields: str) -> dict[str, str]:
    filled = {"algorithm": "borrowing", "p_assured": "200", "p_ceiling": "800", "p_parent": "org", "subject": "team"}
    return edit(limit="+", name="team", p_burst="40", **filled, reason="each team", force="on") | fields


def test_the_editor_says_in_words_what_a_pool_and_a_share_of_it_buy(operator: Client) -> None:
    planned = text_of(operator.post("/matrix/plan", pooled()))
    assert "All who borrow from it get 1,000/s together." in planned
    assert "Guaranteed shares may use all 250 at once; loans leave 50 free for them." in planned
    assert "priority: critical 200, high 180, normal 150, sheddable 100." in planned
    assert "Try in shadow" not in planned
    assert "Saved as r" in text_of(operator.post("/matrix/publish", pooled()))
    planned = text_of(operator.post("/matrix/plan", shared()))
    assert "200/s are guaranteed, up to 40 at once, whatever the others use." in planned
    assert "It borrows up to 800/s in all. When others ask too, its part has the weight 200." in planned
    assert "org can guarantee 5 such shares at once." in planned
    assert "The pool can keep only 83 % of the guaranteed shares" in text_of(
        operator.post("/matrix/plan", shared(p_assured="1200", p_ceiling="2000"))
    )
    refused = text_of(operator.post("/matrix/plan", shared(p_ceiling="100")))
    assert "Ceiling cannot be below the guaranteed share, which is 200; raise it." in refused
    assert "may have to wait about 50ms" in text_of(operator.post("/matrix/plan", shared(p_burst="100")))
    assert "Saved as r" in text_of(operator.post("/matrix/publish", shared()))
    assert limit_of("pro-all", "team").parameters == {
        "assured": 200,
        "per": "1s",
        "burst": 40,
        "ceiling": 800,
        "ceiling_burst": 800,
        "reserve": 0,
        "parent": "org",
    }
    assert "200/s guaranteed, borrows from org up to 800/s" in text_of(operator.get("/matrix"))


def test_the_dry_run_warns_of_guarantees_that_a_pool_cannot_keep(operator: Client) -> None:
    operator.post("/matrix/publish", pooled())
    operator.post("/matrix/publish", shared())
    planned = text_of(operator.post("/matrix/plan", pooled(limit_name="org", name="", p_rate="100", p_burst="100")))
    assert "Pool org of pro-all: The pool can keep only 50 % of the guaranteed shares" in planned


def test_a_chain_that_cannot_be_is_refused_in_the_editor(operator: Client) -> None:
    assert "no limit org is switched on for every endpoint" in text_of(operator.post("/matrix/plan", shared()))
    assert "Parent cannot be the limit itself" in text_of(operator.post("/matrix/plan", shared(p_parent="team")))


def test_a_draft_is_a_proposed_change_and_enforced_nowhere(operator: Client) -> None:
    text = text_of(operator.post("/matrix/publish", edit(reason="for later", do="draft")))
    change = Change.objects.get()
    assert f"Saved as change {change.pk}" in text
    assert limit_of("pro-all").parameters["rate"] == 100


def test_many_cells_are_changed_as_one(operator: Client) -> None:
    form = {"at": ["pro/*", "free/*", f"pro/{GET}"], "limit_name": "", "percent": "150", "reason": "all by half"}
    text = text_of(operator.get("/matrix/cell?at=pro/*&at=free/*&at=pro/rides:get"))
    assert "3 cells" in text
    assert "1 without its own limit stays unchanged" in text
    before = newest().number
    operator.post("/matrix/publish", form)
    assert newest().number == before + 1
    rates = [limit_of(policy).parameters["rate"] for policy in ("pro-all", "free-all")]
    assert rates == [150, 15]


@pytest.mark.parametrize("action", ["plan", "publish"])
def test_cells_without_a_limit_of_their_own_change_nothing(operator: Client, action: str) -> None:
    before = newest().number
    form = {"at": [f"pro/{PAY}", f"free/{PAY}"], "limit_name": "", "percent": "150", "reason": "none here"}
    assert operator.post(f"/matrix/{action}", form).status_code == 200
    assert newest().number == before


def test_the_editor_says_what_a_lease_is_and_sets_its_length(operator: Client) -> None:
    text = text_of(operator.get("/matrix/cell?at=pro/*"))
    assert "decide them by itself, so an edit arrives up to this much later" in text
    operator.post("/matrix/publish", edit(lease=" 250 ms", reason="fewer calls"))
    assert limit_of("pro-all").lease_ms == 250
    assert 'value="250ms"' in text_of(operator.get("/matrix/cell?at=pro/*"))
    assert "leased for at most 250 ms" in text_of(operator.get("/matrix"))
    operator.post("/matrix/publish", edit(reason="as usual"))
    assert limit_of("pro-all").lease_ms is None


def test_a_lease_that_cannot_be_is_refused_beside_its_field(operator: Client) -> None:
    text = text_of(operator.post("/matrix/publish", edit(lease="5s", reason="slow")))
    assert "Lease must be never or a duration from 10ms to 1s, not &#x27;5s&#x27;" in text
    queue = {"algorithm": "leaky_bucket", "p_queue": "9", "lease": "100ms"}
    assert "which is never leased; remove it or write never" in text_of(operator.post("/matrix/plan", edit(**queue)))


def test_leases_of_many_cells_are_forbidden_at_once(operator: Client) -> None:
    operator.post("/matrix/publish", {"at": ["pro/*", "free/*"], "limit_name": "", "lease": "never", "reason": "exact"})
    assert [limit_of(policy).lease_ms for policy in ("pro-all", "free-all")] == [0, 0]
    operator.post("/matrix/publish", {"at": ["pro/*", "free/*"], "limit_name": "", "percent": "150", "reason": "more"})
    assert [limit_of(policy).lease_ms for policy in ("pro-all", "free-all")] == [0, 0]


def test_a_viewer_publishes_nothing(client: Client) -> None:
    assert client.post("/matrix/publish", edit(reason="me too")).status_code == 403
    assert client.get("/matrix/import").status_code == 403


def test_it_says_how_many_shards_have_a_revision(client: Client) -> None:
    record_heartbeat("publisher", str(newest().number))
    text = text_of(client.get(f"/matrix/published?revision={newest().number}"))
    assert "Enforced</b> on 64 of 64 shards" in text
    assert client.get("/matrix/published?revision=x").status_code == 400


def test_a_shadow_is_marked(client: Client) -> None:
    candidate = {"algorithm": "token_bucket", "rate": 120, "burst": 240}
    candidate_set(policy="pro-all", limit="burst", candidate=candidate, **SAID)
    assert "tag-shadow" in text_of(client.get("/matrix"))


def table(*rows: str) -> SimpleUploadedFile:
    text = "tier,endpoint,name,algorithm,rate,burst\n" + "\n".join(rows)
    return SimpleUploadedFile("limits.csv", text.encode(), "text/csv")


def test_what_is_exported_can_be_imported(operator: Client) -> None:
    exported = operator.get("/matrix.csv")
    assert exported.headers["Content-Disposition"].startswith("attachment")
    file = SimpleUploadedFile("limits.csv", exported.content)
    assert "No changes: every row matches" in text_of(operator.post("/matrix/import", {"file": file}))


def test_bad_rows_are_named_by_line_and_nothing_is_written(operator: Client) -> None:
    before = Revision.objects.count()
    rows = ("pro,*,burst,token_bucket,150,300", "gold,*,burst,token_bucket,1,2", "pro,*,minute,token_bucket,x,2")
    text = text_of(operator.post("/matrix/import", {"file": table(*rows), "do": "publish", "reason": "r"}))
    assert "Line 4." in text
    text = text_of(operator.post("/matrix/import", {"file": table(*rows[:2]), "do": "publish", "reason": "r"}))
    assert "Line 3." in text
    assert Revision.objects.count() == before


def test_a_table_is_checked_then_published(operator: Client) -> None:
    rows = ("pro,*,burst,token_bucket,150,300", f"free,{PAY},pay,token_bucket,5,10")
    text = text_of(operator.post("/matrix/import", {"file": table(*rows), "do": "check"}))
    assert "2 rows: 2 policies would change" in text
    carried = table(*rows).read().decode()
    response = operator.post("/matrix/import", {"text": carried, "do": "publish", "reason": "a table", "force": "on"})
    assert response.status_code == 302
    assert limit_of("pro-all").parameters["rate"] == 150


@pytest.mark.django_db(transaction=True)
def test_a_table_is_judged_before_it_takes_its_turn(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = judged_in_turn(monkeypatch)
    sent = {"file": table("pro,*,burst,token_bucket,150,300"), "do": "publish", "reason": "a table"}
    assert operator.post("/matrix/import", sent).status_code == 302
    assert judged == [False]
    assert limit_of("pro-all").parameters["rate"] == 150


@pytest.mark.parametrize(
    ("data", "said"), [(b"\xff\xfe", "not UTF-8"), (b"", "empty"), (b"x" * 2_000_001, "The maximum is 2,000,000")]
)
def test_a_file_that_is_no_table_is_refused(operator: Client, data: bytes, said: str) -> None:
    file = SimpleUploadedFile("limits.csv", data)
    assert said in text_of(operator.post("/matrix/import", {"file": file}))


def test_a_hundred_endpoints_and_ten_tiers_stay_light(client: Client) -> None:
    tiers = Tier.objects.bulk_create([Tier(name=f"tier-{n}") for n in range(10)])
    endpoints = Endpoint.objects.bulk_create([Endpoint(number=100 + n, name=f"rides:op-{n}") for n in range(100)])
    places = [(tier, endpoint) for tier in tiers for endpoint in endpoints]
    policies = Policy.objects.bulk_create(
        [Policy(name=f"p-{n}", tier=t, endpoint=e) for n, (t, e) in enumerate(places)]
    )
    facts = {"name": LimitName.objects.get(name="burst"), "algorithm": "token_bucket", "changed_revision": newest()}
    parameters = {"rate": 5, "per": "1s", "burst": 10}
    Limit.objects.bulk_create([Limit(policy=policy, parameters=parameters, **facts) for policy in policies])
    text = client.get("/matrix").content.decode()
    assert text.count('class="cell') == 103 * 13
    # What the browser must hold: elements of the grid, and bytes on the way.
    assert text.count("<") / 2 < 20 * 103 * 13
    assert len(text) < 1_500_000
