from __future__ import annotations

from django.urls import path

from dashboards.pages.decisions import decisions, decisions_new
from dashboards.pages.live import live
from dashboards.pages.login import SignIn, SignOut
from dashboards.pages.overview import overview
from dashboards.pages.palette import palette
from dashboards.pages.tester import tester

app_name = "dashboards"
urlpatterns = [
    path("", overview, name="overview"),
    path("decisions", decisions, name="decisions"),
    path("decisions/new", decisions_new, name="decisions-new"),
    path("tester", tester, name="tester"),
    path("palette", palette, name="palette"),
    path("live", live, name="live"),
    path("login", SignIn.as_view(), name="login"),
    path("logout", SignOut.as_view(), name="logout"),
]
