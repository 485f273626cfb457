"""Many tenants at once, from the list: move to a tier, suspend, resume or tag, each in a dialog with what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from dashboards.forms import PageForm, ReasonedForm, outcome_toast
from dashboards.pages.tenant.fields import StrandedField, is_part, stranded_choice, tiers_of_people
from dashboards.pages.tenants import tenants_asked, tenants_wanted
from dashboards.viewer import principal_of
from headroom_edge.algorithms.base import counted
from headroom_edge.keys import OWN_TENANT
from quotas.changes.commit import LARGE_EDIT, commit
from quotas.errors import Refused
from quotas.tenants import tenants_move, tenants_resume, tenants_suspend, tenants_tag
from quotas.tenants.many import MOST_AT_ONCE
from quotas.tenants.moves import MovePreview, move_preview


def _tags() -> forms.TextInput:
    return forms.TextInput({"data-tags": "", "autocomplete": "off"})


class MoveForm(ReasonedForm):
    tier = forms.CharField(max_length=63)
    force = forms.BooleanField(required=False)
    stranded_overrides = StrandedField()


class TagForm(PageForm):
    add = forms.CharField(label="Add", required=False, max_length=1_000, widget=_tags())
    remove = forms.CharField(label="Remove", required=False, max_length=1_000, widget=_tags())
    reason = forms.CharField(max_length=500, required=False, widget=forms.TextInput({"autocomplete": "off"}))


@dataclass(frozen=True, slots=True)
class BulkAction:
    verb: str  # of the button: `Move 3 tenants`
    title: str
    form: type[PageForm]
    write: Callable[..., object]
    is_danger: bool = False


ACTIONS: Final = {
    "move": BulkAction("Move", "to another tier", MoveForm, tenants_move),
    "suspend": BulkAction("Suspend", "", ReasonedForm, tenants_suspend, is_danger=True),
    "resume": BulkAction("Resume", "", ReasonedForm, tenants_resume),
    "tag": BulkAction("Tag", "", TagForm, tenants_tag),
}


@require_POST
def tenants_bulk(request: HttpRequest, action: str) -> HttpResponse:
    """Posted first by the list (`names`, or `all=1` with the list's query in the address), then by the dialog.

    The dialog carries the names that it has shown (`chosen`), so that nothing else is changed.
    """
    wanted = ACTIONS.get(action)
    if wanted is None:
        raise Http404
    names = _chosen(request)
    does = request.POST.get("do") == "apply"
    form = wanted.form(request.POST if does else None, initial=request.POST.dict(), auto_id=f"bulk_{action}_%s")
    if does and form.is_valid():
        try:
            write = partial(_write, request, wanted, action, names, form)
            # Many are judged before the edit takes its turn, so that other editors need not wait for that.
            outcome = commit(write, rehearsal=write if len(names) > LARGE_EDIT else None)
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, outcome_toast(outcome))
            return _back(request)
    moving = _moving(request, names) if action == "move" and names else {}
    changed = len(moving["preview"].moves) if "preview" in moving else len(names)
    context = {
        "action": action,
        "wanted": wanted,
        "form": form,
        "names": names,
        "count": _how_many(len(names)),
        "button": f"{wanted.verb} {_how_many(changed)}",
        "query": request.GET.urlencode(),
        "is_part": is_part(request),
        **moving,
    }
    template = "bulk_dialog.html" if is_part(request) else "bulk_page.html"
    return render(request, f"dashboards/tenants/{template}", context, status=422 if form.is_bound else 200)


def _how_many(count: int) -> str:
    """Of more than can be changed at once, only that many were looked up."""
    return counted(count, "tenant", "tenants") if count <= MOST_AT_ONCE else f"more than {MOST_AT_ONCE:,} tenants"


def _write(request: HttpRequest, wanted: BulkAction, action: str, names: list[str], form: PageForm) -> object:
    data: dict[str, Any] = form.cleaned_data
    said = {"names": names, "author": principal_of(request).actor, "reason": data["reason"]}
    if action == "move":
        stranded = data["stranded_overrides"]
        return tenants_move(tier=data["tier"], force=data["force"], stranded_overrides=stranded, **said)
    if action == "tag":
        said["reason"] = data["reason"].strip() or f"Tagged {counted(len(names), 'tenant', 'tenants')}."
        return tenants_tag(add=data["add"].split(), remove=data["remove"].split(), **said)
    return wanted.write(**said)


def _moving(request: HttpRequest, names: list[str]) -> dict[str, Any]:
    """Who gets tighter on the tier that is picked; before one is picked, only the choice."""
    tiers = tiers_of_people()
    tier = request.POST.get("tier", "")
    choice = stranded_choice(request.POST)
    found: dict[str, Any] = {"tiers": tiers, "tier": tier, "choice": choice}
    if tier:
        try:
            preview: MovePreview = move_preview(names=names, tier=tier, stranded_overrides=choice)
            found |= {"preview": preview, "more": len(preview.moves) - len(preview.shown)}
        except Refused as refused:
            found["problems"] = [problem.sentence for problem in refused.problems]
    return found


def _chosen(request: HttpRequest) -> list[str]:
    posted = request.POST
    if "chosen" in posted:
        return posted["chosen"].split()
    if posted.get("all") == "1":
        rows = tenants_wanted(request, tenants_asked(request.GET), timezone.now()).exclude(name=OWN_TENANT)
        return list(rows.order_by("name").values_list("name", flat=True)[: MOST_AT_ONCE + 1])
    return list(dict.fromkeys(posted.getlist("names")))


def _back(request: HttpRequest) -> HttpResponse:
    query = request.GET.urlencode()
    place = f"{reverse('dashboards:tenants')}{'?' if query else ''}{query}"
    return HttpResponse(headers={"HX-Redirect": place}) if is_part(request) else redirect(place)
