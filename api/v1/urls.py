from __future__ import annotations

from typing import Any

from django.urls import path, register_converter

from api.openapi import page
from api.v1 import (
    adaptive,
    alerts,
    api_keys,
    audit,
    bypasses,
    changes,
    chart_notes,
    counters,
    document_tasks,
    documents,
    emergencies,
    endpoint_import,
    endpoints,
    enforcers,
    explain,
    freezes,
    override_bulk,
    overrides,
    policies,
    pools,
    recommendations,
    revisions,
    tenant_bulk,
    tenant_imports,
    tenant_limits,
    tenants,
    tiers,
    tokens,
    trials,
    usage,
    what_if,
)
from api.v1.patterns import PATTERNS


class _Text:
    """Converts a name in a path. A path that cannot be a name gets 404 before any query is made."""

    regex: str

    def to_python(self, value: str) -> Any:
        return value

    def to_url(self, value: object) -> str:
        return str(value)


class _Number(_Text):
    def to_python(self, value: str) -> int:
        return int(value)


for name, pattern in PATTERNS.items():
    register_converter(type(name, (_Number if name == "number" else _Text,), {"regex": pattern}), name)

app_name = "v1"
urlpatterns = [
    path("schema", page.Schema.as_view(), name="schema"),
    path("docs", page.Docs.as_view(), name="docs"),
    path("tiers", tiers.TierList.as_view(), name="tiers"),
    path("tiers/<word:name>", tiers.TierDetail.as_view(), name="tier"),
    path("tiers/<word:name>/duplicate", tiers.TierDuplicate.as_view(), name="tier-duplicate"),
    path("tiers/<word:name>/retire", tiers.TierRetire.as_view(), name="tier-retire"),
    path("tenants", tenants.TenantList.as_view(), name="tenants"),
    path("tenants.csv", tenants.TenantsCsv.as_view(), name="tenants-csv"),
    path("tenants/move", tenant_bulk.TenantsMove.as_view(), name="tenants-move"),
    path("tenants/suspend", tenant_bulk.TenantsSuspend.as_view(), name="tenants-suspend"),
    path("tenants/resume", tenant_bulk.TenantsResume.as_view(), name="tenants-resume"),
    path("tenants/tag", tenant_bulk.TenantsTag.as_view(), name="tenants-tag"),
    path("tenants/import", tenant_imports.TenantsImport.as_view(), name="tenants-import"),
    path("tenants/<tenant:name>", tenants.TenantDetail.as_view(), name="tenant"),
    path("tenants/<tenant:name>/move", tenants.TenantMove.as_view(), name="tenant-move"),
    path("tenants/<tenant:name>/suspend", tenants.TenantSuspend.as_view(), name="tenant-suspend"),
    path("tenants/<tenant:name>/resume", tenants.TenantResume.as_view(), name="tenant-resume"),
    path("tenants/<tenant:name>/archive", tenants.TenantArchive.as_view(), name="tenant-archive"),
    path("tenants/<tenant:name>/restore", tenants.TenantRestore.as_view(), name="tenant-restore"),
    path("tenants/<tenant:name>/limits", tenant_limits.TenantLimits.as_view(), name="tenant-limits"),
    path("tenants/<tenant:name>/reset", counters.TenantReset.as_view(), name="tenant-reset"),
    path("api-keys", api_keys.ApiKeyList.as_view(), name="api-keys"),
    path("api-keys/<key:key_id>", api_keys.ApiKeyDetail.as_view(), name="api-key"),
    path("api-keys/<key:key_id>/rotate", api_keys.ApiKeyRotate.as_view(), name="api-key-rotate"),
    path("api-keys/<key:key_id>/revoke", api_keys.ApiKeyRevoke.as_view(), name="api-key-revoke"),
    path("endpoints", endpoints.EndpointList.as_view(), name="endpoints"),
    path("endpoints/import", endpoint_import.EndpointImport.as_view(), name="endpoints-import"),
    path("endpoints/<endpoint:name>", endpoints.EndpointDetail.as_view(), name="endpoint"),
    path("policies", policies.PolicyList.as_view(), name="policies"),
    path("pools", pools.PoolList.as_view(), name="pools"),
    path("pools/<word:name>/<word:limit>", pools.PoolDetail.as_view(), name="pool"),
    path("pools/<word:name>/<word:limit>/use", pools.PoolUsed.as_view(), name="pool-use"),
    path("pools/<word:name>/<word:limit>/members", pools.PoolMembers.as_view(), name="pool-members"),
    path("policies/<word:name>", policies.PolicyDetail.as_view(), name="policy"),
    path("policies/<word:name>/rename", policies.PolicyRename.as_view(), name="policy-rename"),
    path(
        "policies/<word:name>/limits/<word:limit>/rename",
        policies.PolicyLimitRename.as_view(),
        name="policy-limit-rename",
    ),
    path("policies/<word:name>/limits/<word:limit>/pin", adaptive.PolicyLimitPin.as_view(), name="policy-limit-pin"),
    path(
        "policies/<word:name>/limits/<word:limit>/unpin", adaptive.PolicyLimitUnpin.as_view(), name="policy-limit-unpin"
    ),
    path("adaptive", adaptive.AdaptiveList.as_view(), name="adaptive"),
    path("adaptive/<word:name>/<word:limit>", adaptive.AdaptiveTimeline.as_view(), name="adaptive-timeline"),
    path("policies/<word:name>/limits/<word:limit>", policies.PolicyLimit.as_view(), name="policy-limit"),
    path("overrides", overrides.OverrideList.as_view(), name="overrides"),
    path("overrides.csv", overrides.OverridesCsv.as_view(), name="overrides-csv"),
    path("overrides/give", override_bulk.OverridesGive.as_view(), name="overrides-give"),
    path("overrides/extend", override_bulk.OverridesExtend.as_view(), name="overrides-extend"),
    path("overrides/cancel", override_bulk.OverridesCancel.as_view(), name="overrides-cancel"),
    path("overrides/<number:number>", overrides.OverrideDetail.as_view(), name="override"),
    path("overrides/<number:number>/extend", overrides.OverrideExtend.as_view(), name="override-extend"),
    path("overrides/<number:number>/cancel", overrides.OverrideCancel.as_view(), name="override-cancel"),
    path("revisions", revisions.RevisionList.as_view(), name="revisions"),
    path("revisions/<number:number>", revisions.RevisionDetail.as_view(), name="revision"),
    path("revisions/<number:number>/diff", revisions.RevisionDiff.as_view(), name="revision-diff"),
    path("revisions/<number:number>/rollback", revisions.RevisionRollback.as_view(), name="revision-rollback"),
    path("revisions/<number:number>/revert", revisions.RevisionRevert.as_view(), name="revision-revert"),
    path("changes", changes.ChangeList.as_view(), name="changes"),
    path("changes/<number:number>", changes.ChangeDetail.as_view(), name="change"),
    path("changes/<number:number>/start", changes.ChangeStart.as_view(), name="change-start"),
    path("changes/<number:number>/promote", changes.ChangePromote.as_view(), name="change-promote"),
    path("changes/<number:number>/drop", changes.ChangeDrop.as_view(), name="change-drop"),
    path("changes/<number:number>/trial", trials.ChangeTrial.as_view(), name="change-trial"),
    path("changes/<number:number>/approve", changes.ChangeApprove.as_view(), name="change-approve"),
    path("emergencies", emergencies.EmergencyList.as_view(), name="emergencies"),
    path("emergencies/<number:number>", emergencies.EmergencyDetail.as_view(), name="emergency"),
    path("emergencies/<number:number>/review", emergencies.EmergencyReview.as_view(), name="emergency-review"),
    path("tokens", tokens.TokenList.as_view(), name="tokens"),
    path("tokens/<key:key_id>", tokens.TokenDetail.as_view(), name="token"),
    path("chart-notes", chart_notes.ChartNoteList.as_view(), name="chart-notes"),
    path("chart-notes/<number:number>", chart_notes.ChartNoteDetail.as_view(), name="chart-note"),
    path("freezes", freezes.FreezeList.as_view(), name="freezes"),
    path("freezes/<number:number>", freezes.FreezeDetail.as_view(), name="freeze"),
    path("freezes/<number:number>/lift", freezes.FreezeLift.as_view(), name="freeze-lift"),
    path("explain", explain.Explain.as_view(), name="explain"),
    path("bypasses", bypasses.BypassList.as_view(), name="bypasses"),
    path("bypasses/<about:about>", bypasses.BypassDetail.as_view(), name="bypass"),
    path("enforcers", enforcers.EnforcerList.as_view(), name="enforcers"),
    path("document", documents.DocumentExport.as_view(), name="document"),
    path("document/schema", documents.DocumentSchema.as_view(), name="document-schema"),
    path("document/validate", documents.DocumentValidate.as_view(), name="document-validate"),
    path("document/plan", documents.DocumentPlan.as_view(), name="document-plan"),
    path("document/apply", documents.DocumentApply.as_view(), name="document-apply"),
    path("document/tasks/<number:number>", document_tasks.DocumentTask.as_view(), name="document-task"),
    path("document/tasks/<number:number>/cancel", document_tasks.TaskCancel.as_view(), name="document-task-cancel"),
    path("usage", usage.Usage.as_view(), name="usage"),
    path("denials", usage.Denials.as_view(), name="denials"),
    path("audit", audit.AuditList.as_view(), name="audit"),
    path("alerts", alerts.AlertList.as_view(), name="alerts"),
    path("alert-rules", alerts.AlertRuleList.as_view(), name="alert-rules"),
    path("alert-rules/<word:name>", alerts.AlertRuleDetail.as_view(), name="alert-rule"),
    path("alert-targets", alerts.AlertTargetList.as_view(), name="alert-targets"),
    path("alert-targets/<number:number>", alerts.AlertTargetDetail.as_view(), name="alert-target"),
    path("alert-targets/<number:number>/test", alerts.AlertTargetTest.as_view(), name="alert-target-test"),
    path("recommendations", recommendations.RecommendationList.as_view(), name="recommendations"),
    path("recommendations/approve", recommendations.RecommendationsApprove.as_view(), name="recommendations-approve"),
    path("recommendations/<number:number>", recommendations.RecommendationDetail.as_view(), name="recommendation"),
    *(
        path(f"recommendations/<number:number>/{step}", view.as_view(), name=f"recommendation-{step}")
        for step, view in recommendations.STEPS.items()
    ),
    path("whatif", what_if.WhatIfList.as_view(), name="whatifs"),
    path("whatif/<number:number>", what_if.WhatIfDetail.as_view(), name="whatif"),
    path("calibrations", what_if.CalibrationList.as_view(), name="calibrations"),
    path("calibrations/<number:number>", what_if.CalibrationDetail.as_view(), name="calibration"),
    path("calibration-settings", what_if.CalibrationSettings.as_view(), name="calibration-settings"),
]
