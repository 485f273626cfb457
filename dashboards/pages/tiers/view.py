"""The list of tiers, and one tier with its limits and its tenants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.downloads import csv_download
from dashboards.lists import Asked, asked_of
from dashboards.pages.policies.forms import PlaceForm
from dashboards.pages.tiers.figures import TierFigures, tier_figures
from dashboards.viewer import principal_of
from quotas.policies.spec import EVERYWHERE
from tenants.scope import tenants_of

FILTERS = ("q",)
MOST_TENANTS = 25
# Unknown figures come last, whichever way one sorts.
ORDERS: dict[str, Any] = {
    "name": lambda row: row.tier.name,
    "tenants": lambda row: row.tenants,
    "limits": lambda row: len(row.limits),
    "may": lambda row: -1.0 if row.may_ask is None else row.may_ask,
    "asked": lambda row: row.asked.asked if row.asked else -1,
    "share": lambda row: row.asked.share if row.asked else -1.0,
}
HEADER = (
    "tier",
    "label",
    "description",
    "tenants",
    "limits",
    "quota",
    "rate",
    "may_ask_per_second",
    "requests_24h",
    "denied_24h",
)


@require_safe
def tiers(request: HttpRequest) -> HttpResponse:
    asked = asked_of(request, FILTERS, ORDERS, "name")
    found = tier_figures()
    people = [row for row in found.rows if not row.is_own]
    context = {
        "asked": asked,
        "rows": _wanted(found.rows, asked),
        "count": len(found.rows),
        "measured": found.measured,
        "may_ask": sum(row.may_ask or 0.0 for row in people),
        "capacity": next((row.capacity for row in people), None),
        "csv_address": asked.address(),
    }
    return render(request, "dashboards/tiers/page.html", context)


@require_safe
def tiers_csv(request: HttpRequest) -> HttpResponseBase:
    asked = asked_of(request, FILTERS, ORDERS, "name")
    return csv_download(request, "tiers.csv", HEADER, _cells(_wanted(tier_figures().rows, asked)))


def _wanted(rows: Sequence[TierFigures], asked: Asked) -> list[TierFigures]:
    words = asked.one("q").casefold()
    found = [row for row in rows if words in f"{row.tier.name} {row.tier.label} {row.tier.description}".casefold()]
    return sorted(found, key=ORDERS[asked.order.removeprefix("-")], reverse=asked.order.startswith("-"))


def _cells(rows: Sequence[TierFigures]) -> Iterator[Sequence[object]]:
    for row in rows:
        may_ask = "" if row.may_ask is None else round(row.may_ask, 3)
        counts = (row.asked.asked, row.asked.denied) if row.asked else ("", "")
        texts = (row.tier.name, row.tier.label, row.tier.description)
        yield (*texts, row.tenants, len(row.limits), row.quota, row.rate, may_ask, *counts)


@require_safe
def tier(request: HttpRequest, name: str) -> HttpResponse:
    found = tier_figures()
    row = found.named(name)
    if row is None:
        raise Http404(f"No tier is called {name}.")
    tenants = tenants_of(principal_of(request)).filter(tier=row.tier, archived_at=None, summary__isnull=False)
    context = {
        "row": row,
        "measured": found.measured,
        "tenants": tenants.select_related("summary").order_by("-summary__asked", "name")[:MOST_TENANTS],
        "form": PlaceForm(auto_id="place_%s", initial={"owner": "tier", "tier": name, "endpoint": EVERYWHERE}),
        "others": [other.tier.name for other in found.rows if other.tier.name != name and not other.is_own],
    }
    return render(request, "dashboards/tiers/tier.html", context)
