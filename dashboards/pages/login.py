"""Signing in and out. The tries are counted before this is reached (access.gate), by Headroom itself."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.shortcuts import resolve_url

from tenants.scope import principal_of_user


class SignIn(LoginView):
    template_name = "dashboards/login.html"
    redirect_authenticated_user = True
    http_method_names = ["get", "head", "post"]

    def get_success_url(self) -> str:
        """The overview is not for a tenant's user, who has a page of their own."""
        wanted = super().get_success_url()
        principal = principal_of_user(self.request.user)
        is_tenants = principal is not None and principal.tenant is not None
        return (
            resolve_url("dashboards:portal") if is_tenants and wanted == resolve_url("dashboards:overview") else wanted
        )


class SignOut(LogoutView):
    http_method_names = ["post"]
