"""The list of endpoints: requests, denials, limits, and the tier closest to its limit; those that are retired; CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from access.downloads import csv_download
from dashboards.lists import Asked, asked_of
from dashboards.pages.matrix.cells import MatrixCell, matrix_table
from headroom_edge.keys import OWN_ENDPOINTS
from quotas.matrix.queries import matrix_read
from quotas.models import Endpoint
from quotas.policies.spec import METHODS
from quotas.usage.queries.near_limits import RequestCounts, TierUsage, tier_usage_read

FILTERS = ("q", "service", "method", "state")
DEFAULT = "-denied"
ON_A_PAGE = 200
UNREGISTERED = 0  # the number under which requests of no endpoint are counted


@dataclass(frozen=True, slots=True)
class EndpointRow:
    endpoint: Endpoint
    asked: RequestCounts  # all tiers, 24 h
    tenants: int
    limits: int  # of tiers and of everyone
    nearest: MatrixCell | None  # the cell closest to its limit

    @property
    def is_own(self) -> bool:
        """One of Headroom's own, which it keeps registered itself."""
        return self.endpoint.name.startswith(OWN_ENDPOINTS)


def _fits(asked: Asked, row: Endpoint) -> bool:
    words, services, methods = asked.one("q").casefold(), asked.many("service"), asked.many("method")
    found = words in row.name or words in f"{row.method} {row.path}".casefold()
    return found and (not methods or row.method in methods) and (not services or row.name.partition(":")[0] in services)


# Each begins with what is asked for and ends with the name, so that the order is the same every time.
ORDERS: dict[str, Any] = {
    "name": lambda row: row.endpoint.name,
    "cost": lambda row: row.endpoint.default_cost,
    "asked": lambda row: row.asked.asked,
    "denied": lambda row: (row.asked.denied, row.asked.asked),
    "share": lambda row: row.asked.share,
    "tenants": lambda row: row.tenants,
    "limits": lambda row: row.limits,
}


@require_safe
def endpoints(request: HttpRequest) -> HttpResponse:
    asked = asked_of(request, FILTERS, ORDERS, DEFAULT)
    every = list(Endpoint.objects.order_by("name"))
    retired = [row for row in every if row.retired]
    is_retired = asked.one("state") == "retired"
    measured = tier_usage_read()
    listed = [row for row in every if row.retired == is_retired]
    found = [row for row in listed if _fits(asked, row)]
    rows = found if is_retired else _ordered(_rows(found, measured), asked.order)
    page = Paginator(rows, ON_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "asked": asked,
        "is_searched": any(asked.one(name) for name in FILTERS if name != "state"),
        "csv_address": asked.address(state=None),
        "is_retired": is_retired,
        "registered": len(every) - len(retired),
        "retired": len(retired),
        "services": [(name, name) for name in sorted({row.name.partition(":")[0] for row in listed})],
        "methods": [(name, "Any" if name == "*" else name) for name in METHODS],
        "measured": measured,
        "unregistered": _unregistered(measured),
    }
    return render(request, "dashboards/endpoints/page.html", context)


@require_safe
def endpoints_csv(request: HttpRequest) -> HttpResponseBase:
    """The same rows, in the same order, without pages."""
    asked, measured = asked_of(request, FILTERS, ORDERS, DEFAULT), tier_usage_read()
    found = [row for row in Endpoint.objects.filter(retired=False).order_by("name") if _fits(asked, row)]
    rows = _ordered(_rows(found, measured), asked.order)
    header = ("endpoint", "method", "path", "cost", "requests_24h", "denied_24h", "tenants_24h", "limits", "priority")
    return csv_download(request, "endpoints.csv", header, _cells(rows))


def _cells(rows: Sequence[EndpointRow]) -> Iterator[Sequence[object]]:
    for row in rows:
        one = row.endpoint
        figures = (row.asked.asked, row.asked.denied, row.tenants, row.limits)
        yield (one.name, one.method, one.path, one.default_cost, *figures, one.priority)


def _rows(found: Sequence[Endpoint], measured: TierUsage) -> list[EndpointRow]:
    matrix = matrix_table(matrix_read(timezone.now()), measured)
    cells = {line.line.scope: line.cells for line in matrix.lines}
    rows = []
    for endpoint in found:
        uses = [row for (_, number), row in measured.rows.items() if number == endpoint.number]
        asked = RequestCounts(sum(row.asked for row in uses), sum(row.denied for row in uses))
        own = cells.get(endpoint.name, ())
        limits = sum(len(cell.cell.limits) for cell in own)
        rows.append(EndpointRow(endpoint, asked, sum(row.tenants for row in uses), limits, _nearest(own)))
    return rows


def _ordered(rows: list[EndpointRow], order: str) -> list[EndpointRow]:
    rows.sort(key=ORDERS[order.removeprefix("-")], reverse=order.startswith("-"))
    return rows


def _nearest(cells: Sequence[MatrixCell]) -> MatrixCell | None:
    used = [cell for cell in cells if cell.use is not None]
    return max(used, key=lambda cell: cell.use.share if cell.use else 0.0, default=None)


def _unregistered(measured: TierUsage) -> int:
    return sum(row.asked for (_, number), row in measured.rows.items() if number == UNREGISTERED)
