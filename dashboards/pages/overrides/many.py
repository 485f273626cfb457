"""Dialogs that extend, edit and end overrides: one from its row, several from the bulk bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from dashboards.forms import MomentField, RateField, ReasonedForm, in_zone, outcome_toast
from dashboards.pages.overrides.fleet import chosen_overrides
from dashboards.viewer import principal_of
from quotas.changes.commit import commit
from quotas.errors import Refused
from quotas.models import Override
from quotas.override_edits import override_update, overrides_extend
from quotas.override_use import OverrideRow, with_use
from quotas.overrides import ENDED, override_state, overrides_cancel
from tenants.models import Tenant
from tenants.scope import scoped, tenant_get

LENGTHS = {"1h": ("1 h", timedelta(hours=1)), "24h": ("24 h", timedelta(days=1)), "7d": ("7 d", timedelta(days=7))}
UNTIL = "until"
SHOWN = 8  # overrides that a dialog names


class ExtendForm(ReasonedForm):
    by = forms.ChoiceField(choices=[*((key, label) for key, (label, _) in LENGTHS.items()), (UNTIL, "Until…")])
    until = MomentField(label="Until", required=False)
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))
    force = forms.BooleanField(required=False)

    fields_of: ClassVar[dict[str, str]] = {"end": "until"}

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if data.get("by") == UNTIL and not data.get("until") and "until" not in self.errors:
            self.add_error("until", "Choose a date and a time.")
        return data

    def length(self) -> dict[str, timedelta | datetime | None]:
        if self.cleaned_data["by"] == UNTIL:
            return {"until": in_zone(self.cleaned_data["until"], self.cleaned_data.get("zone", ""))}
        return {"by": LENGTHS[self.cleaned_data["by"]][1]}


class EndForm(ReasonedForm):
    force = forms.BooleanField(required=False)


class EditForm(ReasonedForm):
    """One limit's values, or the factor, and the end. A field is there only if the override has it."""

    factor = forms.DecimalField(label="Factor", min_value=0, max_digits=6, decimal_places=2, required=False)
    end = MomentField(label="Ends", required=False)
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))
    force = forms.BooleanField(required=False)

    def __init__(self, row: Override, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id=f"e{row.pk}_%s", **kwargs)
        self.row = row
        self.values: list[str] = []
        if row.multiplier_numerator and row.multiplier_denominator:
            self.fields["factor"].initial = round(row.multiplier_numerator / row.multiplier_denominator, 2)
        else:
            del self.fields["factor"]
        for name, held in row.limits.items():
            for key, value in held.items():
                field = f"limits.{name}.{key}"
                label = key.capitalize() if len(row.limits) == 1 else f"{name}: {key}"
                if key == "rate":
                    typed = f"{value}/{held['per']}" if "per" in held else value
                    self.fields[field] = RateField(label=label, initial=typed)
                    self.values.append(field)
                elif isinstance(value, int) and not isinstance(value, bool):
                    widget = forms.NumberInput({"class": "input num"})
                    self.fields[field] = forms.IntegerField(label=label, min_value=1, initial=value, widget=widget)
                    self.values.append(field)

    @property
    def value_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.values]

    def changes(self) -> dict[str, Any]:
        data = self.cleaned_data
        found: dict[str, Any] = {}
        limits = {name: dict(held) for name, held in self.row.limits.items()}
        for field in self.values:
            _, name, key = field.split(".", 2)
            if data[field] == self.fields[field].initial:
                continue
            if "/" in str(data[field]):  # it names its own time
                limits[name].pop("per", None)
            limits[name][key] = data[field]
        if limits != self.row.limits:
            found["limits"] = limits
        if "factor" in data and data["factor"] and data["factor"] != self.fields["factor"].initial:
            found["multiplier"] = data["factor"].as_integer_ratio()
        end = in_zone(data.get("end"), data.get("zone", ""))
        if end is None:
            return found | {"is_endless": self.row.end is not None}
        # The field has minutes only: an end that was not touched keeps its seconds.
        is_same = self.row.end is not None and abs(end - self.row.end) < timedelta(minutes=1)
        return found if is_same else found | {"end": end}


@require_POST
def overrides_extend_many(request: HttpRequest) -> HttpResponse:
    def write(rows: Sequence[Override], form: Any, said: dict[str, Any]) -> object:
        return overrides_extend(overrides=[row.pk for row in rows], **form.length(), **said)

    return _many(request, "extend", ExtendForm, write)


@require_POST
def overrides_end_many(request: HttpRequest) -> HttpResponse:
    def write(rows: Sequence[Override], form: Any, said: dict[str, Any]) -> object:
        return overrides_cancel(overrides=[row.pk for row in rows], **said)

    return _many(request, "end", EndForm, write)


Write = Callable[[Sequence[Override], Any, dict[str, Any]], object]


def _many(request: HttpRequest, action: str, kind: type[ReasonedForm], write: Write) -> HttpResponse:
    """Posted first by the list, then by the dialog (`do=apply`), which carries the numbers that it has shown."""
    now = timezone.now()
    rows = [row for row in chosen_overrides(request) if override_state(row, now) != ENDED]
    does = request.POST.get("do") == "apply"
    form = kind(request.POST if does else None, initial={"by": "24h"}, auto_id=f"ov_{action}_%s")
    if does and form.is_valid() and _done(request, form, partial(write, rows, form)):
        return HttpResponse(headers={"HX-Redirect": reverse("dashboards:overrides")})
    shown = with_use(rows[:SHOWN], now)
    context = {
        "form": form,
        "action": action,
        "rows": shown,
        "numbers": [row.pk for row in rows],
        "more": len(rows) - len(shown),
        "often": [row for row in shown if row.suggests_own_limit],
        "lengths": list(LENGTHS.items()),
        "new_ends": [(row.override, _later(row)) for row in shown],
    }
    return render(request, f"dashboards/overrides/{action}_dialog.html", context, status=422 if does else 200)


def _later(row: OverrideRow) -> list[tuple[str, datetime]]:
    end = row.override.end
    return [(key, end + length) for key, (_, length) in LENGTHS.items()] if end else []


@require_http_methods(["GET", "HEAD", "POST"])
def override_edit(request: HttpRequest, number: int) -> HttpResponse:
    rows = scoped(principal_of(request), Override.objects.select_related("tenant", "endpoint"))
    row = rows.filter(pk=number).first()
    if row is None:
        raise Http404
    does = request.method == "POST" and request.POST.get("do") == "apply"
    form = EditForm(row, request.POST if does else None)
    if does and form.is_valid():

        def write(said: dict[str, Any]) -> object:
            return override_update(override=number, **form.changes(), **said)

        if _done(request, form, write):
            return HttpResponse(headers={"HX-Redirect": reverse("dashboards:overrides")})
    context = {"form": form, "row": row, "tenant": row.tenant, "end_now": None if does else row.end}
    return render(request, "dashboards/overrides/edit_dialog.html", context, status=422 if does else 200)


def _done(request: HttpRequest, form: ReasonedForm, write: Callable[[dict[str, Any]], object]) -> bool:
    data = form.cleaned_data
    said = {"author": principal_of(request).actor, "reason": data["reason"], "force": data.get("force", False)}
    try:
        messages.success(request, outcome_toast(commit(partial(write, said))))
    except Refused as refused:
        form.refused(refused)
        return False
    return True


@require_POST
def override_end(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """From the page of its tenant. The usual limits apply again immediately."""
    row: Tenant = tenant_get(principal_of(request), name)
    form = EndForm(request.POST)
    if form.is_valid():

        def write(said: dict[str, Any]) -> object:
            return overrides_cancel(overrides=[number], **said)

        if _done(request, form, write):
            return HttpResponse(headers={"HX-Redirect": f"{reverse('dashboards:tenant', args=[name])}#overrides"})
    context = {"tenant": row, "number": number, "end_form": form}
    return render(request, "dashboards/overrides/end_form.html", context, status=422)
