"""The inbox of recommendations, and the decision on one."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from quotas.changes.freeze import freeze_set
from quotas.changes.rollout import change_propose, change_start
from quotas.models import Recommendation, Task
from quotas.models.recommendation import Stage
from quotas.policies.edit import limit_set
from tests.access.people import signed_in
from tests.quotas.world import SAID, bucket, make_world


def bucket_of(rate: int, burst: int) -> dict[str, Any]:
    return {"algorithm": "token_bucket", "parameters": {"rate": rate, "per": "1s", "burst": burst}}


NOW = timezone.now()
EVIDENCE: dict[str, Any] = {
    "used": {"start": "2030-05-01T00:00:00+00:00", "end": "2030-05-15T00:00:00+00:00"},
    "excluded": [
        {"start": "2030-05-02T08:00:00+00:00", "end": "2030-05-02T09:00:00+00:00", "why": "nothing was recorded"}
    ],
    "censored": {"hours": 3, "share": 0.01},
    "days": 14.0,
    "marker": "acme",
    "percentiles": {"0.5": 40.0, "0.98": 120.0, "1.0": 150.0},
    "histogram": [
        {"low": 10.0, "high": 50.0, "minutes": 90, "units": 9_000},
        {"low": 50.0, "high": 150.0, "minutes": 10, "units": 1_000},
    ],
    "curve": [{"rate": 80.0, "burst": 300}, {"rate": 160.0, "burst": 150}],
    "weeks": [{"start": "2030-05-01", "end": "2030-05-08", "units": 1_000, "denied_now": 30, "denied_then": 1}],
    "wanted": {"rate": 150.0, "burst": 320},
    "tenants": [{"tenant": "acme", "rate": 150.0, "burst": 320, "c": 9.0, "above": True, "peak": 130.0}],
    "overrides": [{"tenant": "acme", "rate": 150.0, "burst": 320}],
    "advice": {"algorithm": "token_bucket", "reason": "bursts are short", "memory_bytes": 3_620},
    "capacity": {"reason": "the load varied too little"},
}
FORECAST: dict[str, Any] = {
    "denied_share": 0.001,
    "low": 0.0,
    "high": 0.002,
    "denied_share_now": 0.03,
    "tenants": 1,
    "tenants_hit": 0,
    "tenants_hit_now": 1,
    "newly_hurt": [],
    "freed": ["acme"],
    "headroom": 1.2,
    "units": 10_000,
    "days": 14,
    "abuse_units": 0,
    "unseen": {
        "days": 2.0,
        "units": 1_000,
        "denied_now": 30,
        "denied_then": 1,
        "tenants": [],
        "by_day": [
            {"start": "2030-05-13T00:00:00+00:00", "units": 400, "denied_now": 20, "denied_then": 0},
            {"start": "2030-05-14T00:00:00+00:00", "units": 600, "denied_now": 10, "denied_then": 1},
        ],
        "limits": [
            {"name": "now", "limit": bucket_of(100, 200), "denied": 30},
            {"name": "step", "limit": bucket_of(150, 320), "denied": 1},
            {"name": "need", "limit": bucket_of(210, 320), "denied": 0},
            {"name": "max_x1.15", "limit": bucket_of(400, 200), "denied": 0},
            {"name": "p99_x1.15", "limit": bucket_of(90, 200), "denied": 45},
        ],
    },
}


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    make_world()


@pytest.fixture
def approver(db: None) -> Client:
    return signed_in("arno", "approver")


def recommended(stage: Stage = Stage.SIMULATED, trust: str = "high", **fields: Any) -> Recommendation:
    facts: dict[str, Any] = {
        "kind": "tier",
        "policy": "pro-all",
        "limit": "burst",
        "tier": "pro",
        "endpoint": "*",
        "current": bucket_of(100, 200),
        "proposed": bucket_of(150, 320),
        "summary": "Raise burst of pro-all.",
        "evidence": EVIDENCE,
        "forecast": FORECAST,
        "measured_at": NOW,
    }
    return Recommendation.objects.create(stage=stage, trust=trust, **{**facts, **fields})


def text_of(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def test_the_inbox_shows_what_would_change_and_what_for(client: Client) -> None:
    row = recommended()
    text = text_of(client, "/recommendations")
    assert f"/recommendations/{row.pk}" in text
    assert "100/s" in text
    assert "150/s" in text
    assert "3.0 % → 0.10 %" in text
    assert "Approve 1 with" not in text  # a viewer decides nothing


def test_only_days_that_it_was_not_fitted_on_are_quoted(client: Client) -> None:
    row = recommended()
    text = text_of(client, f"/recommendations/{row.pk}")
    assert "429 share in 2 days that it was not fitted on</dt> <dd>3.0 % → 0.10 %</dd>" in text
    assert "Backtest by week" not in text
    fitted = recommended(limit="minute", forecast={**FORECAST, "unseen": None, "held_out": 0.28})
    assert "no unseen days" in text_of(client, "/recommendations")
    text = text_of(client, f"/recommendations/{fitted.pk}")
    assert "there are no days yet that it was not fitted on" in text
    assert "28 %" not in text


def test_it_says_what_each_limit_would_deny_and_each_day(client: Client) -> None:
    text = text_of(client, f"/recommendations/{recommended().pk}")
    table = text.partition('aria-label="What each limit would deny, table"')[2].partition("</table>")[0]
    assert [name in table for name in ("now", "step", "need", "max×1.15", "p99×1.15", "4.5")] == [True] * 6
    assert "Now 100/s, this step 150/s, the whole need 210/s, the busiest minute of any tenant × 1.15 is 400/s" in text
    table = text.partition('aria-label="Replay, day by day, table"')[2].partition("</table>")[0]
    assert "13 May" in table
    assert "14 May" in table


def test_its_real_429s_are_a_click_away(client: Client) -> None:
    text = text_of(client, f"/recommendations/{recommended().pk}")
    assert re.search(r'href="/decisions\?tier=pro&amp;limit=burst&amp;since=[^"]+">429s of the last 24 hours', text)


def test_an_operator_computes_all_of_them_again(client: Client) -> None:
    assert "Compute again" not in text_of(client, "/recommendations")
    assert client.post("/recommendations/run").status_code == 403
    operator = signed_in("olga", "operator")
    assert "Compute again" in text_of(operator, "/recommendations")
    assert operator.post("/recommendations/run").status_code == 302
    assert operator.post("/recommendations/run").status_code == 302
    task = Task.objects.get()
    assert (task.kind, task.author) == (Task.Kind.CALIBRATE, "olga")
    assert "Computing …" in text_of(operator, "/recommendations")


def test_tabs_hold_each_state(client: Client) -> None:
    recommended()
    missing: dict[str, Any] = {"proposed": None, "limit": "minute", "summary": "2 of 14 days", "forecast": {}}
    recommended(Stage.INSUFFICIENT, "low", **missing)
    assert "2 of 14 days" in text_of(client, "/recommendations?tab=active")
    assert "2 of 14 days" in text_of(client, "/recommendations?tab=insufficient")
    assert "No recommendations in this state" in text_of(client, "/recommendations?tab=shadow")
    assert client.get("/recommendations?tab=no").status_code == 400


def test_what_too_little_is_known_of_can_be_looked_at(client: Client) -> None:
    little: dict[str, Any] = {"days": 3.0, "votes": 1, "tenants": [{"tenant": "acme", "rate": 1.5, "burst": 4}]}
    missing: dict[str, Any] = {"proposed": None, "summary": "3 of 14 days", "forecast": {}, "evidence": little}
    row = recommended(Stage.INSUFFICIENT, "low", **missing)
    text = text_of(client, f"/recommendations/{row.pk}")
    assert "3 of 14 days" in text
    assert "nothing to approve" in text
    for claim in ("Simulate it", "All data was recorded", "Low confidence", "vs proposed", "no data", "Set by"):
        assert claim not in text, claim
    assert "Closed" not in text_of(client, "/recommendations?tab=insufficient")


def test_the_funnel_says_why_the_rest_is_not_proposed(client: Client) -> None:
    assert "Calibration has not run yet" in text_of(client, "/recommendations")
    result = {"limits": 33, "idle": 2, "fitting": 20, "insufficient": 9, "proposed": [1, 2]}
    Task.objects.create(kind="calibrate", state="done", author="x", result=result)
    text = text_of(client, "/recommendations")
    assert all(f"<b>{count}</b>" in text for count in (33, 2, 20, 9))
    assert "of demand" not in text
    Task.objects.update(result={**result, "days": 14.9})
    assert ", 15 days of demand" in text_of(client, "/recommendations")


def test_the_evidence_is_drawn_from_its_own_rows(client: Client) -> None:
    text = text_of(client, f"/recommendations/{recommended().pk}")
    assert all(f'id="{name}"' in text for name in ("demand", "limits", "days", "curve"))
    assert 'data-v="90"' in text
    assert "new 150/s" in text
    assert "p98 120/s" in text
    assert "nothing was recorded" in text
    assert "+50 %" in text
    assert "needs more than the tier: override suggested" in text


def test_without_evidence_it_says_what_is_missing(client: Client) -> None:
    missing: dict[str, Any] = {"proposed": None, "evidence": {}, "forecast": {}, "summary": "2 of 14 days"}
    text = text_of(client, f"/recommendations/{recommended(Stage.INSUFFICIENT, 'low', **missing).pk}")
    assert "No charts yet" in text
    assert "2 of 14 days" in text
    assert client.get("/recommendations/999").status_code == 404


def test_approving_starts_the_shadow(approver: Client) -> None:
    row = recommended()
    assert approver.post(f"/recommendations/{row.pk}/approve", {"reason": "they grew"}).status_code == 302
    row.refresh_from_db()
    assert (row.stage, row.decider, row.reason) == (Stage.SHADOW, "arno", "they grew")
    assert "in shadow" in text_of(approver, f"/recommendations/{row.pk}")


def test_a_refusal_stands_in_the_panel(approver: Client) -> None:
    row = recommended(Stage.DRAFT, forecast={})
    response = approver.post(f"/recommendations/{row.pk}/approve", {"reason": "now"})
    assert response.status_code == 422
    assert "only one that is simulated can be approved" in response.content.decode()


def test_a_freeze_is_named_only_where_it_refuses_something(approver: Client) -> None:
    freeze_set(end=timezone.now() + timedelta(hours=1), author="eve", reason="launch", roles=["owner"])
    missing: dict[str, Any] = {"proposed": None, "limit": "minute", "forecast": {}}
    little, ready = recommended(Stage.INSUFFICIENT, "low", **missing), recommended()
    assert "This is refused until then" in text_of(approver, f"/recommendations/{ready.pk}")
    assert "This is refused until then" not in text_of(approver, f"/recommendations/{little.pk}")
    dismissed = {"reason": "not wanted"}
    assert approver.post(f"/recommendations/{little.pk}/dismiss", dismissed).status_code == 302


def test_dismissing_takes_a_reason(approver: Client) -> None:
    row = recommended()
    refused = approver.post(f"/recommendations/{row.pk}/dismiss", {})
    assert "data-open-now" in refused.content.decode()
    approver.post(f"/recommendations/{row.pk}/dismiss", {"reason": "sold so"})
    row.refresh_from_db()
    assert (row.stage, row.reason) == (Stage.DISMISSED, "sold so")


def test_an_edit_keeps_what_was_typed_when_it_is_refused(approver: Client) -> None:
    row = recommended()
    text = approver.post(f"/recommendations/{row.pk}/edit", {"rate": "0", "burst": "7", "reason": "x"}).content.decode()
    assert 'value="7"' in text
    row.refresh_from_db()
    assert not row.is_edited


def test_an_edit_that_cannot_be_kept_is_refused_at_its_field(approver: Client) -> None:
    row = recommended()
    typed = {"rate": "0.0000012345678", "burst": "7", "reason": "x"}
    answer = approver.post(f"/recommendations/{row.pk}/edit", typed)
    text = answer.content.decode()
    assert (answer.status_code, "can be counted is 1 per 1d" in text, 'value="7"' in text) == (422, True, True)
    row.refresh_from_db()
    assert not row.is_edited


def test_a_rate_is_edited_in_the_unit_of_the_limit(approver: Client) -> None:
    def per_ten(rate: int) -> dict[str, Any]:
        return {"algorithm": "token_bucket", "parameters": {"rate": rate, "per": "10s", "burst": 20}}

    row = recommended(current=per_ten(6), proposed=per_ten(9), summary="6/10s → 9/10s")
    text = text_of(approver, f"/recommendations/{row.pk}")
    assert ("Rate per 10s" in text, 'value="9.0"' in text, "6/10s → 9/10s." in text) == (True, True, True)
    approver.post(f"/recommendations/{row.pk}/edit", {"rate": "8", "burst": "20", "reason": "rounder"})
    row.refresh_from_db()
    assert row.proposed == {"algorithm": "token_bucket", "parameters": {"rate": 8, "per": "10s", "burst": 20}}
    # What was measured for other values is not said of the edited ones.
    assert "6/10s → 9/10s." not in text_of(approver, f"/recommendations/{row.pk}")


def test_an_override_is_not_said_to_wait_in_shadow(approver: Client) -> None:
    row = recommended(kind="override", tenant="acme")
    text = text_of(approver, f"/recommendations/{row.pk}")
    assert ("Approve and enforce" in text, "counts but never denies" in text) == (True, False)


def test_a_window_is_edited_by_its_limit_alone(approver: Client) -> None:
    window = {"algorithm": "sliding_log", "parameters": {"limit": 10, "window": "1m"}}
    row = recommended(current=window, proposed=window)
    text = text_of(approver, f"/recommendations/{row.pk}")
    assert ('name="rate"' in text, "Limit per 1m" in text) == (False, True)
    refused = approver.post(f"/recommendations/{row.pk}/edit", {"burst": str(10**12), "reason": "x"}).content.decode()
    assert "at most 10,000" in refused
    approver.post(f"/recommendations/{row.pk}/edit", {"burst": "20", "reason": "x"})
    row.refresh_from_db()
    assert row.proposed == {"algorithm": "sliding_log", "parameters": {"limit": 20, "window": "1m"}}


def test_only_high_confidence_is_approved_in_bulk(approver: Client) -> None:
    sure, unsure = recommended(), recommended(trust="medium", limit="minute", current=bucket_of(17, 2000))
    assert "Approve 1 with high confidence" in text_of(approver, "/recommendations")
    approver.post("/recommendations/approve", {"reason": "all clear"})
    sure.refresh_from_db()
    unsure.refresh_from_db()
    assert (sure.stage, unsure.stage) == (Stage.SHADOW, Stage.SIMULATED)


def test_who_may_not_approve_is_not_let_in(client: Client) -> None:
    row = recommended()
    assert client.post(f"/recommendations/{row.pk}/approve", {}).status_code == 403
    assert signed_in("olga", "operator").post("/recommendations/approve", {"reason": "x"}).status_code == 403
    assert signed_in("arno", "approver").post(f"/recommendations/{row.pk}/eat", {}).status_code == 404


def test_a_trial_that_it_has_to_wait_for_is_named_with_its_page(approver: Client) -> None:
    row = recommended()
    other = change_propose(limit_set, policy="pro-all", limit=bucket(70, "other"), **SAID)
    change_start(change=other.pk, mode="shadow", **SAID)
    assert f'href="/changes/{other.pk}">Open change {other.pk}</a>' in text_of(approver, f"/recommendations/{row.pk}")


def test_the_benefit_comes_first_and_a_stale_one_says_what_to_do(approver: Client) -> None:
    said = "Ends 1,204 of 1,310 429s a day for 3 tenants; lets each send up to 50/s more"
    unseen = {"days": 7, "units": 1_000, "denied_now": 30, "denied_then": 1, "tenants": []}
    benefit = {"sentence": said, "ended_a_day": 1_204, "denied_a_day": 1_310, "freed_a_second": 0}
    counts = {"tenants": 14, "measured": 12, "idle": 1, "overridden": 1, "sudden": 0}
    facts: dict[str, Any] = {"forecast": {**FORECAST, "unseen": unseen, "benefit": benefit}}
    row = recommended(evidence={**EVIDENCE, "counts": counts, "needed": bucket_of(210, 320)}, **facts)
    assert "They would end 1,204 of 1,310 429s a day." in text_of(approver, "/recommendations")
    text = text_of(approver, f"/recommendations/{row.pk}")
    assert said in text
    assert "100/s burst 200" in text
    assert "150/s burst 320" in text
    assert "210/s burst 320" in text
    assert "12 of 14 tenants measured: 1 without traffic here, 1 with an override" in text
    limit_set(policy="pro-all", limit=bucket(120), **SAID)
    stale = text_of(approver, f"/recommendations/{row.pk}")
    assert "What this was measured from has changed." in stale
    assert "Measure again" in stale
    assert approver.post(f"/recommendations/{row.pk}/approve", {}).status_code == 422
