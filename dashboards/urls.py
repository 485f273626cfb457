from __future__ import annotations

from django.urls import path

from dashboards.pages.login import SignIn, SignOut
from dashboards.pages.overview import overview

app_name = "dashboards"
urlpatterns = [
    path("", overview, name="overview"),
    path("login", SignIn.as_view(), name="login"),
    path("logout", SignOut.as_view(), name="logout"),
]
