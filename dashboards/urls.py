from __future__ import annotations

from django.urls import path

from dashboards.pages.adaptive import pin
from dashboards.pages.changes import actions as change_actions
from dashboards.pages.changes.change import change, change_csv
from dashboards.pages.changes.promotion import promote
from dashboards.pages.changes.view import changes
from dashboards.pages.chart_notes import chart_note_delete, chart_notes
from dashboards.pages.decisions import decisions, decisions_new
from dashboards.pages.emergencies import review
from dashboards.pages.endpoint.view import endpoint, endpoint_draft, endpoint_impact
from dashboards.pages.endpoints.editor import endpoint_edit, endpoint_match, endpoint_new
from dashboards.pages.endpoints.openapi_import import endpoints_import_page
from dashboards.pages.endpoints.retirement import endpoint_retire
from dashboards.pages.endpoints.view import endpoints, endpoints_csv
from dashboards.pages.first_run import first_run
from dashboards.pages.inbox import inbox
from dashboards.pages.live import live
from dashboards.pages.login import SignIn, SignOut
from dashboards.pages.matrix.sheet_import import matrix_import
from dashboards.pages.matrix.view import matrix, matrix_cell, matrix_csv, matrix_plan, matrix_publish, matrix_published
from dashboards.pages.overrides.fleet import overrides, overrides_csv
from dashboards.pages.overrides.give import (
    override_give,
    override_new,
    override_preview,
    overrides_give,
    overrides_new,
    overrides_preview,
)
from dashboards.pages.overrides.many import override_edit, override_end, overrides_end_many, overrides_extend_many
from dashboards.pages.overview.view import overview
from dashboards.pages.palette import palette
from dashboards.pages.policies import actions as policy_actions
from dashboards.pages.policies.view import policies, policy, policy_new, policy_yaml
from dashboards.pages.pools.editor import pool_edit, pool_member_new, pool_new, pool_plan, pool_shares
from dashboards.pages.pools.view import pool, pool_demand, pools
from dashboards.pages.portal import portal, portal_ask
from dashboards.pages.quota_requests import request_answer
from dashboards.pages.recommendations.detail import recommendation, recommendation_decide
from dashboards.pages.recommendations.inbox import recommendations, recommendations_bulk, recommendations_run
from dashboards.pages.runbook import runbook
from dashboards.pages.saved_views import view_change, view_remove, view_save
from dashboards.pages.settings import (
    alert_rule,
    alert_target,
    alert_target_add,
    freeze,
    freeze_end,
    settings,
    settings_recommender,
    token,
)
from dashboards.pages.simulator.sharing_view import simulator_sharing
from dashboards.pages.simulator.view import simulator
from dashboards.pages.tenant import actions as tenant_actions
from dashboards.pages.tenant import archive as tenant_archive
from dashboards.pages.tenant import keys as tenant_keys
from dashboards.pages.tenant.new import tenant_new
from dashboards.pages.tenant.settings import tenant_move_preview, tenant_settings
from dashboards.pages.tenant.view import tenant
from dashboards.pages.tenant_bulk import tenants_bulk
from dashboards.pages.tenant_import import tenants_import, tenants_import_run
from dashboards.pages.tenants import tenants, tenants_csv
from dashboards.pages.tester.view import tester
from dashboards.pages.tiers.editor import tier_edit, tier_new
from dashboards.pages.tiers.moving import tier_move, tier_retirement
from dashboards.pages.tiers.view import tier, tiers, tiers_csv
from dashboards.pages.what_if import what_if, what_if_draft, what_if_run

app_name = "dashboards"
urlpatterns = [
    path("", overview, name="overview"),
    path("decisions", decisions, name="decisions"),
    path("decisions/new", decisions_new, name="decisions-new"),
    path("tester", tester, name="tester"),
    path("endpoints", endpoints, name="endpoints"),
    path("endpoints.csv", endpoints_csv, name="endpoints-csv"),
    # The name of an endpoint has a colon, so these are never one.
    path("endpoints/new", endpoint_new, name="endpoint-new"),
    path("endpoints/match", endpoint_match, name="endpoint-match"),
    path("endpoints/import", endpoints_import_page, name="endpoints-import"),
    path("endpoints/<str:name>", endpoint, name="endpoint"),
    path("endpoints/<str:name>/edit", endpoint_edit, name="endpoint-edit"),
    path("endpoints/<str:name>/retire", endpoint_retire, name="endpoint-retire"),
    path("endpoints/<str:name>/impact", endpoint_impact, name="endpoint-impact"),
    path("endpoints/<str:name>/draft", endpoint_draft, name="endpoint-draft"),
    path("matrix", matrix, name="matrix"),
    path("matrix.csv", matrix_csv, name="matrix-csv"),
    path("matrix/cell", matrix_cell, name="matrix-cell"),
    path("matrix/plan", matrix_plan, name="matrix-plan"),
    path("matrix/publish", matrix_publish, name="matrix-publish"),
    path("matrix/published", matrix_published, name="matrix-published"),
    path("matrix/import", matrix_import, name="matrix-import"),
    path("policies", policies, name="policies"),
    path("policies/new", policy_new, name="policy-new"),
    path("policies/<str:name>/yaml", policy_yaml, name="policy-yaml"),
    path("policies/<str:name>/rename", policy_actions.rename, name="policy-rename"),
    path("policies/<str:name>/delete", policy_actions.delete, name="policy-delete"),
    path("policies/<str:name>/limits/<str:limit>/rename", policy_actions.rename_limit, name="policy-limit-rename"),
    path("policies/<str:name>", policy, name="policy"),
    path("pools", pools, name="pools"),
    path("new/pool", pool_new, name="pool-new"),  # a policy may be called new
    path("pools/<str:name>/<str:limit>", pool, name="pool"),
    path("pools/<str:name>/<str:limit>/edit", pool_edit, name="pool-edit"),
    path("pools/<str:name>/<str:limit>/members/new", pool_member_new, name="pool-member-new"),
    path("pools/<str:name>/<str:limit>/demand", pool_demand, name="pool-demand"),
    path("pools/<str:name>/<str:limit>/plan", pool_plan, name="pool-plan"),
    path("pools/<str:name>/<str:limit>/shares", pool_shares, name="pool-shares"),
    path("recommendations", recommendations, name="recommendations"),
    path("notes", chart_notes, name="chart-notes"),
    path("notes/<int:number>/remove", chart_note_delete, name="chart-note-remove"),
    path("recommendations/run", recommendations_run, name="recommendations-run"),
    path("recommendations/approve", recommendations_bulk, name="recommendations-bulk"),
    path("recommendations/<int:number>", recommendation, name="recommendation"),
    path("recommendations/<int:number>/<slug:action>", recommendation_decide, name="recommendation-decide"),
    path("settings", settings, name="settings"),
    path("settings/recommender", settings_recommender, name="settings-recommender"),
    path("settings/tokens/<slug:key_id>", token, name="token-permit"),
    path("settings/freezes", freeze, name="freeze"),
    path("settings/freezes/<int:number>/lift", freeze_end, name="freeze-lift"),
    path("settings/alert", alert_rule, name="alert-rule"),
    path("settings/targets", alert_target_add, name="alert-target-add"),
    path("settings/targets/<int:number>/<slug:action>", alert_target, name="alert-target"),
    path("runbooks/<slug:name>", runbook, name="runbook"),
    path("simulator", simulator, name="simulator"),
    path("simulator/sharing", simulator_sharing, name="simulator-sharing"),
    path("simulator/what-if", what_if, name="what-if"),
    path("simulator/what-if/<int:number>", what_if_run, name="what-if-run"),
    path("simulator/what-if/<int:number>/draft", what_if_draft, name="what-if-draft"),
    path("tiers", tiers, name="tiers"),
    path("tiers.csv", tiers_csv, name="tiers-csv"),
    path("new/tier", tier_new, name="tier-new"),  # a tier may be called new
    path("tiers/<str:name>", tier, name="tier"),
    path("tiers/<str:name>/edit", tier_edit, name="tier-edit"),
    path("tiers/<str:name>/move", tier_move, name="tier-move"),
    path("tiers/<str:name>/retire", tier_retirement, name="tier-retire"),
    path("tenants", tenants, name="tenants"),
    path("tenants.csv", tenants_csv, name="tenants-csv"),
    path("tenants/new", tenant_new, name="tenant-new"),
    path("tenants/import", tenants_import, name="tenants-import"),
    path("tenants/import/<int:number>", tenants_import_run, name="tenants-import-run"),
    path("tenants/bulk/<slug:action>", tenants_bulk, name="tenants-bulk"),
    path("tenants/<slug:name>", tenant, name="tenant"),
    path("tenants/<slug:name>/settings", tenant_settings, name="tenant-settings"),
    path("tenants/<slug:name>/settings/move", tenant_move_preview, name="tenant-move-preview"),
    path("tenants/<slug:name>/archive", tenant_archive.archive, name="tenant-archive"),
    path("tenants/<slug:name>/restore", tenant_archive.restore, name="tenant-restore"),
    path("tenants/<slug:name>/override", override_new, name="override-new"),
    path("tenants/<slug:name>/override/preview", override_preview, name="override-preview"),
    path("tenants/<slug:name>/override/give", override_give, name="override-give"),
    path("tenants/<slug:name>/overrides/<int:number>/end", override_end, name="override-end"),
    path("tenants/<slug:name>/suspend", tenant_actions.suspend, name="tenant-suspend"),
    path("tenants/<slug:name>/resume", tenant_actions.resume, name="tenant-resume"),
    path("tenants/<slug:name>/keys", tenant_keys.key_issue, name="key-issue"),
    path("tenants/<slug:name>/keys/<slug:key_id>/rotate", tenant_keys.key_rotate, name="key-rotate"),
    path("tenants/<slug:name>/keys/<slug:key_id>/label", tenant_keys.key_label, name="key-label"),
    path("tenants/<slug:name>/keys/<slug:key_id>/revoke", tenant_keys.key_revoke, name="key-revoke"),
    path("overrides", overrides, name="overrides"),
    path("overrides.csv", overrides_csv, name="overrides-csv"),
    path("overrides/new", overrides_new, name="overrides-new"),
    path("overrides/preview", overrides_preview, name="overrides-preview"),
    path("overrides/give", overrides_give, name="overrides-give"),
    path("overrides/extend", overrides_extend_many, name="overrides-extend"),
    path("overrides/end", overrides_end_many, name="overrides-end"),
    path("overrides/<int:number>/edit", override_edit, name="override-edit"),
    path("changes", changes, name="changes"),
    path("changes/<int:number>", change, name="change"),
    path("changes/<int:number>.csv", change_csv, name="change-csv"),
    path("changes/<int:number>/undo/<slug:way>", change_actions.undo, name="undo"),
    path("changes/open/<int:number>/approve", change_actions.approve, name="change-approve"),
    path("changes/open/<int:number>/start", change_actions.start, name="change-start"),
    path("changes/open/<int:number>/promote", promote, name="change-promote"),
    path("changes/open/<int:number>/trial", change_actions.trial, name="change-trial"),
    path("changes/open/<int:number>/drop", change_actions.drop, name="change-drop"),
    path("bypass", change_actions.bypass, name="bypass"),
    path("bypass/end", change_actions.bypass_end, name="bypass-end"),
    path("policies/<str:policy>/limits/<str:limit>/pin", pin, name="limit-pin"),
    path("emergencies/<int:number>/review", review, name="emergency-review"),
    path("first-run", first_run, name="first-run"),
    path("requests/<int:number>/answer", request_answer, name="request-answer"),
    path("portal", portal, name="portal"),
    path("portal/ask", portal_ask, name="portal-ask"),
    path("inbox", inbox, name="inbox"),
    path("views/<slug:page>", view_save, name="view-save"),
    path("views/<slug:page>/<int:number>", view_change, name="view-update"),
    path("views/<slug:page>/<int:number>/delete", view_remove, name="view-delete"),
    path("palette", palette, name="palette"),
    path("live", live, name="live"),
    path("login", SignIn.as_view(), name="login"),
    path("logout", SignOut.as_view(), name="logout"),
]
