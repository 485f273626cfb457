"""One recommendation: its evidence, and the forms to decide on it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboards.forms import PageForm, ReasonedForm
from dashboards.pages.recommendations.card import Card, steps_of
from dashboards.pages.recommendations.figures import figures_of
from dashboards.viewer import principal_of
from headroom_edge.algorithms.base import PerWindow, format_duration
from quotas.errors import Refused
from quotas.models import Recommendation
from quotas.models.recommendation import Stage
from quotas.policies.limit_codec import algorithm_load
from quotas.policies.problems import sentence
from quotas.recommendations import lifecycle as services
from quotas.recommendations.queries import next_waiting, trial_before
from quotas.recommendations.remeasurement import recommendation_measure
from quotas.recommendations.settings import calibration_parameters
from quotas.recommendations.staleness import marked
from quotas.usage.queries.periods import period_read

MOST_TENANTS = 12


class EditForm(ReasonedForm):
    """The rate is typed in the unit that the limit is written in, such as 10 s, and read per second."""

    rate = forms.FloatField()
    burst = forms.IntegerField(min_value=1)

    def __init__(
        self, data: QueryDict | None, window: tuple[float, str], initial: dict[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=initial, auto_id="edit_%s")
        self.seconds, unit = window
        self.fields["rate"].label = f"Rate per {'second' if self.seconds == 1 else unit}"

    def clean_rate(self) -> float:
        rate: float = self.cleaned_data["rate"] / self.seconds
        if rate < services.LEAST_RATE:
            raise forms.ValidationError("Enter a rate above 0.")
        return rate


class EditWindowForm(ReasonedForm):
    """A window has a limit, and no rate of its own."""

    burst = forms.IntegerField(min_value=1)

    def __init__(self, data: QueryDict | None, window: PerWindow, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial, auto_id="edit_%s")
        self.fields["burst"].label = f"Limit per {format_duration(window.window_us)}"


class DecideForm(PageForm):
    """The comment is optional; the summary is the default reason of the revision."""

    reason = forms.CharField(
        label="Comment",
        max_length=500,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": "Kept in the history"}),
    )
    early = forms.BooleanField(required=False)


class DismissForm(ReasonedForm):
    pass


ACTIONS = ("approve", "edit", "simulate", "measure", "dismiss", "enforce", "roll-back")


@require_safe
def recommendation(request: HttpRequest, number: int) -> HttpResponse:
    return _page(request, _row(number))


@require_POST
def recommendation_decide(request: HttpRequest, number: int, action: str) -> HttpResponse:
    row = _row(number)
    if action not in ACTIONS:
        raise Http404(f"Unknown action: {action}.")
    form = _edit_form(row, request.POST) if action == "edit" else _form(action, request.POST)
    if form.is_valid():
        try:
            said = _acts(action, row, form, principal_of(request).actor)()
        except Refused as refusal:
            form.refused(refusal)
        else:
            messages.success(request, said)
            return redirect("dashboards:recommendation", number)
    return _page(request, row, {action: form})


def _acts(action: str, row: Recommendation, form: forms.Form, author: str) -> Callable[[], str]:
    fields = form.cleaned_data
    who: dict[str, Any] = {"recommendation": row.pk, "author": author}
    why: dict[str, Any] = {"reason": fields.get("reason") or ("" if row.is_edited else row.summary) or str(row)}

    def simulate() -> str:
        services.recommendation_simulate(**who)
        return "Simulated|The forecast is based on recorded traffic"

    def measure() -> str:
        done = recommendation_measure(**who)
        if done.is_over:
            return f"Nothing left to propose|{(done.problem or 'The limit fits')[:1].upper()}{done.problem[1:]}"
        return "Measured again|The forecast is based on what holds now"

    def edit() -> str:
        services.recommendation_edit(**who, **why, rate=fields.get("rate"), burst=fields["burst"])
        services.recommendation_simulate(**who)
        return "Values saved|The forecast is updated"

    def approve() -> str:
        done = services.recommendation_approve(**who, **why)
        if done.problem:
            return f"Approved, but its trial has not started|{sentence(done.problem)} It starts as soon as it can."
        return f"Approved|State: {done.get_stage_display().lower()}"

    def dismiss() -> str:
        services.recommendation_dismiss(**who, **why)
        return "Dismissed|Not proposed again for 28 days unless the evidence changes"

    def enforce() -> str:
        services.recommendation_enforce(**who, **why, early=fields["early"])
        return "Enforced|Rolled back within a week if 429s exceed the forecast"

    def roll_back() -> str:
        services.recommendation_roll_back(**who, **why)
        return "Rolled back|The previous limit applies again"

    return {
        "simulate": simulate,
        "measure": measure,
        "edit": edit,
        "approve": approve,
        "dismiss": dismiss,
        "enforce": enforce,
        "roll-back": roll_back,
    }[action]


def _row(number: int) -> Recommendation:
    row = Recommendation.objects.select_related("change").filter(pk=number).first()
    if row is None:
        raise Http404(f"No recommendation {number}.")
    return marked([row])[0]


def _page(request: HttpRequest, row: Recommendation, bound: dict[str, forms.Form] | None = None) -> HttpResponse:
    card, parameters, given = Card(row), calibration_parameters(), bound or {}
    size = card.size_then
    written = {"rate": float(f"{size.rate * card.window[0]:.6g}"), "burst": round(size.burst)} if size else None
    edit = _edit_form(row, initial=written)
    tenants = row.evidence.get("tenants", [])
    context = {
        "card": card,
        "row": row,
        "evidence": row.evidence,
        "forecast": row.forecast,
        "figures": figures_of(card),
        "steps": steps_of(
            row,
            timedelta(hours=parameters.shadow_hours),
            timedelta(days=parameters.evaluate_days),
            parameters.rollback_factor,
        ),
        "tenants": [_tenant(one, size.rate if size else 0.0, card.window[0]) for one in tenants[:MOST_TENANTS]],
        "per": card.window[1],
        "tenant_count": len(tenants),
        "excluded": [_span(one) for one in row.evidence.get("excluded", [])],
        "edit": given.get("edit", edit),
        "dismiss": given.get("dismiss", _form("dismiss")),
        "decide": next((form for name, form in given.items() if name not in ("edit", "dismiss")), DecideForm()),
        "opened": next(iter(given), ""),
        "shadow_hours": parameters.shadow_hours,
        "next": next_waiting(row.pk),
        "day": period_read("24h", "", "", timezone.now()),
        "trial": trial_before(row),
        "impact": services.recommendation_impact(row) if row.stage == Stage.SIMULATED else None,
    }
    return render(request, "dashboards/recommendations/detail.html", context, status=422 if given else 200)


def _form(action: str, data: QueryDict | None = None) -> DismissForm | DecideForm:
    return DismissForm(data, auto_id="dismiss_%s") if action == "dismiss" else DecideForm(data)


def _edit_form(
    row: Recommendation, data: QueryDict | None = None, initial: dict[str, Any] | None = None
) -> EditForm | EditWindowForm:
    current = algorithm_load(row.current)
    if isinstance(current, PerWindow):
        return EditWindowForm(data, current, initial)
    return EditForm(data, Card(row).window, initial)


def _span(one: dict[str, str]) -> dict[str, Any]:
    return {
        "start": datetime.fromisoformat(one["start"]),
        "end": datetime.fromisoformat(one["end"]),
        "why": one["why"],
    }


def _tenant(one: dict[str, Any], proposed: float, window_s: float) -> dict[str, Any]:
    peak = one.get("peak", one["rate"])
    return {**one, "share": peak / proposed if proposed else None, "in_window": one["rate"] * window_s}
