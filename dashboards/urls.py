from __future__ import annotations

from django.urls import path

from dashboards.pages.overview import overview

app_name = "dashboards"
urlpatterns = [
    path("", overview, name="overview"),
]
