"""/metrics, for requests from this machine and for tokens with the scope `metrics`."""

from __future__ import annotations

from ipaddress import ip_address

from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.views.decorators.http import require_safe
from django_prometheus.exports import ExportToDjangoView
from prometheus_client import REGISTRY

from access.authentication import bearer_text
from access.roles import TABLE
from quotas.status.metrics_collector import StatusCollector
from tenants.scope import principal_of_text

# They are asked for at each scrape, and know nothing between two.
REGISTRY.register(StatusCollector())

FORWARDED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR")


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if not from_this_machine(request) and not has_token(request):
        return HttpResponseForbidden(
            "Metrics are served to this machine and to tokens with the scope metrics.\n", content_type="text/plain"
        )
    response: HttpResponse = ExportToDjangoView(request)
    return response


def has_token(request: HttpRequest) -> bool:
    principal = principal_of_text(bearer_text(request.headers.get("Authorization", "")))
    return principal is not None and TABLE["metrics"]["GET"].admits(principal)


def from_this_machine(request: HttpRequest) -> bool:
    # A proxy on this machine forwards other machines' requests from a loopback address.
    if any(name in request.META for name in FORWARDED):
        return False
    try:
        return ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
