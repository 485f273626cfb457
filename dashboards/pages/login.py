"""Sign-in and sign-out. access.gate limits the attempts before they reach this module."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.shortcuts import resolve_url

from tenants.scope import principal_of_user


class SignIn(LoginView):
    template_name = "dashboards/login.html"
    redirect_authenticated_user = True
    http_method_names = ["get", "head", "post"]

    def get_success_url(self) -> str:
        """Tenant users may not see the overview; they go to the portal."""
        wanted = super().get_success_url()
        principal = principal_of_user(self.request.user)
        is_tenants = principal is not None and principal.tenant is not None
        return (
            resolve_url("dashboards:portal") if is_tenants and wanted == resolve_url("dashboards:overview") else wanted
        )


class SignOut(LogoutView):
    http_method_names = ["post"]
