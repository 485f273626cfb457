"""Signing in and out. The tries are counted before this is reached (api.gate), by Headroom itself."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView


class SignIn(LoginView):
    template_name = "dashboards/login.html"
    redirect_authenticated_user = True
    http_method_names = ["get", "head", "post"]


class SignOut(LogoutView):
    http_method_names = ["post"]
