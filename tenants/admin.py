"""Read-only admin pages. Changes go through the functions in `quotas`, which write revisions."""

from __future__ import annotations

from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from tenants.models import ApiKey, ApiToken, Membership, Tenant, Tier


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # generic only in the stubs
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False


@admin.register(Tier)
class TierAdmin(ReadOnlyAdmin):
    list_display = ["name", "number", "created"]
    search_fields = ["name"]


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    list_display = ["name", "label", "tier", "timezone", "suspended"]
    list_filter = ["tier", "suspended"]
    list_select_related = ["tier"]
    search_fields = ["name", "label"]


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    list_display = ["key_id", "tenant", "label", "created", "revoked_at"]
    list_select_related = ["tenant"]
    search_fields = ["key_id", "tenant__name"]
    exclude = ["secret_hash", "secret_version", "next_hash"]


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    list_display = ["user", "role", "tenant"]
    list_filter = ["role"]
    list_select_related = ["user", "tenant"]
    search_fields = ["user__username", "tenant__name"]


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ["key_id", "label", "role", "scopes", "tenant", "author", "created", "revoked_at"]
    list_filter = ["role"]
    list_select_related = ["tenant"]
    search_fields = ["key_id", "label"]
    exclude = ["secret_hash", "secret_version", "next_hash"]
