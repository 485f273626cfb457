"""The list of endpoints: requests, denials, limits, and the tier closest to its limit; those that are retired; CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards.pages.matrix.cells import MatrixCell, matrix_table
from headroom_edge.keys import OWN_ENDPOINTS
from quotas.csv_text import csv_lines
from quotas.matrix.queries import matrix_read
from quotas.models import Endpoint
from quotas.policies.spec import METHODS
from quotas.usage.queries.near_limits import RequestCounts, TierUsage, tier_usage_read

ON_A_PAGE = 200
LONGEST = 200  # of a search
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


@dataclass(frozen=True, slots=True)
class Filter:
    text: str
    service: str
    method: str
    order: str

    @classmethod
    def of(cls, request: HttpRequest) -> Filter:
        asked = request.GET
        order = asked.get("order", "")
        method = asked.get("method", "")
        return cls(
            asked.get("q", "").strip()[:LONGEST],
            asked.get("service", "")[:LONGEST],
            method if method in METHODS else "",
            order if order.removeprefix("-") in ORDERS else "-denied",
        )

    @property
    def is_set(self) -> bool:
        return bool(self.text or self.service or self.method)

    def fits(self, row: Endpoint) -> bool:
        words = self.text.casefold()
        found = words in row.name or words in f"{row.method} {row.path}".casefold()
        return found and self.method in ("", row.method) and self.service in ("", row.name.partition(":")[0])


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
    wanted = Filter.of(request)
    every = list(Endpoint.objects.order_by("name"))
    retired = [row for row in every if row.retired]
    is_retired = request.GET.get("state") == "retired"
    measured = tier_usage_read()
    listed = [row for row in every if row.retired == is_retired]
    found = [row for row in listed if wanted.fits(row)]
    rows = found if is_retired else _ordered(_rows(found, measured), wanted.order)
    page = Paginator(rows, ON_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "wanted": wanted,
        "is_retired": is_retired,
        "registered": len(every) - len(retired),
        "retired": len(retired),
        "services": sorted({row.name.partition(":")[0] for row in listed}),
        "methods": METHODS,
        "measured": measured,
        "unregistered": _unregistered(measured),
    }
    return render(request, "dashboards/endpoints/page.html", context)


@require_safe
def endpoints_csv(request: HttpRequest) -> StreamingHttpResponse:
    """The same rows, in the same order, without pages."""
    wanted, measured = Filter.of(request), tier_usage_read()
    found = [row for row in Endpoint.objects.filter(retired=False).order_by("name") if wanted.fits(row)]
    rows = _ordered(_rows(found, measured), wanted.order)
    header = ("endpoint", "method", "path", "cost", "requests_24h", "denied_24h", "tenants_24h", "limits")
    return StreamingHttpResponse(
        csv_lines(header, _cells(rows)),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="endpoints.csv"'},
    )


def _cells(rows: Sequence[EndpointRow]) -> Iterator[Sequence[object]]:
    for row in rows:
        one = row.endpoint
        figures = (row.asked.asked, row.asked.denied, row.tenants, row.limits)
        yield (one.name, one.method, one.path, one.default_cost, *figures)


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
