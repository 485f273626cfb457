"""The list of tenants: searched, filtered, sorted, in views, with actions on many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from access.downloads import csv_download
from dashboards.lists import Asked, Tab, asked_in, view_tabs
from dashboards.pages.saved_views import view_form
from dashboards.viewer import principal_of
from quotas.keyset import count_up_to, every_row, keyset_page
from quotas.saved_views import may_share
from quotas.tenant_list import (
    LONGEST_SEARCH,
    ORDERS,
    STATE_ORDERS,
    STATES,
    TENANT_COLUMNS,
    TenantFilter,
    counts_of_states,
    tenant_cells,
    tenants_found,
    with_figures,
)
from quotas.tenant_summary import last_run
from tenants.models import Tenant, Tier
from tenants.scope import tenants_of

FILTERS = ("q", "tier", "state", "tag")
TABS = {
    "": "All",
    "denied": "Denied",
    "override": "With override",
    "idle": "No requests in 7 days",
    "suspended": "Suspended",
    "archived": "Archived",
}
ORDER_WORDS = {
    "name": "by name",
    "-name": "by name, backwards",
    "tier": "by tier",
    "-tier": "by tier, backwards",
    "asked": "least asked first",
    "-asked": "most asked first",
    "denied": "least denied first",
    "-denied": "most denied first",
    "share": "lowest 429 share first",
    "-share": "highest 429 share first",
    "use": "most room first",
    "-use": "closest to a limit first",
    "last": "longest silent first",
    "-last": "last seen first",
    "created": "oldest first",
    "-created": "newest first",
}


@require_safe
def tenants(request: HttpRequest) -> HttpResponse:
    asked, now = tenants_asked(request.GET), timezone.now()
    principal = principal_of(request)
    found = tenants_wanted(request, asked, now)
    page = keyset_page(found, ORDERS, order=asked.order, after=asked.after, before=asked.before)
    counts = counts_of_states(now)
    views = view_tabs("tenants", _tabs(asked, counts), asked, principal)
    run = last_run()
    is_plain = not (set(asked.filters) - {"state"}) and asked.one("state") in counts
    return render(
        request,
        "dashboards/tenants.html",
        {
            "asked": asked,
            "page": page,
            "rows": with_figures(page.rows, now),
            "count": counts[asked.one("state")] if is_plain else count_up_to(found),
            "measured_at": run.measured_at if run else None,
            "views": views,
            "view_form": view_form(asked),
            "may_share": may_share(principal),
            "order_words": ORDER_WORDS[asked.order],
            "tiers": [(tier.name, tier.label or tier.name) for tier in Tier.objects.filter(retired=False)],
            "states": list(STATES.items()),
            "tags": _tags(run.tags if run else [], page.rows),
            "csv_address": asked.address(view=None),
            "next_address": asked.address(after=page.next),
            "previous_address": asked.address(before=page.previous),
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
def tenants_csv(request: HttpRequest) -> HttpResponseBase:
    """All tenants that match; posted with `names`, the ticked ones."""
    asked, now = tenants_asked(request.GET), timezone.now()
    found = tenants_wanted(request, asked, now, names=picked(request))
    return csv_download(request, "tenants.csv", TENANT_COLUMNS, _lines(found, asked.order, now))


def tenants_asked(given: QueryDict) -> Asked:
    """Reads old addresses too: `only` was the state."""
    params = given.copy()
    if "only" in params and "state" not in params:
        params["state"] = params.get("only", "")
    if params.get("state", "") not in STATES:
        params.pop("state", None)
    return asked_in(params, FILTERS, ORDERS, STATE_ORDERS.get(params.get("state", ""), "name"))


def tenants_wanted(
    request: HttpRequest, asked: Asked, now: datetime, names: Sequence[str] | None = None
) -> QuerySet[Tenant]:
    """The tenants that a list's address asks for, or those of them that are ticked."""
    wanted = TenantFilter(
        asked.one("q")[:LONGEST_SEARCH], asked.many("tier"), asked.one("state"), asked.one("tag"), names
    )
    return tenants_found(tenants_of(principal_of(request)), wanted, now, by_staff=True)


def picked(request: HttpRequest) -> list[str] | None:
    """The ticked rows of a bulk action. None: all that match."""
    return None if request.method != "POST" or request.POST.get("all") == "1" else request.POST.getlist("names")


def chosen_tenants(request: HttpRequest, most: int) -> list[str]:
    """The names that a bulk action is posted with; one more than `most` if there are more."""
    if (names := picked(request)) is not None:
        return list(dict.fromkeys(names))
    found = tenants_wanted(request, tenants_asked(request.GET), timezone.now())
    return list(found.order_by("name").values_list("name", flat=True)[: most + 1])


def _lines(found: QuerySet[Tenant], order: str, now: datetime) -> Iterator[Sequence[object]]:
    return (tenant_cells(tenant, now) for tenant in every_row(found, ORDERS, order))


def _tags(measured: Sequence[str], shown: Sequence[Tenant]) -> list[tuple[str, str]]:
    """Those in use a minute ago, and those on this page, which may be new."""
    found = dict.fromkeys([*measured, *(tag for tenant in shown for tag in tenant.tags)])
    return [(tag, tag) for tag in sorted(found)]


def _tabs(asked: Asked, counts: dict[str, int]) -> list[Tab]:
    def tab(state: str, label: str) -> Tab:
        return Tab(label, f"?state={state}" if state else "?", asked.one("state") == state, counts[state])

    return [tab(state, label) for state, label in TABS.items()]
