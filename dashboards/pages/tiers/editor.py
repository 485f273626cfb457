"""A new tier, empty or with the limits of another, and the texts and priority of one that exists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboards.conflicts import WatchedForm
from dashboards.forms import HIGHEST_PRIORITY_CHOICES, ReasonedForm, outcome_toast
from dashboards.viewer import principal_of
from headroom_edge.keys import OWN_TENANT
from quotas.changes.commit import commit
from quotas.changes.snapshot import TIER, key_of
from quotas.errors import Refused
from quotas.policies.tier import LONGEST_DESCRIPTION, LONGEST_LABEL
from quotas.tenants import tier_create, tier_duplicate, tier_update
from tenants.models import Tier


class TierForm(ReasonedForm, WatchedForm):
    label = forms.CharField(label="Label", max_length=LONGEST_LABEL, required=False)
    description = forms.CharField(label="Description", max_length=LONGEST_DESCRIPTION, required=False)
    priority = forms.ChoiceField(label="Highest priority", choices=HIGHEST_PRIORITY_CHOICES, required=False)

    watched = ("label", "description", "priority")


class NewTierForm(TierForm):
    name = forms.CharField(label="Name", max_length=63, error_messages={"required": "Enter a name."})
    source = forms.ChoiceField(label="Limits", required=False)

    fields_of: ClassVar[dict[str, str]] = {"tier": "name"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        attributes = {"class": "input mono", "autocomplete": "off", "spellcheck": "false", "autofocus": True}
        self.fields["name"].widget.attrs |= attributes
        names = Tier.objects.filter(retired=False).exclude(name=OWN_TENANT).values_list("name", flat=True)
        self.fields["source"].choices = [("", "None yet"), *((name, f"Copy those of {name}") for name in names)]  # type: ignore[attr-defined]


@require_http_methods(["GET", "HEAD", "POST"])
def tier_new(request: HttpRequest) -> HttpResponse:
    """`?source=pro` chooses the tier whose limits are copied."""
    initial = {"source": request.GET.get("source", "")}
    form = NewTierForm(request.POST) if request.method == "POST" else NewTierForm(initial=initial)
    if form.is_bound and form.is_valid():
        data = form.cleaned_data
        texts = {name: data[name] for name in ("name", "label", "description", "reason")}
        create = partial(tier_duplicate, source=data["source"]) if data["source"] else tier_create
        if data["priority"]:  # otherwise a copy has that of its source
            texts["priority"] = data["priority"]
        if _is_saved(request, form, partial(create, author=principal_of(request).actor, **texts)):
            return redirect("dashboards:tier", data["name"])
    return _page(request, form, None)


@require_http_methods(["GET", "HEAD", "POST"])
def tier_edit(request: HttpRequest, name: str) -> HttpResponse:
    row = Tier.objects.filter(name=name, retired=False).first()
    if row is None:
        raise Http404(f"No tier is called {name}.")
    texts = _texts(row)
    form = TierForm(request.POST) if request.method == "POST" else TierForm(initial=texts)
    form.watch(texts, key_of(TIER, name))
    if form.is_bound and not form.conflict and form.is_valid():
        said = {field: form.cleaned_data[field] for field in (*form.watched, "reason")}
        update = partial(tier_update, name=name, author=principal_of(request).actor, **said)
        if _is_saved(request, form, form.in_turn(partial(_texts_now, name), update)):
            return redirect("dashboards:tier", name)
    return _page(request, form, row)


def _texts(row: Tier) -> dict[str, str]:
    return {"label": row.label, "description": row.description, "priority": row.priority}


def _texts_now(name: str) -> dict[str, str] | None:
    row = Tier.objects.filter(name=name, retired=False).first()
    return _texts(row) if row else None


def _is_saved(request: HttpRequest, form: TierForm, act: Callable[[], object]) -> bool:
    try:
        messages.success(request, outcome_toast(commit(act)))
    except Refused as refusal:
        form.refused(refusal)
        return False
    return True


def _page(request: HttpRequest, form: TierForm, row: Tier | None) -> HttpResponse:
    context = {"form": form, "tier": row}
    status = 409 if form.conflict else 422 if form.errors else 200
    return render(request, "dashboards/tiers/edit.html", context, status=status)
