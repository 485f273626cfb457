"""One valid row of every model, written straight to the tables: services are tested elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import models
from django.utils import timezone

from quotas.models import (
    AlertSetting,
    AlertTarget,
    Approval,
    AuditEvent,
    CalibrationSetting,
    Change,
    ChartNote,
    DrainState,
    Emergency,
    Endpoint,
    EndpointTarget,
    Freeze,
    GapRecord,
    Heartbeat,
    Limit,
    LimitName,
    LimitNeed,
    Outbox,
    Override,
    Policy,
    QuotaRequest,
    Recommendation,
    Revision,
    SavedView,
    Task,
    TaskSlice,
    TenantSummaryRun,
)
from tenants.models import ApiKey, ApiToken, KeyVersion, Membership, Tenant, Tier

BUCKET = {"algorithm": "token_bucket", "parameters": {"rate": 10, "per": "1s", "burst": 20}}


def make_rows() -> dict[str, models.Model]:
    """By the name of the model, twice where uniqueness needs a second one (`tenant2`)."""
    now = timezone.now()
    rows: dict[str, Any] = {
        "tier": Tier.objects.create(name="pro"),
        "tier2": Tier.objects.create(name="free"),
        "limitname": LimitName.objects.create(number=1, name="burst"),
        "limitname2": LimitName.objects.create(number=2, name="daily"),
        "revision": _revision(1),
        "auditevent": AuditEvent.objects.create(kind="repaired"),
        "heartbeat": Heartbeat.objects.create(name="publisher", at=now),
        "gaprecord": GapRecord.objects.create(start=now, end=now, reason="the server was flushed"),
        "drainstate": DrainState.objects.create(drained_at=now),
    }
    rows["tenant"] = Tenant.objects.create(name="acme", tier=rows["tier"])
    rows["tenant2"] = Tenant.objects.create(name="bolt", tier=rows["tier"])
    rows["apikey"] = _api_key(rows["tenant"], "a")
    rows["apikey2"] = _api_key(rows["tenant"], "b")
    rows["apitoken"] = _api_token("c")
    rows["apitoken2"] = _api_token("d")
    rows["keyversion"], rows["keyversion2"] = (
        KeyVersion.objects.create(purpose="sealing", version=version, wrapped=b"x") for version in (91, 92)
    )
    rows["user"], rows["user2"] = (User.objects.create(username=name, password="!") for name in ("alice", "bob"))
    rows["membership"] = Membership.objects.create(user=rows["user"], role="viewer")
    rows["membership2"] = Membership.objects.create(user=rows["user2"], role="tenant", tenant=rows["tenant"])
    rows["endpoint"] = Endpoint.objects.create(number=1, name="rides:get", method="GET", path="/rides")
    rows["endpoint2"] = Endpoint.objects.create(number=2, name="rides:list", method="GET", path="/lists")
    rows["endpointtarget"] = EndpointTarget.objects.create(endpoint=rows["endpoint"], target_us=1, measured_at=now)
    rows["policy"] = Policy.objects.create(name="pro-get", tier=rows["tier"], endpoint=rows["endpoint"])
    rows["policy2"] = Policy.objects.create(name="pro-all", tier=rows["tier"])
    rows["policy_global"] = Policy.objects.create(name="everyone", service="rides")
    rows["limit"] = _limit(rows, "limitname")
    rows["limit2"] = _limit(rows, "limitname2")
    rows["override"] = Override.objects.create(
        tenant=rows["tenant"],
        start=now,
        end=now + timedelta(hours=1),
        limits={"burst": {"burst": 40}},
        reason="a fair",
        author="ann",
        created_revision=rows["revision"],
    )
    rows["change"] = Change.objects.create(
        action="limit_set", author="ann", reason="too much", touched=["policy:pro-get"], before={}, after={}
    )
    rows["approval"] = Approval.objects.create(change=rows["change"], approver="bob", reason="I agree")
    rows["emergency"] = Emergency.objects.create(action="limit_set", what="revision 1", author="ann", reason="it burns")
    soon = timezone.now() + timedelta(hours=1)
    rows["freeze"] = Freeze.objects.create(start=soon, end=soon + timedelta(days=1), author="ann", reason="holidays")
    rows["approval2"] = Approval.objects.create(change=rows["change"], approver="carol", reason="so do I")
    rows["recommendation"] = _recommendation("burst")
    rows["recommendation2"] = _recommendation("daily")
    rows["alertsetting"] = AlertSetting.objects.create(name="quota-80", threshold=0.7)
    rows["alerttarget"] = AlertTarget.objects.create(kind="email", address="ops@example.com")
    rows["quotarequest"] = _quota_request(rows["tenant"], "burst")
    rows["quotarequest2"] = _quota_request(rows["tenant"], "daily")
    rows["calibrationsetting"] = CalibrationSetting.objects.create(name="margin", value=1.2)
    rows["task"] = Task.objects.create(kind="whatif", author="ann")
    rows["taskslice"] = TaskSlice.objects.create(task=rows["task"], place=0)
    rows["taskslice2"] = TaskSlice.objects.create(task=rows["task"], place=1)
    rows["limitneed"], rows["limitneed2"] = (
        LimitNeed.objects.create(policy="pro-get", limit=name, endpoint="*", needed={}, measured_at=now)
        for name in ("burst", "daily")
    )
    rows["chartnote"] = ChartNote.objects.create(at=now, text="a fair", tenant=rows["tenant"], author="ann")
    rows["savedview"], rows["savedview2"] = (
        SavedView.objects.create(owner=rows["user"], page="tenants", name=name) for name in ("mine", "other")
    )
    rows["tenantsummaryrun"] = TenantSummaryRun.objects.create(measured_at=now)
    rows["outbox"] = Outbox.objects.create(kind="revision", revision=rows["revision"], touched=["common"])
    return rows


def _revision(number: int) -> Revision:
    return Revision.objects.create(
        number=number, author="ann", reason="to begin", action="tier_create", touched=["tier:pro"], before={}, after={}
    )


def _api_key(tenant: Tenant, letter: str) -> ApiKey:
    return ApiKey.objects.create(tenant=tenant, key_id=letter * 16, secret_hash="0" * 64, scopes=["check"])


def _api_token(letter: str) -> ApiToken:
    return ApiToken.objects.create(
        key_id=letter * 16, secret_hash="0" * 64, label="a pipeline", role="viewer", scopes=["read"], author="ann"
    )


def _limit(rows: dict[str, Any], name: str) -> Limit:
    return Limit.objects.create(policy=rows["policy"], name=rows[name], changed_revision=rows["revision"], **BUCKET)


def _recommendation(limit: str) -> Recommendation:
    return Recommendation.objects.create(
        kind="tier",
        policy="pro-get",
        limit=limit,
        endpoint="rides:get",
        current=BUCKET,
        proposed=BUCKET,
        measured_at=timezone.now(),
    )


def _quota_request(tenant: Tenant, limit: str) -> QuotaRequest:
    return QuotaRequest.objects.create(
        tenant=tenant, scope="*", limit=limit, wanted=200, reason="we grow", author="carol"
    )
