from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from config.health import healthz
from config.metrics import metrics
from config.static import favicon

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("metrics", metrics, name="metrics"),
    path("favicon.ico", favicon, name="favicon"),
    path("admin/", admin.site.urls),
    path("v1/", include("api.v1.urls")),
    path("", include("dashboards.urls")),
]

handler400 = "config.errors.bad_request"
handler404 = "config.errors.not_found"
handler500 = "config.errors.server_error"
