"""Notes on charts: the list, the form to add one, and the button to remove one."""

from __future__ import annotations

from datetime import datetime
from typing import Final, cast

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from dashboards.forms import MomentField, PageForm, in_zone, told
from dashboards.viewer import principal_of
from quotas.chart_notes import chart_note_add, chart_note_remove
from quotas.errors import Refused
from quotas.models import ChartNote
from quotas.models.chart_note import LONGEST_TEXT

MOST: Final = 200
ADDED, REMOVED = "added on the page of notes", "removed on the page of notes"


class NoteForm(PageForm):
    text = forms.CharField(
        label="What happened",
        max_length=LONGEST_TEXT,
        widget=forms.TextInput({"placeholder": "Marketing campaign starts", "autocomplete": "off"}),
        error_messages={"required": "Write what happened."},
    )
    at = MomentField(label="When", error_messages={"required": "Choose when it happened."})
    tenant = forms.CharField(label="Tenant", max_length=63, required=False)
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))


@require_http_methods(["GET", "HEAD", "POST"])
def chart_notes(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _page(request, NoteForm(initial={"tenant": request.GET.get("tenant", "")[:63]}))
    form = NoteForm(request.POST)
    if form.is_valid():
        data = form.cleaned_data
        at = cast("datetime", in_zone(data["at"], data["zone"]))  # it is required
        try:
            chart_note_add(
                at=at, text=data["text"], tenant=data["tenant"], author=principal_of(request).actor, reason=ADDED
            )
        except Refused as refusal:
            form.refused(refusal)
        else:
            messages.success(request, "Note added|It stands on the charts of its time")
            return redirect("dashboards:chart-notes")
    return _page(request, form, status=422)


@require_POST
def chart_note_delete(request: HttpRequest, number: int) -> HttpResponse:
    def remove() -> ChartNote:
        return chart_note_remove(note=number, author=principal_of(request).actor, reason=REMOVED)

    told(request, remove, lambda _: "Note removed|It is kept in the audit log", "Not removed")
    return redirect("dashboards:chart-notes")


def _page(request: HttpRequest, form: NoteForm, status: int = 200) -> HttpResponse:
    rows = list(ChartNote.objects.select_related("tenant")[: MOST + 1])
    context = {"form": form, "rows": rows[:MOST], "has_more": len(rows) > MOST, "now": timezone.now()}
    return render(request, "dashboards/notes/page.html", context, status=status)
