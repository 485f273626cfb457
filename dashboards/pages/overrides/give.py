"""Adding and ending overrides of a tenant, with a dry run while the user types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import ceil
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboards.forms import MomentField, ReasonedForm, in_zone, outcome_toast, sentences_of
from dashboards.pages.tenant.limits import TenantLimit, chosen_of
from dashboards.pages.tenant.state import tenant_state
from dashboards.viewer import principal_of
from quotas.changes.commit import Outcome, commit
from quotas.errors import Refused
from quotas.overrides import override_cancel, override_create
from quotas.policies.allowance import parameters_of
from quotas.policies.diff import ObjectDiff
from quotas.recommendations.settings import calibration_parameters
from tenants.models import Tenant
from tenants.scope import tenant_get

STEP_UP = 1.5  # if the peak is unknown or already fits
UNITS = {"s": "second", "min": "minute", "h": "hour", "d": "day"}


class OverrideForm(ReasonedForm):
    place = forms.CharField(label="Limit", widget=forms.Select)
    main = forms.IntegerField(label="Limit", min_value=1, error_messages={"required": "Enter a whole number."})
    size = forms.IntegerField(label="Burst", min_value=1, required=False)
    starts = MomentField(label="Starts", required=False)
    ends = MomentField(label="Ends", required=False)
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))
    force = forms.BooleanField(label="Apply anyway: I have reviewed these cuts", required=False)

    fields_of: ClassVar[dict[str, str]] = {
        "rate": "main",
        "limit": "main",
        "burst": "size",
        "queue": "size",
        "start": "starts",
        "end": "ends",
        "endpoint": "place",
    }

    def __init__(self, lines: Sequence[TenantLimit], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="o_%s", **kwargs)
        own = [line for line in lines if not line.effective.is_global]
        self.lines = {line.key: line for line in own}
        self.fields["place"].widget.choices = [(line.key, f"{_where(line)}: {line.limit.name}") for line in own]

    @property
    def line(self) -> TenantLimit | None:
        return self.lines.get(str(self["place"].value()))

    def moment(self, name: str) -> datetime | None:
        """The field has no zone; it is in the viewer's."""
        return in_zone(self.cleaned_data.get(name), self.cleaned_data.get("zone", ""))

    def changed_fields(self) -> dict[str, int]:
        line = self.line
        if line is None:
            return {}
        main, size = parameters_of(line.limit.algorithm)
        wanted = {main.name: self.cleaned_data["main"]}
        if size and self.cleaned_data.get("size"):
            wanted[size.name] = self.cleaned_data["size"]
        return wanted


def override_form(lines: Sequence[TenantLimit], chosen: TenantLimit | None) -> dict[str, Any]:
    """The context of a newly opened dialog."""
    own = [line for line in lines if not line.effective.is_global]
    line = chosen if chosen in own else next(iter(own), None)
    words = _words(line)
    return {"form": OverrideForm(lines, initial=words.get("suggestion")), "line": line, **words}


def _words(line: TenantLimit | None) -> dict[str, Any]:
    if line is None:
        return {}
    main, size = parameters_of(line.limit.algorithm)
    unit = line.short.main.partition("/")[2]
    return {
        "held_main": main.held,
        "held_size": size.held if size else None,
        "size_label": size.name.capitalize() if size else "",
        "has_size": size is not None,
        "unit": UNITS.get(unit, unit) or "at once",
        "suggestion": _suggested(line),
    }


def _suggested(line: TenantLimit) -> dict[str, Any]:
    """Enough for the measured peak, with calibration's margin; if that already fits, one step up."""
    main, size = parameters_of(line.limit.algorithm)
    is_measured = line.use.peak is not None and line.use.share is not None
    peak = calibration_parameters().margin * (line.use.peak or 0.0) if is_measured else 0.0
    most = _round(peak if peak > main.held else STEP_UP * main.held)
    found: dict[str, Any] = {"place": line.key, "main": most}
    if size:
        found["size"] = max(_round(size.held * most / main.held), size.held)
    return found


def _round(value: float) -> int:
    """Rounded up to two significant digits."""
    digits = max(len(str(int(value))) - 2, 0)
    unit = int(10**digits)
    return max(1, ceil(value / unit) * unit)


def _where(line: TenantLimit) -> str:
    return "all endpoints" if line.scope == "*" else line.scope


@require_safe
def override_new(request: HttpRequest, name: str) -> HttpResponse:
    """The form after the user selected another limit."""
    row = tenant_get(principal_of(request), name)
    state = tenant_state(row, timezone.now())
    scope, _, limit = request.GET.get("place", "").partition("|")
    chosen = chosen_of(state.lines, scope, limit)
    return _shown(request, row, override_form(state.lines, chosen))


@require_POST
def override_preview(request: HttpRequest, name: str) -> HttpResponse:
    """A dry run of the override. Nothing is saved, and a missing reason is not an error yet."""
    row, form = _posted(request, name)
    found: Outcome[object] | None = None
    problems: list[str] = []
    if form.is_valid() or set(form.errors) <= {"reason"}:
        try:
            preview = partial(_create, request, row, form, "dry run", force=True)
            found = commit(preview, "dry_run")
        except Refused as refused:
            problems = sentences_of(refused)
    context = {
        "found": found,
        "changes": _limits_only(found.effect.changes) if found else (),
        "problems": problems,
        "line": form.line,
        "wanted": form.cleaned_data.get("main"),
    }
    return render(request, "dashboards/parts/dry_run.html", context)


def _limits_only(changes: Iterable[ObjectDiff]) -> list[ObjectDiff]:
    """Only the changed limits: the dialog already shows the tenant and the author."""
    return [
        replace(change, fields=tuple(field for field in change.fields if field.path.startswith("limits.")))
        for change in changes
    ]


@require_POST
def override_give(request: HttpRequest, name: str) -> HttpResponse:
    row, form = _posted(request, name)
    if form.is_valid():
        data = form.cleaned_data
        try:
            outcome = commit(partial(_create, request, row, form, data["reason"], force=data["force"]))
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, outcome_toast(outcome))
            return HttpResponse(headers={"HX-Redirect": reverse("dashboards:tenant", args=[name])})
    return _shown(request, row, {"form": form, "line": form.line, **_words(form.line)}, status=422)


@require_POST
def override_end(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Ends the override immediately; the usual limits apply again."""
    row = tenant_get(principal_of(request), name)
    form = ReasonedForm(request.POST)
    force = request.POST.get("force") == "on"
    if form.is_valid():
        act = partial(
            override_cancel,
            override=number,
            author=principal_of(request).actor,
            reason=form.cleaned_data["reason"],
            force=force,
        )
        try:
            messages.success(request, outcome_toast(commit(act)))
            return HttpResponse(headers={"HX-Redirect": f"{reverse('dashboards:tenant', args=[name])}#overrides"})
        except Refused as refused:
            form.refused(refused)
    context = {"tenant": row, "number": number, "end_form": form}
    return render(request, "dashboards/overrides/end_form.html", context, status=422)


def _posted(request: HttpRequest, name: str) -> tuple[Tenant, OverrideForm]:
    row = tenant_get(principal_of(request), name)
    return row, OverrideForm(tenant_state(row, timezone.now()).lines, request.POST)


def _create(request: HttpRequest, row: Tenant, form: OverrideForm, reason: str, *, force: bool) -> object:
    line = form.line
    return override_create(
        tenant=row.name,
        author=principal_of(request).actor,
        reason=reason,
        endpoint=line.scope if line else "*",
        start=form.moment("starts"),
        end=form.moment("ends"),
        limits={line.limit.name: form.changed_fields()} if line else {},
        force=force,
    )


def _shown(request: HttpRequest, row: Tenant, context: dict[str, Any], status: int = 200) -> HttpResponse:
    return render(request, "dashboards/overrides/form.html", {"tenant": row, **context}, status=status)
