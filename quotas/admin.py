from __future__ import annotations

from django.contrib import admin

from quotas.models import (
    AlertSetting,
    AlertTarget,
    Approval,
    AuditEvent,
    CalibrationSetting,
    Change,
    ChartNote,
    Emergency,
    Endpoint,
    Freeze,
    Limit,
    LimitName,
    Outbox,
    Override,
    Policy,
    QuotaRequest,
    Recommendation,
    Revision,
    SavedView,
    Task,
)
from tenants.admin import ReadOnlyAdmin


@admin.register(Endpoint)
class EndpointAdmin(ReadOnlyAdmin):
    list_display = ["name", "method", "path", "default_cost", "retired"]
    search_fields = ["name", "path"]


@admin.register(Policy)
class PolicyAdmin(ReadOnlyAdmin):
    list_display = ["name", "tier", "tenant", "scope"]
    list_select_related = ["tier", "tenant", "endpoint"]
    search_fields = ["name", "tenant__name"]


@admin.register(Limit)
class LimitAdmin(ReadOnlyAdmin):
    list_display = ["name", "policy", "algorithm", "parameters", "subject", "mode", "on_failure"]
    list_filter = ["algorithm", "mode", "on_failure"]
    list_select_related = ["name", "policy"]
    search_fields = ["name__name", "policy__name"]


@admin.register(LimitName)
class LimitNameAdmin(ReadOnlyAdmin):
    list_display = ["name", "number"]
    search_fields = ["name"]


@admin.register(Override)
class OverrideAdmin(ReadOnlyAdmin):
    list_display = ["id", "tenant", "scope", "start", "end", "reason", "author", "cancelled_at"]
    list_select_related = ["tenant", "endpoint"]
    search_fields = ["tenant__name", "reason"]


@admin.register(Revision)
class RevisionAdmin(ReadOnlyAdmin):
    list_display = ["number", "created", "author", "action", "reason"]
    list_filter = ["action"]
    search_fields = ["author", "reason"]


@admin.register(Change)
class ChangeAdmin(ReadOnlyAdmin):
    list_display = ["id", "created", "author", "action", "reason", "state", "at", "share"]
    list_filter = ["state"]
    search_fields = ["author", "reason"]


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    list_display = ["id", "change", "approver", "reason", "at"]
    list_select_related = ["change"]


@admin.register(Emergency)
class EmergencyAdmin(ReadOnlyAdmin):
    list_display = ["id", "at", "author", "action", "what", "reason", "reviewer", "reviewed_at"]


@admin.register(ChartNote)
class ChartNoteAdmin(ReadOnlyAdmin):
    list_display = ["id", "at", "text", "tenant", "author"]
    list_select_related = ["tenant"]


@admin.register(Freeze)
class FreezeAdmin(ReadOnlyAdmin):
    list_display = ["id", "start", "end", "author", "reason", "roles", "lifted_at", "lifted_author"]


@admin.register(Outbox)
class OutboxAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "revision", "created"]
    list_select_related = ["revision"]


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "at", "detail"]
    list_filter = ["kind"]


@admin.register(Recommendation)
class RecommendationAdmin(ReadOnlyAdmin):
    list_display = ["id", "created", "stage", "policy", "limit", "tenant", "trust", "summary"]
    list_filter = ["stage", "kind", "trust"]
    search_fields = ["policy", "tenant", "endpoint"]


@admin.register(CalibrationSetting)
class CalibrationSettingAdmin(ReadOnlyAdmin):
    list_display = ["name", "value"]


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "state", "percent", "author", "created", "problem"]
    list_filter = ["kind", "state"]


@admin.register(AlertSetting)
class AlertSettingAdmin(ReadOnlyAdmin):
    list_display = ["name", "threshold", "is_on"]


@admin.register(AlertTarget)
class AlertTargetAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "label", "address", "is_on"]
    exclude = ["secret"]


@admin.register(QuotaRequest)
class QuotaRequestAdmin(ReadOnlyAdmin):
    list_display = ["id", "created", "tenant", "scope", "limit", "wanted", "answer"]
    list_filter = ["answer"]
    list_select_related = ["tenant"]


@admin.register(SavedView)
class SavedViewAdmin(ReadOnlyAdmin):
    list_display = ["id", "page", "name", "owner", "is_shared"]
    list_select_related = ["owner"]
