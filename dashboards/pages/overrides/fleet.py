"""Overrides of all tenants: which are active, when they end, and whether they are still needed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from access.downloads import csv_download
from dashboards.forms import number_of
from dashboards.lists import Asked, Tab, asked_in, view_tabs
from dashboards.pages.overrides.timeline import timeline_of
from dashboards.pages.saved_views import view_form
from dashboards.viewer import principal_of
from quotas.keyset import count_up_to, every_row, keyset_page, sorted_by
from quotas.models import Endpoint, Override
from quotas.override_list import (
    ORDERS,
    OVERRIDE_COLUMNS,
    STATE_ORDERS,
    STATES,
    OverrideFilter,
    counts_of_states,
    override_cells,
    overrides_found,
)
from quotas.override_use import with_use
from quotas.overrides import MOST_AT_ONCE
from quotas.saved_views import may_share
from tenants.models import Tier
from tenants.scope import scoped

FILTERS = ("q", "state", "tier", "endpoint", "tenant")
DEFAULT = "current"
TABS = {
    DEFAULT: "Active and upcoming",
    "ending": "Ending soon",
    "endless": "Without an end",
    "ended": "Ended",
}
ORDER_WORDS = {
    "end": "first to end on top",
    "-end": "last to end on top",
    "start": "first to start on top",
    "-start": "last to start on top",
    "tenant": "by tenant",
    "-tenant": "by tenant, backwards",
    "created": "oldest first",
    "-created": "newest first",
}


@require_safe
def overrides(request: HttpRequest) -> HttpResponse:
    asked, now, principal = overrides_asked(request.GET), timezone.now(), principal_of(request)
    found = overrides_wanted(request, asked, now)
    page = keyset_page(found, ORDERS, order=asked.order, after=asked.after, before=asked.before)
    rows = with_use(page.rows, now)
    counts = counts_of_states(scoped(principal, Override.objects.all()), now)
    return render(
        request,
        "dashboards/overrides/page.html",
        {
            "asked": asked,
            "page": page,
            "rows": rows,
            "timeline": timeline_of(page.rows, now) if asked.one("state") != "ended" else None,
            "count": count_up_to(found),
            "counts": counts,
            "views": view_tabs("overrides", _tabs(asked, counts), asked, principal),
            "view_form": view_form(asked),
            "may_share": may_share(principal),
            "order_words": ORDER_WORDS[asked.order],
            "states": list(STATES.items()),
            "tiers": [(tier.name, tier.label or tier.name) for tier in Tier.objects.filter(retired=False)],
            "endpoints": [("*", "all endpoints"), *_endpoints()],
            "csv_address": asked.address(view=None),
            "next_address": asked.address(after=page.next),
            "previous_address": asked.address(before=page.previous),
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
def overrides_csv(request: HttpRequest) -> HttpResponseBase:
    """All overrides that match; posted with `names`, the ticked ones."""
    asked, now = overrides_asked(request.GET), timezone.now()
    found = overrides_wanted(request, asked, now, picked_overrides(request))
    lines = (override_cells(row, now) for row in every_row(found, ORDERS, asked.order))
    return csv_download(request, "overrides.csv", OVERRIDE_COLUMNS, lines)


def overrides_asked(given: QueryDict) -> Asked:
    params = given.copy()
    if params.get("state", "") not in STATES or params.get("state") == DEFAULT:
        params.pop("state", None)
    return asked_in(params, FILTERS, ORDERS, STATE_ORDERS.get(params.get("state", ""), "end"))


def overrides_wanted(
    request: HttpRequest, asked: Asked, now: datetime, numbers: Sequence[int] | None = None
) -> QuerySet[Override]:
    wanted = OverrideFilter(
        asked.one("q"),
        asked.one("state") or DEFAULT,
        asked.one("tenant"),
        asked.many("tier"),
        asked.one("endpoint"),
        numbers,
    )
    return overrides_found(scoped(principal_of(request), Override.objects.all()), wanted, now)


def picked_overrides(request: HttpRequest) -> list[int] | None:
    """The ticked rows of a bulk action. None: all that match."""
    if request.method != "POST" or request.POST.get("all") == "1":
        return None
    return [number for name in request.POST.getlist("names") if (number := number_of(name)) is not None]


def chosen_overrides(request: HttpRequest) -> list[Override]:
    """The overrides that a bulk action is posted with, in the order of the list."""
    asked, numbers = overrides_asked(request.GET), picked_overrides(request)
    found = overrides_wanted(request, asked, timezone.now(), numbers)
    return list(sorted_by(found, ORDERS, "end")[: MOST_AT_ONCE + 1])


def _endpoints() -> list[tuple[str, str]]:
    return [(name, name) for name in Endpoint.objects.filter(retired=False).values_list("name", flat=True)]


def _tabs(asked: Asked, counts: dict[str, int]) -> list[Tab]:
    def tab(state: str, label: str) -> Tab:
        href = "?" if state == DEFAULT else f"?state={state}"
        return Tab(label, href, (asked.one("state") or DEFAULT) == state, counts.get(state))

    return [tab(state, label) for state, label in TABS.items()]
