"""The list of tenants, paged and filtered."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards.viewer import principal_of
from quotas.tenant_list import TenantFilter, tenants_listed
from quotas.usage.queries.periods import period_read
from tenants.models import Tier
from tenants.scope import tenants_of

VIEWS = {
    "": ("All", "by name"),
    "denied": ("Denied", "in the last 24 hours, most denied first"),
    "override": ("With override", "active now"),
    "suspended": ("Suspended", "all requests denied"),
}


@require_safe
def tenants(request: HttpRequest) -> HttpResponse:
    asked = request.GET
    only = asked.get("only", "")
    wanted = TenantFilter(
        beginning=asked.get("q", "").strip().lower()[:63],
        tier=asked.get("tier", ""),
        only=only if only in VIEWS else "",
        after=asked.get("after", "")[:63],
    )
    now = timezone.now()
    period = period_read("24h", "", "", now)
    page = tenants_listed(tenants_of(principal_of(request)), wanted, period, now)
    return render(
        request,
        "dashboards/tenants.html",
        {
            "page": page,
            "wanted": wanted,
            "views": VIEWS,
            "note": VIEWS[wanted.only][1],
            "tiers": Tier.objects.values_list("name", flat=True),
            "is_filtered": bool(wanted.beginning or wanted.tier or wanted.only),
        },
    )
