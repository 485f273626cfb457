"""/metrics, for tokens with the scope `metrics` and for peers that HEADROOM_METRICS_FROM names."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.views.decorators.http import require_safe
from django_prometheus.exports import ExportToDjangoView
from prometheus_client import REGISTRY

from access.roles import TABLE
from headroom_edge.proxies import address_of
from headroom_edge.request_guard import bearer_text
from quotas.status.metrics_collector import StatusCollector
from tenants.scope import principal_of_text

# They are asked for at each scrape, and know nothing between two.
REGISTRY.register(StatusCollector())

# Proxies add these. A request that came through one is not the peer's own.
FORWARDED = ("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP", "HTTP_X_FORWARDED")


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if not is_named(request) and not has_token(request):
        return HttpResponseForbidden(
            "Metrics are served to tokens with the scope metrics; send Authorization: Bearer hr_….\n"
            "HEADROOM_METRICS_FROM may name networks that need none.\n",
            content_type="text/plain",
        )
    response: HttpResponse = ExportToDjangoView(request)
    return response


def has_token(request: HttpRequest) -> bool:
    principal = principal_of_text(bearer_text(request.headers.get("Authorization", "")))
    return principal is not None and TABLE["metrics"]["GET"].admits(principal)


def is_named(request: HttpRequest) -> bool:
    """Whether HEADROOM_METRICS_FROM names the peer, and the request is its own."""
    if any(name.startswith(FORWARDED) for name in request.META):
        return False
    address = address_of(request.META.get("REMOTE_ADDR", ""))
    return address is not None and any(address in network for network in settings.HEADROOM_METRICS_FROM)
