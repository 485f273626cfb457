"""The list of endpoints: requests, denials, and the tier closest to its limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards.pages.matrix.cells import MatrixCell, matrix_table
from quotas.matrix.queries import matrix_read
from quotas.models import Endpoint
from quotas.usage.queries.near_limits import RequestCounts, tier_usage_read


@dataclass(frozen=True, slots=True)
class EndpointRow:
    endpoint: Endpoint
    asked: RequestCounts  # all tiers, 24 h
    tenants: int
    nearest: MatrixCell | None  # the cell closest to its limit

    @property
    def rate(self) -> float:
        """Mean requests per second over the day."""
        return self.asked.asked / 86_400


@require_safe
def endpoints(request: HttpRequest) -> HttpResponse:
    measured = tier_usage_read()
    matrix = matrix_table(matrix_read(timezone.now()), measured)
    cells = {line.line.scope: line.cells for line in matrix.lines}
    rows = []
    for endpoint in Endpoint.objects.filter(retired=False).order_by("name"):
        uses = [row for (_, number), row in measured.rows.items() if number == endpoint.number]
        asked = RequestCounts(sum(row.asked for row in uses), sum(row.denied for row in uses))
        rows.append(EndpointRow(endpoint, asked, sum(row.tenants for row in uses), _nearest(cells[endpoint.name])))
    rows.sort(key=lambda row: (-row.asked.denied, -row.asked.asked, row.endpoint.name))
    return render(request, "dashboards/endpoints.html", {"rows": rows, "measured": measured})


def _nearest(cells: Sequence[MatrixCell]) -> MatrixCell | None:
    used = [cell for cell in cells if cell.use is not None]
    return max(used, key=lambda cell: cell.use.share if cell.use else 0.0, default=None)
