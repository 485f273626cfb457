"""One endpoint: tenants by peak rate with a draggable limit, latency by load, and over-commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboards.addresses import address
from dashboards.forms import NOT_SAVED, PeriodError, bad_request, number_of, outcome_toast, period_of, told
from dashboards.pages.adaptive import endpoint_shown
from dashboards.pages.endpoint.latency import latency_figure
from dashboards.pages.endpoint.limit_line import (
    Axis,
    Holding,
    RateUnit,
    SuggestedLine,
    Trial,
    burst_for,
    burst_words,
    edit_of,
    holding_of,
    scope_words,
    suggested_line,
)
from dashboards.pages.endpoint.over_commit import over_commit_of
from dashboards.pages.endpoint.traffic import traffic_shown
from dashboards.pages.matrix.cells import without_own
from dashboards.viewer import principal_of
from headroom_edge.keys import OWN_ENDPOINTS
from quotas.changes.commit import commit
from quotas.leases import leases_on
from quotas.matrix.edit import limits_set
from quotas.matrix.queries import EVERYONE, Cell, Column, Matrix, matrix_read
from quotas.models import Endpoint
from quotas.policies.spec import Limit
from quotas.pools.queries import pools_found
from quotas.recommendations.settings import calibration_parameters
from quotas.trials.queries import trials_on
from quotas.usage.queries.busiest_tenants import BusiestTenants, busiest_tenants_read
from quotas.usage.queries.near_limits import TierUsage, tier_usage_read

FASTEST = 1e9  # requests a second
NO_ROOM = 0.15  # of the axis: a label does not fit to the left of this point


@dataclass(frozen=True, slots=True)
class EndpointTier:
    """One endpoint and one tier, with the limits and the busiest tenants."""

    endpoint: Endpoint
    matrix: Matrix
    measured: TierUsage
    tier: Column
    leaders: BusiestTenants | None

    @property
    def cell(self) -> Cell:
        found = self.matrix.cell(self.tier.tier, self.endpoint.name)
        if found is None:
            raise Http404(f"No endpoint is called {self.endpoint.name}.")
        return found

    @property
    def limits(self) -> Iterator[Limit]:
        """All that apply to a tenant of the tier without anything of its own."""
        cells = (self.cell, self.matrix.cell(EVERYONE, self.endpoint.name))
        return (one.limit for cell in cells if cell for one in (*cell.limits, *cell.inherited))

    @property
    def holding(self) -> Holding | None:
        return holding_of(self.cell, self.endpoint.default_cost)

    @property
    def unit(self) -> RateUnit:
        holding = self.holding
        return holding.unit if holding else RateUnit()

    @property
    def suggested(self) -> SuggestedLine | None:
        """What every other page suggests for this limit, in requests of the usual cost."""
        return suggested_line(self.tier.tier, self.cell, self.holding, self.endpoint.default_cost)

    @property
    def tiers(self) -> list[Column]:
        return [column for column in self.matrix.columns if column.number]


@require_safe
def endpoint(request: HttpRequest, name: str) -> HttpResponse:
    try:
        period = period_of(request, timezone.now(), default="24h")
    except PeriodError as error:
        return bad_request(request, error)
    endpoint_tier = _endpoint_tier(name, request.GET.get("tier", ""))
    context: dict[str, Any] = {
        **traffic_shown(endpoint_tier.endpoint, period, endpoint_tier.unit),
        "endpoint_tier": endpoint_tier,
        "endpoint": endpoint_tier.endpoint,
        "holding": endpoint_tier.holding,
        "trials": trials_on(endpoint=endpoint_tier.endpoint.name),
        "pools": pools_found(scope=endpoint_tier.endpoint.name),
        "leases": leases_on(endpoint_tier.endpoint.name, endpoint_tier.limits),
        **endpoint_shown(endpoint_tier.endpoint, timezone.now()),
    }
    if endpoint_tier.leaders is not None:
        held = endpoint_tier.holding.rate if endpoint_tier.holding else endpoint_tier.leaders.leaders[0].rate
        rate = _rate(request.GET.get("rate", "")) or held
        axis = Axis.of(endpoint_tier.leaders, endpoint_tier.holding, endpoint_tier.unit)
        context |= {
            "axis": axis,
            "bars": axis.bars(endpoint_tier.leaders),
            "now": axis.percent(endpoint_tier.holding.rate) if endpoint_tier.holding else "",
            "is_left": endpoint_tier.holding is not None and endpoint_tier.holding.rate < axis.top_per_second * NO_ROOM,
            "line": axis.percent(rate),
            "height": 6 + 29 * min(len(endpoint_tier.leaders.leaders), 16),
            "latency": latency_figure(endpoint_tier.endpoint, timezone.now()),
            **_tried(endpoint_tier, endpoint_tier.leaders, rate),
        }
    return render(request, "dashboards/endpoint/page.html", context)


@require_safe
def endpoint_impact(request: HttpRequest, name: str) -> HttpResponse:
    """The effect of a trial limit, requested while the line is dragged. `rate` requests in `per` seconds."""
    endpoint_tier, asked = _endpoint_tier(name, request.GET.get("tier", "")), _rate(request.GET.get("rate", ""))
    per = _rate(request.GET.get("per", "1"))
    rate = asked / per if asked and per else None
    if rate is None or endpoint_tier.leaders is None:
        return HttpResponseBadRequest(
            "rate must be a number above 0, and the tier must have traffic.", content_type="text/plain"
        )
    context = {"endpoint_tier": endpoint_tier, "endpoint": endpoint_tier.endpoint, "holding": endpoint_tier.holding}
    return render(
        request, "dashboards/endpoint/trial.html", {**context, **_tried(endpoint_tier, endpoint_tier.leaders, rate)}
    )


@require_POST
def endpoint_draft(request: HttpRequest, name: str) -> HttpResponse:
    """Saves the rate and burst as a pending change; nothing is enforced."""
    endpoint_tier, rate = _endpoint_tier(name, request.POST.get("tier", "")), _rate(request.POST.get("rate", ""))
    burst = number_of(request.POST.get("burst", ""))
    if rate is None or burst is None:
        return HttpResponseBadRequest("Enter a rate above 0 and a whole number for burst.", content_type="text/plain")
    edit = edit_of(endpoint_tier.cell, endpoint_tier.holding, rate, max(burst, 1), endpoint_tier.endpoint.default_cost)
    reason = (
        request.POST.get("reason", "").strip()
        or f"Tried on four weeks of traffic of {endpoint_tier.tier.tier} × {name}"
    )
    propose = partial(limits_set, edits=[edit], author=principal_of(request).actor, reason=reason, force=True)
    is_saved = told(request, lambda: commit(propose, "propose"), outcome_toast, NOT_SAVED)
    changes = address("dashboards:changes") if is_saved else ""
    return redirect(changes or f"{request.path.removesuffix('/draft')}?tier={endpoint_tier.tier.tier}")


def _endpoint_tier(name: str, tier: str) -> EndpointTier:
    row = Endpoint.objects.filter(name=name, retired=False).first()
    if row is None:
        raise Http404(f"No endpoint is called {name}.")
    whole, measured = matrix_read(timezone.now()), tier_usage_read()
    matrix = whole if name.startswith(OWN_ENDPOINTS) else without_own(whole)
    tiers = [column for column in matrix.columns if column.number]
    if not tiers:
        raise Http404("There are no tiers yet.")
    chosen = next((column for column in tiers if column.tier == tier), None) or _busiest(tiers, measured, name)
    return EndpointTier(row, matrix, measured, chosen, busiest_tenants_read(chosen.number, row.number))


def _busiest(tiers: list[Column], measured: TierUsage, name: str) -> Column:
    """The tier with the most denials, then the most requests."""

    def weight(column: Column) -> tuple[int, int]:
        asked = measured.asked(column.number, name)
        return (asked.denied, asked.asked) if asked else (0, 0)

    return max(tiers, key=weight)


def _tried(endpoint_tier: EndpointTier, leaders: BusiestTenants, rate: float) -> dict[str, Any]:
    parameters, suggested = calibration_parameters(), endpoint_tier.suggested
    is_suggested = suggested is not None and suggested.is_at(rate)
    burst = round(suggested.burst) if suggested and is_suggested else burst_for(leaders, rate, parameters)
    today = (
        Trial.of(leaders, endpoint_tier.holding.rate, round(endpoint_tier.holding.burst))
        if endpoint_tier.holding
        else None
    )
    return {
        "unit": endpoint_tier.unit,
        "trial": Trial.of(leaders, rate, burst),
        "burst_words": "as calibration suggests" if is_suggested else burst_words(parameters),
        "suggested": suggested,
        "is_suggested": is_suggested,
        "today": today,
        "holds": scope_words(endpoint_tier.holding),
        "over": over_commit_of(
            endpoint_tier.tiers,
            endpoint_tier.matrix,
            endpoint_tier.measured,
            endpoint_tier.endpoint,
            (endpoint_tier.tier.tier, rate),
            endpoint_tier.unit,
        ),
    }


def _rate(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found <= FASTEST else None
