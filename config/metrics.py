"""/metrics, for this machine only."""

from __future__ import annotations

from ipaddress import ip_address

from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django_prometheus.exports import ExportToDjangoView

FORWARDED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR")


def metrics(request: HttpRequest) -> HttpResponse:
    if not from_this_machine(request):
        return HttpResponseForbidden("The metrics are served to this machine only.\n", content_type="text/plain")
    response: HttpResponse = ExportToDjangoView(request)
    return response


def from_this_machine(request: HttpRequest) -> bool:
    # A proxy on this machine passes strangers on from a loopback address.
    if any(name in request.META for name in FORWARDED):
        return False
    try:
        return ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False
