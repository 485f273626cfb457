"""The tenant page: denials and their causes, effective limits and their sources, overrides, and API keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards.figure import Figure
from dashboards.forms import PeriodError, ReasonedForm, bad_request, period_of
from dashboards.pages.adaptive import tenant_parts
from dashboards.pages.overrides.give import Target, override_form
from dashboards.pages.quota_requests import AnswerForm
from dashboards.pages.tenant.compare import comparison_of
from dashboards.pages.tenant.figures import burn_figure, heat_of, usage_figure
from dashboards.pages.tenant.keys import keys_of
from dashboards.pages.tenant.limits import TenantLimit, chosen_of, ladder_of, line_suggestion
from dashboards.pages.tenant.state import TenantState, counted_endpoints, tenant_state
from dashboards.viewer import principal_of
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from quotas.leases import leases_of
from quotas.models.quota_request import QuotaRequest, RequestAnswer
from quotas.overrides import override_state
from quotas.pools.queries import pools_found
from quotas.recommendations.suggestion import Suggestion
from quotas.tenant_list import overrides_of
from quotas.tenants.archive import archive_revision
from quotas.trials.queries import trials_on
from quotas.usage.queries import denial_log
from quotas.usage.queries.annotations import annotations_read
from quotas.usage.queries.calendar_quotas import BurnDown, burn_down_read
from quotas.usage.queries.denial_causes import throttled_read
from quotas.usage.queries.periods import SPANS, Period, period_read
from quotas.usage.queries.traffic import Traffic, traffic_read
from quotas.usage.queries.utilisation import hours_read
from tenants.models import Tenant
from tenants.scope import tenant_get

DAY = timedelta(days=1)
MOST_DENIALS = 12
MOST_ASKED = 5


@require_safe
def tenant(request: HttpRequest, name: str) -> HttpResponse:
    now = timezone.now()
    try:
        period = period_of(request, now, default="6h")
    except PeriodError as error:
        return bad_request(request, error)
    state = tenant_state(tenant_get(principal_of(request), name), now)
    compared = comparison_of(state.tenant, request.GET.get("with", ""), now)
    lines = compared.beside(state.lines)
    chosen = chosen_of(lines, request.GET.get("endpoint", ""), request.GET.get("limit", ""))
    traffic = traffic_read(period, owners=[state.tenant.number])
    own = traffic_read(period, owners=[state.tenant.number], **_counted(chosen, state)) if chosen else traffic
    context = {
        "tenant": state.tenant,
        "standing": state.standing,
        "lines": lines,
        "chosen": chosen,
        "compared": compared,
        "traffic": traffic,
        "period": period,
        "day": period_read("24h", "", "", now),
        "spans": SPANS,
        "span": period.span,
        "figure": _usage(chosen, own, period, state.tenant) if chosen else None,
        "ladder": ladder_of(chosen, lines) if chosen else (),
        "throttled": throttled_read(period, tenant=state.tenant.number, most=3),
        **_below(state),
        **_sparks(traffic),
        **Target([state.tenant]).context,
        **override_form(lines, chosen, state.tenant),
        **_blank_forms(state.tenant),
        "asked": _asked(state),
        "trials": trials_on(tier=state.tenant.tier.name, tenant=state.tenant.name),
        "pools": pools_found(tenant=state.tenant),
        "leases": leases_of(line.effective for line in lines),
        "adaptive": tenant_parts(state.tenant, now),
    }
    return render(request, "dashboards/tenant/page.html", context)


def _usage(chosen: TenantLimit, own: Traffic, period: Period, row: Tenant) -> Figure:
    notes = f"{reverse('dashboards:chart-notes')}?tenant={row.name}"
    return usage_figure(chosen, own, annotations_read(period, row), "c-8", notes)


def _counted(chosen: TenantLimit | None, state: TenantState) -> dict[str, Any]:
    if chosen is None or chosen.effective.is_global:
        return {}
    return {"endpoints": counted_endpoints(chosen, state), "unit": chosen.limit.unit}


def _below(state: TenantState) -> dict[str, Any]:
    row, now = state.tenant, state.now
    burn = _burn_down(state)
    found = denial_log.denials_read(denial_log.DenialFilter(tenant=row.name), most=MOST_DENIALS)
    rows = overrides_of(row.number, now)
    return {
        "heat": heat_of(hours_read(row.number, now - 28 * DAY, now), row.timezone, now),
        "quota": burn,
        "burn": burn_figure(*burn) if burn else None,
        **keys_of(row, state.lines, now),
        "denials": list(zip(found.denials, denial_log.limits_set_by(found.denials), strict=True)),
        "overrides": [(each, override_state(each, now), ReasonedForm(auto_id=f"end-{each.pk}-%s")) for each in rows],
        "active": sum(override_state(each, now) == "active" for each in rows),
    }


def _burn_down(state: TenantState) -> tuple[TenantLimit, BurnDown] | None:
    quotas = [line for line in state.lines if isinstance(line.limit.algorithm, CalendarQuota)]
    line = next((each for each in quotas if not each.effective.is_global and str(each.limit.subject) == "tenant"), None)
    if line is None or not isinstance(line.limit.algorithm, CalendarQuota):
        return None
    return line, burn_down_read(
        line.limit.algorithm,
        tenant=state.tenant.number,
        endpoints=counted_endpoints(line, state),
        zone=state.tenant.timezone,
        unit=line.limit.unit,
        used=state.counters.get((line.scope, line.limit.name)),
        now=state.now,
    )


def _asked(state: TenantState) -> list[tuple[QuotaRequest, AnswerForm, Suggestion | None]]:
    waiting = QuotaRequest.objects.filter(tenant=state.tenant, answer=RequestAnswer.WAITING).order_by("pk")
    lines = {line.key: line for line in state.lines}
    return [
        (
            each,
            AnswerForm(auto_id=f"answer-{each.pk}-%s"),
            line_suggestion(line, state.tenant) if (line := lines.get(f"{each.scope}|{each.limit}")) else None,
        )
        for each in waiting[:MOST_ASKED]
    ]


def _blank_forms(row: Tenant) -> dict[str, Any]:
    return {
        "override_title": f"Add override for {row.name}",
        "switch_form": ReasonedForm(auto_id="switch_%s"),
        "restore_form": ReasonedForm(auto_id="restore_%s"),
        "archived_in": archive_revision(row) if row.archived_at else None,
    }


def _sparks(traffic: Traffic) -> dict[str, Any]:
    return {
        "asked_spark": [moment.rate(moment.asked) for moment in traffic.moments],
        "denied_spark": [moment.rate(moment.denied) for moment in traffic.moments],
    }
