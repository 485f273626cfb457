from __future__ import annotations

from django.urls import path

from api.v1 import converters, tenants, tiers
from api.v1.schema import Docs, Schema

converters.register()

app_name = "v1"
urlpatterns = [
    path("schema", Schema.as_view(), name="schema"),
    path("docs", Docs.as_view(), name="docs"),
    path("tiers", tiers.TierList.as_view(), name="tiers"),
    path("tiers/<word:name>", tiers.TierDetail.as_view(), name="tier"),
    path("tenants", tenants.TenantList.as_view(), name="tenants"),
    path("tenants/<tenant:name>", tenants.TenantDetail.as_view(), name="tenant"),
    path("tenants/<tenant:name>/move", tenants.TenantMoveView.as_view(), name="tenant-move"),
    path("tenants/<tenant:name>/suspend", tenants.TenantSuspend.as_view(), name="tenant-suspend"),
    path("tenants/<tenant:name>/resume", tenants.TenantResume.as_view(), name="tenant-resume"),
]
