"""A request for every route and method of /v1, on a world that can be grown; a new route gets its line here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from quotas.alerts.settings import alert_target_create
from quotas.api_keys import api_key_issue
from quotas.bypass import bypass_set
from quotas.changes.emergency import declare
from quotas.changes.freeze import freeze_set
from quotas.changes.rollout import change_propose, change_start
from quotas.chart_notes import chart_note_add
from quotas.errors import accepted
from quotas.long_tasks import task_file
from quotas.models import Change, Endpoint, Policy, Recommendation, Revision, Task
from quotas.overrides import override_create
from quotas.policies.apply import document_apply, document_export
from quotas.policies.document import read_document
from quotas.policies.edit import limit_set, policy_create
from quotas.pools.queries import pool_read
from quotas.tokens import token_issue
from tenants.models import ApiKey, Tenant
from tests.quotas.world import GET, PAY, SAID, bucket, limit_of

WHY = {"reason": "to count"}
DRY, GONE = "?dry_run=true", "?dry_run=true&reason=to+count"
OPENAPI = "openapi: 3.0.3\npaths: {/new/a: {get: {operationId: a}}, /new/b: {get: {operationId: b}}}"
YEARS_AHEAD = {"start": "2198-12-01T00:00:00Z", "end": "2199-01-01T00:00:00Z"}
LATER = {"until": "2040-01-31T18:00:00Z"}
DOUBLE = {"multiplier": {"numerator": 2}}
POOLED = "many:e2"
OWN = 5  # tenants with something of their own, added each time the world grows
WITHOUT_OVERRIDE = "t000010"


@dataclass(frozen=True, slots=True)
class World:
    key: str
    token: str
    override: int
    change: int
    revision: int
    simulated: int  # recommendations
    shadowed: int
    enforced: int
    whatif: int  # tasks
    calibration: int
    document: int
    target: int  # of alerts
    emergency: int
    freeze: int
    note: int
    trial: int  # a change in shadow


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    body: Any = None


def grow(tenants: int, endpoints: int, sender: str) -> World:
    """To so many; some tenants have keys, overrides and policies of their own. `sender`: whose large document waits."""
    names = [f"t{number:06}" for number in range(Tenant.objects.count() - 2, tenants)]
    add_tenants(len(names))
    declared = [f"{{name: 'many:e{n}', path: /many/e{n}}}" for n in range(Endpoint.objects.count() - 2, endpoints)]
    text = f"tiers: [{{name: empty}}]\nendpoints: [{', '.join(declared)}]"
    document_apply(document=accepted(read_document(text)), **SAID)
    trial = _on_trial()
    _pooled()
    _adapting()
    for name in names[:OWN]:
        key = api_key_issue(tenant=name, **SAID).row.key_id
        override = override_create(tenant=name, multiplier=(2, 1), **SAID).pk
        policy_create(name=name, tenant=name, limits=[bucket(50)], **SAID)
    target = alert_target_create(kind="webhook", address="https://1.1.1.1/hook", **SAID).row
    change = change_propose(limit_set, policy="free-all", limit=bucket(12), **SAID)
    bypass_set(scope="tenant", name="acme", duration="1h", **SAID)
    Recommendation.objects.all().delete()
    wanted = (("simulated", "pro-all", "burst"), ("shadow", "pro-all", "minute"), ("enforced", "free-all", "burst"))
    recommended = [_recommended(*one) for one in wanted]
    tasks = [task_file(kind=kind, author="ann", asked={}).pk for kind in (Task.Kind.WHAT_IF, Task.Kind.CALIBRATE)]
    Task.objects.update(state=Task.State.DONE)
    asked = {"action": "plan", "identity": sender}
    tasks.append(task_file(kind=Task.Kind.DOCUMENT, author="ann", asked=asked).pk)
    emergency = declare(action="limit_set", author="carol", reason="because", what="revision 1")
    in_a_year = timezone.now() + timedelta(days=365)
    freeze = freeze_set(start=in_a_year, end=in_a_year + timedelta(days=1), **SAID)
    note = chart_note_add(at=timezone.now(), text="a fair", **SAID)
    others = [*recommended, *tasks, target.pk, emergency.pk, freeze.pk, note.pk, trial]
    token = token_issue(label="ci", role="viewer", scopes=["read"], **SAID).row.key_id
    return World(key, token, override, change.pk, Revision.objects.latest("number").number, *others)


def _pooled() -> None:
    """A pool that the tenants of the tier free share."""
    if pool_read("everyone-pooled", "pooled") is None:
        pool = {"name": "pooled", "algorithm": "pool", "rate": 100}
        policy_create(name="everyone-pooled", endpoint=POOLED, limits=[pool], **SAID, force=True)
        share = {"name": "share", "algorithm": "borrowing", "assured": 1, "parent": "pooled"}
        policy_create(name="free-pooled", tier="free", endpoint=POOLED, limits=[share], **SAID, force=True)


def _adapting() -> None:
    if not Policy.objects.filter(name="adapting").exists():
        limit = bucket(50, "backend", adapt={"slow": "300ms", "pin": "50%"})
        policy_create(name="adapting", endpoint=PAY, limits=[limit], **SAID, force=True)


def _on_trial() -> int:
    """A policy of its own, because a trial holds its policy."""
    if (found := Change.objects.filter(state="shadow", touched=["policy:tried"]).first()) is not None:
        return found.pk
    policy_create(name="tried", tier="pro", endpoint=GET, limits=[bucket(500, "tried")], **SAID, force=True)
    change = change_propose(limit_set, policy="tried", limit=bucket(600, "tried"), **SAID)
    return change_start(change=change.pk, mode="shadow", **SAID).pk


def _recommended(stage: str, policy: str, limit: str) -> int:
    """In shadow with a change of its own; enforced, with a limit that is what it proposed."""
    held, now = limit_of(policy, limit), timezone.now()
    live = {"algorithm": held.algorithm, "parameters": held.parameters}
    parameters = {**held.parameters, "burst": 4_000}
    more = {"algorithm": held.algorithm, "parameters": parameters}
    before, after = (more, live) if stage == "enforced" else (live, more)
    row = Recommendation(kind="tier", stage=stage, policy=policy, limit=limit, endpoint="*", current=before)
    row.proposed, row.measured_at, row.shadow_at, row.enforced_at, row.decider = after, now, now, now, "bob"
    if stage == "shadow":
        fields = {"name": limit, "algorithm": held.algorithm, **parameters}
        row.change = change_propose(limit_set, policy=policy, limit=fields, **SAID)
    row.save()
    return row.pk


def add_tenants(count: int) -> None:
    """In one statement: the services would write a revision with all of them."""
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO tenants_tenant (name, label, tier_id, timezone, suspended, suspended_reason, handovers)
            SELECT 't' || to_char(wanted, 'FM000000'), '', tiers.number, 'UTC', false, '', '[]'
            FROM tenants_tier AS tiers, generate_series(%s::int, %s::int) AS wanted WHERE tiers.name = 'free'""",
            [first := Tenant.objects.count() - 2, first + count - 1],
        )


def requests(world: World) -> dict[str, Asked]:
    """By url name and method."""
    assert ApiKey.objects.filter(key_id=world.key).exists()
    return {
        f"{name} {asked.method}": asked
        for asks in (
            _reads(world),
            _tenants(world),
            _policies(world),
            _history(world),
            _measured(world),
            _alerts(world),
        )
        for name, asked in asks
    }


def _reads(world: World) -> list[tuple[str, Asked]]:
    pages = (
        "tiers",
        "tenants",
        "api-keys",
        "endpoints",
        "policies",
        "overrides",
        "revisions",
        "changes",
        "audit",
        "emergencies",
    )
    things = {
        "tier": "tiers/free",
        "tenant": "tenants/t000000",
        "tenant-limits": "tenants/t000000/limits",
        "api-key": f"api-keys/{world.key}",
        "endpoint": f"endpoints/{PAY}",
        "policy": "policies/free-all",
        "adaptive": "adaptive",
        "adaptive-timeline": "adaptive/adapting/backend",
        "pools": "pools",
        "pool": "pools/everyone-pooled/pooled",
        "pool-use": "pools/everyone-pooled/pooled/use",
        "pool-members": "pools/everyone-pooled/pooled/members?limit=20",
        "override": f"overrides/{world.override}",
        "tenants-csv": "tenants.csv",
        "overrides-csv": "overrides.csv",
        "revision": f"revisions/{world.revision}",
        "revision-diff": f"revisions/{world.revision - 1}/diff",
        "change": f"changes/{world.change}",
        "change-trial": f"changes/{world.trial}/trial",
        "emergency": f"emergencies/{world.emergency}",
        "freezes": "freezes",
        "chart-notes": "chart-notes",
        "chart-note": f"chart-notes/{world.note}",
        "tokens": "tokens",
        "token": f"tokens/{world.token}",
        "freeze": f"freezes/{world.freeze}",
        "usage": "usage?group=tenant,tier,endpoint,outcome,limit&step=1h&tenant=t000000",
        "denials": "denials?tenant=t000000",
        **{name: name for name in ("bypasses", "enforcers", "document", "schema", "docs")},
        **{name: name for name in ("alerts", "alert-rules", "alert-targets")},
        "alert-rule": "alert-rules/quota-80",
        "document-schema": "document/schema",
        "document-task": f"document/tasks/{world.document}",
        "recommendations": "recommendations",
        "recommendation": f"recommendations/{world.simulated}",
        "whatifs": "whatif",
        "whatif": f"whatif/{world.whatif}",
        "calibration": f"calibrations/{world.calibration}",
        "calibration-settings": "calibration-settings",
    }
    return [(name, Asked("GET", f"/v1/{path}")) for name, path in {**{name: name for name in pages}, **things}.items()]


def _tenants(world: World) -> list[tuple[str, Asked]]:
    one, own = "/v1/tenants/t000000", {"tenant": "t000000", **WHY}
    few, both = ["t000000", "t000001"], [world.override - 1, world.override]
    return [
        ("tiers", Asked("POST", f"/v1/tiers{DRY}", {"name": "gold", **WHY})),
        ("tier", Asked("PATCH", f"/v1/tiers/pro{DRY}", {"label": "Professional", **WHY})),
        ("tier", Asked("DELETE", f"/v1/tiers/empty{GONE}")),
        ("tier-duplicate", Asked("POST", f"/v1/tiers/pro/duplicate{DRY}", {"name": "gold", **WHY})),
        ("tier-retire", Asked("POST", f"/v1/tiers/free/retire{DRY}", {"to": "pro", **WHY})),
        ("tenants", Asked("POST", f"/v1/tenants{DRY}", {"name": "newer", "tier": "free", **WHY})),
        ("tenant", Asked("PATCH", f"{one}{DRY}", {"label": "new", **WHY})),
        ("tenant-move", Asked("POST", f"{one}/move{DRY}", {"tier": "pro", **WHY})),
        ("tenant-suspend", Asked("POST", f"{one}/suspend{DRY}", WHY)),
        ("tenant-resume", Asked("POST", f"{one}/resume{DRY}", WHY)),
        ("tenant-archive", Asked("POST", f"{one}/archive{DRY}", WHY)),
        ("tenant-restore", Asked("POST", f"{one}/restore{DRY}", WHY)),
        ("tenants-move", Asked("POST", f"/v1/tenants/move{DRY}", {"names": few, "tier": "pro", **WHY})),
        ("tenants-suspend", Asked("POST", f"/v1/tenants/suspend{DRY}", {"names": few, **WHY})),
        ("tenants-resume", Asked("POST", f"/v1/tenants/resume{DRY}", {"names": few, **WHY})),
        ("tenants-tag", Asked("POST", f"/v1/tenants/tag{DRY}", {"names": few, "add": ["pilot"], **WHY})),
        ("tenants-import", Asked("POST", f"/v1/tenants/import{DRY}", {"csv": "name,tier\nnewer,free\n", **WHY})),
        ("tenant-reset", Asked("POST", f"{one}/reset{DRY}", WHY)),
        ("api-keys", Asked("POST", f"/v1/api-keys{DRY}", own)),
        ("api-key", Asked("PATCH", f"/v1/api-keys/{world.key}{DRY}", WHY | {"label": "app"})),
        ("api-key-rotate", Asked("POST", f"/v1/api-keys/{world.key}/rotate{DRY}", WHY | {"overlap": "1h"})),
        ("api-key-revoke", Asked("POST", f"/v1/api-keys/{world.key}/revoke{DRY}", WHY)),
        ("overrides", Asked("POST", f"/v1/overrides{DRY}", {"multiplier": {"numerator": 3}, **own})),
        ("override", Asked("PATCH", f"/v1/overrides/{world.override}{DRY}", {"end": "2040-01-31T18:00:00Z", **WHY})),
        ("override-extend", Asked("POST", f"/v1/overrides/{world.override}/extend{DRY}", {**LATER, **WHY})),
        ("overrides-give", Asked("POST", f"/v1/overrides/give{DRY}", {"tenants": few, **DOUBLE, **WHY})),
        ("overrides-extend", Asked("POST", f"/v1/overrides/extend{DRY}", {"overrides": both, **LATER, **WHY})),
        ("overrides-cancel", Asked("POST", f"/v1/overrides/cancel{DRY}", {"overrides": both, **WHY})),
        ("override-cancel", Asked("POST", f"/v1/overrides/{world.override}/cancel{DRY}", WHY)),
        ("bypasses", Asked("POST", f"/v1/bypasses{DRY}", {"scope": "all", "duration": "1m", **WHY})),
        ("bypass", Asked("DELETE", f"/v1/bypasses/tenant:acme{GONE}")),
        ("explain", Asked("POST", "/v1/explain", {"tenant": "t000000", "path": "/many/e1"})),
    ]


def _policies(world: World) -> list[tuple[str, Asked]]:
    limits = {"limits": [bucket(12)], **WHY}
    pool, share = "/v1/pools/everyone-pooled/pooled", {"tenant": WITHOUT_OVERRIDE, "guaranteed": 2}
    document = {"document": document_export().replace("rate: 10\n", "rate: 12\n")}
    return [
        ("endpoints", Asked("POST", f"/v1/endpoints{DRY}", {"name": "new:one", **WHY})),
        ("endpoints-import", Asked("POST", f"/v1/endpoints/import{DRY}", {"document": OPENAPI, **WHY})),
        ("endpoint", Asked("PATCH", f"/v1/endpoints/{PAY}{DRY}", {"default_cost": 5, **WHY})),
        ("endpoint", Asked("DELETE", f"/v1/endpoints/many:e1{GONE}")),
        ("policies", Asked("POST", f"/v1/policies{DRY}", {"name": "new", "endpoint": PAY, "tier": "free", **limits})),
        ("pools", Asked("POST", f"/v1/pools{DRY}", {"name": "new", "endpoint": GET, "rate": 10, **WHY})),
        ("pool", Asked("PATCH", f"{pool}{DRY}", {"rate": 120, **WHY})),
        ("pool-members", Asked("POST", f"{pool}/members{DRY}", {"tenant": "acme", "guaranteed": 1, **WHY})),
        ("pool-members", Asked("PATCH", f"{pool}/members{DRY}", {"shares": [share], **WHY})),
        ("policy", Asked("PUT", f"/v1/policies/free-all{DRY}", limits)),
        ("policy", Asked("DELETE", f"/v1/policies/free-all{GONE}")),
        ("policy-rename", Asked("POST", f"/v1/policies/free-all/rename{DRY}", WHY | {"to": "all-of-free"})),
        ("policy-limit-rename", Asked("POST", f"/v1/policies/pro-all/limits/minute/rename{DRY}", WHY | {"to": "min"})),
        ("policy-limit-pin", Asked("POST", f"/v1/policies/adapting/limits/backend/pin{DRY}", WHY | {"at": "42%"})),
        ("policy-limit-unpin", Asked("POST", f"/v1/policies/adapting/limits/backend/unpin{DRY}", WHY)),
        ("policy-limit", Asked("PUT", f"/v1/policies/free-all/limits/burst{DRY}", {"limit": bucket(12), **WHY})),
        ("policy-limit", Asked("DELETE", f"/v1/policies/pro-all/limits/burst{GONE}")),
        ("document-validate", Asked("POST", "/v1/document/validate", document)),
        ("document-plan", Asked("POST", "/v1/document/plan", document)),
        ("document-apply", Asked("POST", f"/v1/document/apply{DRY}", {**document, **WHY})),
    ]


def _alerts(world: World) -> list[tuple[str, Asked]]:
    target = {"kind": "webhook", "address": "https://1.1.1.1/hook", **WHY}
    return [
        ("alert-rule", Asked("PATCH", f"/v1/alert-rules/quota-80{DRY}", {"threshold": 0.7, **WHY})),
        ("alert-targets", Asked("POST", f"/v1/alert-targets{DRY}", target)),
        ("alert-target", Asked("DELETE", f"/v1/alert-targets/{world.target}{GONE}")),
        ("alert-target-test", Asked("POST", f"/v1/alert-targets/{world.target}/test{DRY}", WHY)),
    ]


def _history(world: World) -> list[tuple[str, Asked]]:
    change = f"/v1/changes/{world.change}"
    return [
        ("revision-rollback", Asked("POST", f"/v1/revisions/{world.revision - 1}/rollback{DRY}", WHY)),
        ("revision-revert", Asked("POST", f"/v1/revisions/{world.revision}/revert{DRY}", WHY)),
        ("document-task-cancel", Asked("POST", f"/v1/document/tasks/{world.document}/cancel{DRY}", WHY)),
        ("change-start", Asked("POST", f"{change}/start{DRY}", {"mode": "shadow", **WHY})),
        ("change-promote", Asked("POST", f"{change}/promote{DRY}", WHY)),
        ("change-drop", Asked("POST", f"{change}/drop{DRY}", WHY)),
        ("change-trial", Asked("PATCH", f"/v1/changes/{world.trial}/trial{DRY}", {"bar_share": 0.02, **WHY})),
        (
            "freezes",
            Asked("POST", f"/v1/freezes{DRY}", {**YEARS_AHEAD, **WHY}),
        ),
        ("token", Asked("PATCH", f"/v1/tokens/{world.token}{DRY}", {"may_approve": False, **WHY})),
        ("chart-notes", Asked("POST", f"/v1/chart-notes{DRY}", {"at": YEARS_AHEAD["start"], "text": "a fair", **WHY})),
        ("chart-note", Asked("DELETE", f"/v1/chart-notes/{world.note}{GONE}")),
        ("freeze-lift", Asked("POST", f"/v1/freezes/{world.freeze}/lift{DRY}", WHY)),
        ("emergency-review", Asked("POST", f"/v1/emergencies/{world.emergency}/review{DRY}", WHY)),
        ("change-approve", Asked("POST", f"{change}/approve{DRY}", WHY)),
    ]


def _measured(world: World) -> list[tuple[str, Asked]]:
    simulated, shadowed, enforced = (
        f"/v1/recommendations/{number}" for number in (world.simulated, world.shadowed, world.enforced)
    )
    return [
        ("recommendation-simulate", Asked("POST", f"{simulated}/simulate{DRY}", WHY)),
        ("recommendation-measure", Asked("POST", f"{simulated}/measure{DRY}", WHY)),
        ("recommendation-edit", Asked("POST", f"{simulated}/edit{DRY}", {"rate": 5, "burst": 9, **WHY})),
        ("recommendation-approve", Asked("POST", f"{simulated}/approve{DRY}", WHY)),
        ("recommendation-enforce", Asked("POST", f"{shadowed}/enforce{DRY}", {"early": True, **WHY})),
        ("recommendation-dismiss", Asked("POST", f"{simulated}/dismiss{DRY}", WHY)),
        ("recommendation-roll-back", Asked("POST", f"{enforced}/roll-back{DRY}", WHY)),
        ("recommendations-approve", Asked("GET", "/v1/recommendations/approve")),
        ("recommendations-approve", Asked("POST", f"/v1/recommendations/approve{DRY}", WHY)),
        ("whatifs", Asked("POST", f"/v1/whatif{DRY}", {"document": "tiers: []", **WHY})),
        ("calibrations", Asked("POST", f"/v1/calibrations{DRY}", WHY)),
        ("calibration-settings", Asked("PATCH", f"/v1/calibration-settings{DRY}", {"values": {"margin": 2}, **WHY})),
    ]
