"""The dialog that gives an override, to one tenant or to many, with a dry run while the user types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboards.forms import MomentField, RateField, ReasonedForm, in_zone, outcome_toast, sentences_of
from dashboards.pages.tenant.limits import TenantLimit, chosen_of, line_suggestion
from dashboards.pages.tenant.state import tenant_state
from dashboards.pages.tenants import chosen_tenants
from dashboards.viewer import principal_of
from quotas.changes.commit import Outcome, commit
from quotas.errors import Refused
from quotas.overrides import MOST_AT_ONCE, OverrideChange, overrides_create
from quotas.policies.allowance import amount_fields, parameters_of
from quotas.policies.diff import ObjectDiff
from tenants.models import Tenant
from tenants.scope import tenant_get, tenants_of

FACTOR = "*|×"  # every limit of the tenant, by a factor
DEFAULT_END_S = 86_400
MOST_NAMES = 40_000  # characters: as many tenants as one revision takes
LABELS = {"assured": "Guaranteed", "max": "At most"}  # parameters that people call otherwise
UNITS = {"s": "second", "min": "minute", "h": "hour", "d": "day"}


class OverrideForm(ReasonedForm):
    place = forms.CharField(label="Limit", widget=forms.Select)
    tenants = forms.CharField(
        required=False,
        max_length=MOST_NAMES,
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false", "list": "o-tenants"}),
    )
    main = RateField(label="Limit", required=False)
    factor = forms.DecimalField(
        label="Factor", min_value=Decimal("0.01"), max_value=1000, max_digits=6, decimal_places=2, required=False
    )
    size = forms.IntegerField(label="Burst", min_value=1, required=False)
    starts = MomentField(label="Starts", required=False)
    ends = MomentField(label="Ends", required=False)
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))
    force = forms.BooleanField(label="Apply anyway: I have reviewed these cuts", required=False)

    fields_of: ClassVar[dict[str, str]] = {
        "rate": "main",
        "tenant": "tenants",
        "multiplier": "factor",
        "limit": "main",
        "assured": "main",
        "max": "main",
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
        choices = [(line.key, f"{_where(line)}: {line.limit.name} ({line.short})") for line in own]
        self.fields["place"].widget.choices = [*choices, (FACTOR, "All limits, by a factor")]

    @property
    def line(self) -> TenantLimit | None:
        return self.lines.get(str(self["place"].value()))

    def moment(self, name: str) -> datetime | None:
        """The field has no zone; it is in the viewer's."""
        return in_zone(self.cleaned_data.get(name), self.cleaned_data.get("zone", ""))

    @property
    def is_factor(self) -> bool:
        return str(self["place"].value()) == FACTOR

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        wanted, words = ("factor", "Enter a factor such as 1.5.") if self.is_factor else ("main", "Enter a number.")
        if data.get(wanted) is None and wanted not in self.errors:
            self.add_error(wanted, words)
        return data

    def change(self) -> OverrideChange:
        """What was typed, as the service takes it."""
        start, end = self.moment("starts"), self.moment("ends")
        if self.is_factor:
            numerator, denominator = self.cleaned_data["factor"].as_integer_ratio()
            return OverrideChange(start=start, end=end, multiplier=(numerator, denominator))
        line = self.line
        limits = {line.limit.name: self.changed_fields()} if line else {}
        return OverrideChange(line.scope if line else "*", start, end, limits)

    def changed_fields(self) -> dict[str, int | float | str]:
        line = self.line
        if line is None:
            return {}
        return amount_fields(line.limit.algorithm, self.cleaned_data["main"], self.cleaned_data.get("size"))


def override_form(lines: Sequence[TenantLimit], chosen: TenantLimit | None, tenant: Tenant | None) -> dict[str, Any]:
    """The context of a newly opened dialog."""
    own = [line for line in lines if not line.effective.is_global]
    line = chosen if chosen in own else next(iter(own), None)
    words = _words(line, tenant)
    return {
        "default_end": DEFAULT_END_S,
        "form": OverrideForm(lines, initial=words.get("suggestion")),
        "line": line,
        **words,
    }


def _words(line: TenantLimit | None, tenant: Tenant | None) -> dict[str, Any]:
    if line is None or tenant is None:
        return {}
    main, size = parameters_of(line.limit.algorithm)
    unit = line.short.main.partition("/")[2]
    return {
        "main_label": LABELS.get(main.name, main.name.capitalize()),
        "held_main": main.held,
        "held_size": size.held if size else None,
        "size_label": size.name.capitalize() if size else "",
        "has_size": size is not None,
        "is_rate": main.name == "rate",
        "unit": UNITS.get(unit, unit) or "at once",
        "suggestion": _suggested(line, tenant),
    }


def _suggested(line: TenantLimit, tenant: Tenant) -> dict[str, Any]:
    """The same as on every other page (quotas.recommendations.suggestion), and why."""
    found = line_suggestion(line, tenant)
    if found is None:
        return {"place": line.key}
    main, size = parameters_of(found.algorithm)
    values: dict[str, Any] = {"place": line.key, "main": main.held, "why": found.why}
    return values | ({"size": size.held} if size else {})


def _where(line: TenantLimit) -> str:
    return "all endpoints" if line.scope == "*" else line.scope


@dataclass(frozen=True, slots=True)
class Target:
    """Whom the dialog is about. `is_fleet`: it was opened on a list, so it names the tenants itself."""

    tenants: Sequence[Tenant]
    is_fleet: bool = False
    problem: str = ""  # with what was typed as tenants

    @property
    def first(self) -> Tenant | None:
        return next(iter(self.tenants), None)

    @property
    def names(self) -> list[str]:
        return [tenant.name for tenant in self.tenants]

    def address(self, step: str) -> str:
        """`step`: new, preview or give."""
        if self.is_fleet or self.first is None:
            return reverse(f"dashboards:overrides-{step}")
        return reverse(f"dashboards:override-{step}", args=[self.first.name])

    @property
    def context(self) -> dict[str, Any]:
        return {
            "target": self,
            "tenant": self.first,
            "new_address": self.address("new"),
            "preview_address": self.address("preview"),
            "give_address": self.address("give"),
        }


def target_of(request: HttpRequest, name: str) -> Target:
    return Target([tenant_get(principal_of(request), name)])


def fleet_of(request: HttpRequest, names: Sequence[str]) -> Target:
    rows = tenants_of(principal_of(request)).filter(archived_at=None).in_bulk(list(names), field_name="name")
    unknown = [name for name in names if name not in rows]
    problem = f"There is no tenant {unknown[0]}; correct the name." if unknown else ""
    return Target([rows[name] for name in names if name in rows], is_fleet=True, problem=problem)


def _typed(request: HttpRequest) -> list[str]:
    given = request.POST if request.method == "POST" else request.GET
    return list(dict.fromkeys(given.get("tenants", "")[:MOST_NAMES].replace(",", " ").lower().split()))


def _lines(target: Target) -> Sequence[TenantLimit]:
    """Of the first tenant: the dialog shows its values as examples of all."""
    return tenant_state(target.first, timezone.now()).lines if target.first else ()


def _fresh(target: Target, place: str) -> dict[str, Any]:
    lines = _lines(target)
    if place == FACTOR or not lines:
        form = OverrideForm(lines, initial={"place": FACTOR, "factor": "1.5"})
        context: dict[str, Any] = {"default_end": DEFAULT_END_S, "form": form, "line": None}
    else:
        scope, _, limit = place.partition("|")
        context = override_form(lines, chosen_of(lines, scope, limit), target.first)
        form = context["form"]
    if target.is_fleet:
        form.initial["tenants"] = " ".join(target.names)
    return context


@require_safe
def override_new(request: HttpRequest, name: str) -> HttpResponse:
    """The form after the user selected another limit."""
    target = target_of(request, name)
    return _shown(request, target, _fresh(target, request.GET.get("place", "")))


@require_http_methods(["GET", "HEAD", "POST"])
def overrides_new(request: HttpRequest) -> HttpResponse:
    """The dialog for tenants that are ticked in their list (posted), or typed here."""
    is_part = request.GET.get("part") == "form"
    names = _typed(request) if is_part or request.method != "POST" else chosen_tenants(request, MOST_AT_ONCE)
    target = fleet_of(request, names)
    context = _fresh(target, request.GET.get("place", ""))
    if is_part:
        return _shown(request, target, context)
    suggested = tenants_of(principal_of(request)).filter(archived_at=None).order_by("name")[:200]
    more = {"suggested": suggested, **target.context, **context}
    return render(request, "dashboards/overrides/dialog.html", more)


@require_POST
def override_preview(request: HttpRequest, name: str) -> HttpResponse:
    return _preview(request, target_of(request, name))


@require_POST
def overrides_preview(request: HttpRequest) -> HttpResponse:
    return _preview(request, fleet_of(request, _typed(request)))


def _preview(request: HttpRequest, target: Target) -> HttpResponse:
    """A dry run of the override. Nothing is saved, and a missing reason is not an error yet."""
    form = OverrideForm(_lines(target), request.POST)
    found: Outcome[object] | None = None
    problems = [target.problem] if target.problem else []
    if not problems and target.tenants and (form.is_valid() or set(form.errors) <= {"reason"}):
        try:
            preview = partial(_create, request, target, form, "dry run", force=True)
            found = commit(preview, "dry_run")
        except Refused as refused:
            problems = sentences_of(refused)
    context = {
        "form": form,
        "found": found,
        "changes": _limits_only(found.effect.changes) if found else (),
        "problems": problems,
        "line": form.line,
        "wanted": form.cleaned_data.get("main") if form.is_bound and hasattr(form, "cleaned_data") else None,
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
    return _give(request, target_of(request, name), reverse("dashboards:tenant", args=[name]))


@require_POST
def overrides_give(request: HttpRequest) -> HttpResponse:
    return _give(request, fleet_of(request, _typed(request)), reverse("dashboards:overrides"))


def _give(request: HttpRequest, target: Target, back: str) -> HttpResponse:
    form = OverrideForm(_lines(target), request.POST)
    if target.is_fleet and (target.problem or not target.tenants):
        form.add_error("tenants", target.problem or "Name at least one tenant.")
    if form.is_valid():
        data = form.cleaned_data
        try:
            outcome = commit(partial(_create, request, target, form, data["reason"], force=data["force"]))
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, outcome_toast(outcome))
            return HttpResponse(headers={"HX-Redirect": back})
    return _shown(request, target, {"form": form, "line": form.line, **_words(form.line, target.first)}, status=422)


def _create(request: HttpRequest, target: Target, form: OverrideForm, reason: str, *, force: bool) -> object:
    return overrides_create(
        tenants=target.names, change=form.change(), author=principal_of(request).actor, reason=reason, force=force
    )


def _shown(request: HttpRequest, target: Target, context: dict[str, Any], status: int = 200) -> HttpResponse:
    return render(request, "dashboards/overrides/form.html", {**target.context, **context}, status=status)
