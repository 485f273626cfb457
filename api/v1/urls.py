from __future__ import annotations

from django.urls import path

from api.v1 import (
    api_keys,
    audit,
    bypasses,
    converters,
    counters,
    documents,
    endpoints,
    explain,
    overrides,
    policies,
    revisions,
    schema,
    standings,
    tenants,
    tiers,
)

converters.register()

app_name = "v1"
urlpatterns = [
    path("schema", schema.Schema.as_view(), name="schema"),
    path("docs", schema.Docs.as_view(), name="docs"),
    path("tiers", tiers.TierList.as_view(), name="tiers"),
    path("tiers/<word:name>", tiers.TierDetail.as_view(), name="tier"),
    path("tenants", tenants.TenantList.as_view(), name="tenants"),
    path("tenants/<tenant:name>", tenants.TenantDetail.as_view(), name="tenant"),
    path("tenants/<tenant:name>/move", tenants.TenantMove.as_view(), name="tenant-move"),
    path("tenants/<tenant:name>/suspend", tenants.TenantSuspend.as_view(), name="tenant-suspend"),
    path("tenants/<tenant:name>/resume", tenants.TenantResume.as_view(), name="tenant-resume"),
    path("tenants/<tenant:name>/limits", standings.TenantLimits.as_view(), name="tenant-limits"),
    path("tenants/<tenant:name>/reset", counters.TenantReset.as_view(), name="tenant-reset"),
    path("api-keys", api_keys.ApiKeyList.as_view(), name="api-keys"),
    path("api-keys/<key:key_id>", api_keys.ApiKeyDetail.as_view(), name="api-key"),
    path("api-keys/<key:key_id>/revoke", api_keys.ApiKeyRevoke.as_view(), name="api-key-revoke"),
    path("endpoints", endpoints.EndpointList.as_view(), name="endpoints"),
    path("endpoints/<endpoint:name>", endpoints.EndpointDetail.as_view(), name="endpoint"),
    path("policies", policies.PolicyList.as_view(), name="policies"),
    path("policies/<word:name>", policies.PolicyDetail.as_view(), name="policy"),
    path("policies/<word:name>/limits/<word:limit>", policies.PolicyLimit.as_view(), name="policy-limit"),
    path("overrides", overrides.OverrideList.as_view(), name="overrides"),
    path("overrides/<number:number>", overrides.OverrideDetail.as_view(), name="override"),
    path("overrides/<number:number>/cancel", overrides.OverrideCancel.as_view(), name="override-cancel"),
    path("revisions", revisions.RevisionList.as_view(), name="revisions"),
    path("revisions/<number:number>", revisions.RevisionDetail.as_view(), name="revision"),
    path("revisions/<number:number>/diff", revisions.RevisionDiff.as_view(), name="revision-diff"),
    path("revisions/<number:number>/rollback", revisions.RevisionRollback.as_view(), name="revision-rollback"),
    path("revisions/<number:number>/revert", revisions.RevisionRevert.as_view(), name="revision-revert"),
    path("explain", explain.Explain.as_view(), name="explain"),
    path("bypasses", bypasses.BypassList.as_view(), name="bypasses"),
    path("bypasses/<about:about>", bypasses.BypassDetail.as_view(), name="bypass"),
    path("document", documents.DocumentExport.as_view(), name="document"),
    path("document/schema", documents.DocumentSchema.as_view(), name="document-schema"),
    path("document/validate", documents.DocumentValidate.as_view(), name="document-validate"),
    path("document/plan", documents.DocumentPlan.as_view(), name="document-plan"),
    path("document/apply", documents.DocumentApply.as_view(), name="document-apply"),
    path("audit", audit.AuditList.as_view(), name="audit"),
]
