"""The portal for tenant users: their limits, what is left, how to read the headers, and requests for more quota."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboards.forms import MomentField, PageForm, PeriodError, bad_request, in_zone, period_of
from dashboards.limit_steps import changed_within
from dashboards.pages.tenant.figures import steps_of, usage_figure
from dashboards.pages.tenant.limits import TenantLimit, chosen_of, line_suggestion
from dashboards.pages.tenant.state import TenantState, counted_endpoints, tenant_state
from dashboards.viewer import principal_of
from headroom_edge.algorithms.base import Window
from headroom_edge.algorithms.sharing import Borrowing
from quotas.errors import Refused
from quotas.models.quota_request import QuotaRequest
from quotas.policies.allowance import parameters_of
from quotas.policies.limit_words import compact
from quotas.quota_requests import quota_request_create
from quotas.recommendations.suggestion import Suggestion
from quotas.usage.queries.annotations import Annotation
from quotas.usage.queries.denial_causes import throttled_read
from quotas.usage.queries.denial_log import DenialFilter, cause_words, denials_read
from quotas.usage.queries.periods import SPANS, Period
from quotas.usage.queries.traffic import traffic_read
from tenants.models import Tenant
from tenants.scope import tenant_get

MOST_REQUESTS = 10
CLOSE = 0.8
MANY = 100_000


class AskForm(PageForm):
    place = forms.CharField(label="Limit", widget=forms.Select)
    wanted = forms.IntegerField(label="Amount", min_value=1, error_messages={"required": "Enter a whole number."})
    until = MomentField(label="Until", required=False)
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))
    reason = forms.CharField(
        label="Reason",
        max_length=500,
        widget=forms.Textarea({"rows": 3, "placeholder": "Why you need more, and for how long"}),
        error_messages={"required": "Enter a reason. It makes approval more likely."},
    )

    fields_of: ClassVar[dict[str, str]] = {"limit": "place", "scope": "place"}

    def __init__(self, lines: Sequence[TenantLimit], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="ask_%s", **kwargs)
        self.lines = {line.key: line for line in lines}
        choices = [(line.key, f"{where(line)}: {line.limit.name}, {line.short}") for line in lines]
        self.fields["place"].widget = forms.Select({"class": "select"}, choices)


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit with what was left at the peak."""

    line: TenantLimit

    @property
    def place(self) -> str:
        return where(self.line)

    @property
    def state(self) -> str:
        share = self.line.use.share
        if share is None:
            return "unknown"
        return "over" if share >= 1 else "close" if share >= CLOSE else "within"

    @property
    def left(self) -> str:
        use, allowance = self.line.use, self.line.allowance
        if use.share is None or use.peak is None or allowance is None:
            return self.line.use.why_not
        gap = allowance.units - use.peak
        unit = f"{'req' if self.line.limit.unit == 'requests' else 'units'}/{allowance.window_words}"
        return f"{_amount(abs(gap))} {unit} {'left' if gap >= 0 else 'over the limit'} at the peak"


def _amount(value: float) -> str:
    """Rounded for reading: 9.2M, 150k, 1,234."""
    if value >= MANY:
        return f"{value / 1e6:,.1f}M" if value >= 1e6 else f"{value / 1e3:,.0f}k"
    return compact(round(value)) if value >= 100 else f"{value:.3g}"


def where(line: TenantLimit) -> str:
    return "all endpoints" if line.scope == "*" else line.scope


@require_safe
def portal(request: HttpRequest) -> HttpResponse:
    row = _whose(request)
    if row is None:
        return redirect("dashboards:tenants")
    state = tenant_state(row, timezone.now())
    line = _chosen(request, state)
    found = line_suggestion(line, state.tenant) if line else None
    return _page(request, state, AskForm(_own(state), initial=_initial(line, found)), found)


@require_POST
def portal_ask(request: HttpRequest) -> HttpResponse:
    row = _whose(request)
    if row is None:
        return redirect("dashboards:tenants")
    state = tenant_state(row, timezone.now())
    form = AskForm(_own(state), request.POST)
    if form.is_valid():
        try:
            _ask(request, row, form)
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, "Request sent|The answer will appear on this page")
            return redirect("dashboards:portal")
    return _page(request, state, form, None, status=422)


def _whose(request: HttpRequest) -> Tenant | None:
    """The user's own tenant. Staff can view the portal of any tenant."""
    principal = principal_of(request)
    if principal.tenant is not None:
        return principal.tenant
    name = request.GET.get("tenant", "")
    return tenant_get(principal, name) if name else None


def _own(state: TenantState) -> list[TenantLimit]:
    """Without global limits, which tenants should not see."""
    return [line for line in state.lines if not line.effective.is_global and line.limit.mode == "enforce"]


def _chosen(request: HttpRequest, state: TenantState) -> TenantLimit | None:
    return chosen_of(_own(state), request.GET.get("endpoint", ""), request.GET.get("limit", ""))


def _initial(line: TenantLimit | None, found: Suggestion | None) -> dict[str, Any]:
    """Nobody is asked to want more than was measured."""
    measured = {"wanted": _whole(found)} if found and found.needed is not None else {}
    return {"place": line.key, **measured} if line else {}


def _whole(found: Suggestion) -> int:
    return ceil(parameters_of(found.algorithm)[0].held)


def _ask(request: HttpRequest, row: Tenant, form: AskForm) -> QuotaRequest:
    data = form.cleaned_data
    scope, _, limit = data["place"].partition("|")
    line = form.lines.get(data["place"])
    return quota_request_create(
        tenant=row.name,
        scope=scope,
        limit=limit,
        wanted=data["wanted"],
        until=in_zone(data["until"], data["zone"] or row.timezone),
        reason=data["reason"],
        author=principal_of(request).actor,
        usage=_usage(line) if line else {},
    )


def _usage(line: TenantLimit) -> dict[str, Any]:
    """The current use, stored with the request."""
    use = line.use
    return {"held": str(line.short), "peak": use.peak, "share": use.share, "denied_share": line.denied_share}


def _changes(line: TenantLimit, period: Period) -> list[Annotation]:
    """When this limit changed. Who changed it and why is not a tenant's to read."""
    return [Annotation(at, "limit changed", "") for at in changed_within(steps_of(line), period)]


def _why(limit: str, own: Sequence[TenantLimit], tenant: str) -> str:
    """Why a limit that borrows denied last. Empty for others: they are used up."""
    if not any(line.limit.name == limit and isinstance(line.limit.algorithm, Borrowing) for line in own):
        return ""
    newest = denials_read(DenialFilter(tenant=tenant, limit=limit), most=1).denials
    return cause_words(limit, newest[0].cause, newest[0].share, whose="your") if newest and newest[0].cause else ""


def _page(
    request: HttpRequest, state: TenantState, form: AskForm, suggestion: Suggestion | None, status: int = 200
) -> HttpResponse:
    try:
        period = period_of(request, state.now, default="6h")
    except PeriodError as error:
        return bad_request(request, error)
    own = _own(state)
    chosen = _chosen(request, state)
    number = state.tenant.number
    traffic = (
        traffic_read(period, owners=[number], endpoints=counted_endpoints(chosen, state), unit=chosen.limit.unit)
        if chosen
        else None
    )
    throttled = throttled_read(period, tenant=number, most=1)
    context = {
        "tenant": state.tenant,
        "limits": [LimitRow(line) for line in own],
        "chosen": chosen,
        "figure": usage_figure(chosen, traffic, _changes(chosen, period)) if chosen and traffic else None,
        "window": chosen.limit.algorithm.window if chosen else Window(1, 1),
        "held": parameters_of(chosen.limit.algorithm)[0].held if chosen else 0,
        "throttled": throttled,
        "why": _why(throttled[0].limit, own, state.tenant.name) if throttled else "",
        "period": period,
        "spans": SPANS,
        "span": period.span,
        "form": form,
        "suggestion": suggestion,
        "requests": QuotaRequest.objects.filter(tenant=number).select_related("override")[:MOST_REQUESTS],
        "is_own": principal_of(request).tenant is not None,
    }
    return render(request, "dashboards/portal.html", context, status=status)
