"""CSV import of limits: checked as a whole with a dry run, then saved as one revision or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboards.forms import PageForm, outcome_toast
from dashboards.viewer import principal_of
from quotas.changes.commit import commit
from quotas.errors import Refused
from quotas.matrix.edit import Edit, limits_plan, limits_set, sheet_read
from quotas.matrix.sheet import COLUMNS
from quotas.policies.problems import Problem, is_fit
from quotas.pools.promises import warnings_of

MOST_BYTES = 2_000_000


class SheetForm(PageForm):
    """The file is uploaded once; its text is then carried in the form from the check to the publish."""

    file = forms.FileField(label="CSV file", required=False, widget=forms.FileInput)
    text = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)
    reason = forms.CharField(max_length=500, required=False, widget=forms.Textarea(attrs={"rows": 2}))
    force = forms.BooleanField(required=False)

    def said(self, message: str) -> str:
        """A file has the words of documents."""
        return message

    def clean(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().clean() or {}
        file = fields.get("file")
        if file is not None and file.size > MOST_BYTES:
            self.add_error("file", f"The file is too large: {file.size:,} bytes. The maximum is {MOST_BYTES:,}.")
        elif file is not None:
            fields["text"] = self._decoded(file.read())
        elif not fields.get("text"):
            self.add_error("file", "Choose a file.")
        return fields

    def _decoded(self, data: bytes) -> str:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.add_error("file", f"The file is not UTF-8 (byte {error.start:,}). Save it as CSV UTF-8.")
            return ""
        if not is_fit(text):
            self.add_error("file", "The file contains a NUL byte. Save it as CSV UTF-8.")
        return text


@require_http_methods(["GET", "HEAD", "POST"])
def matrix_import(request: HttpRequest) -> HttpResponse:
    form = SheetForm(request.POST, request.FILES) if request.method == "POST" else SheetForm()
    context: dict[str, Any] = {"form": form, "columns": COLUMNS}
    problems: Sequence[Problem] = ()
    if form.is_bound and form.is_valid():
        try:
            edits = sheet_read(form.cleaned_data["text"])
            context |= {"text": form.cleaned_data["text"], "rows": len(edits)}
            if request.POST.get("do") == "publish":
                problems = _publish(request, edits, form)
                if not problems:
                    return redirect("dashboards:matrix")
            plan = limits_plan(edits=edits, author=principal_of(request).actor)
            context |= {"plan": plan, "warnings": warnings_of(plan)}
        except Refused as refusal:
            problems = refusal.problems
    context["problems"] = [_shown(problem, form) for problem in problems]
    return render(request, "dashboards/matrix/import.html", context)


def _publish(request: HttpRequest, edits: Sequence[Edit], form: SheetForm) -> Sequence[Problem]:
    """Why it was refused; empty: it is done."""
    said = {"author": principal_of(request).actor, "reason": form.cleaned_data["reason"]}
    write = partial(limits_set, edits=edits, force=form.cleaned_data["force"], **said)
    try:
        # A table may have thousands of rows, and judging them takes longer than writing them.
        outcome = commit(write, rehearsal=write)
    except Refused as refusal:
        return refusal.problems
    messages.success(request, outcome_toast(outcome))
    return ()


def _shown(problem: Problem, form: SheetForm) -> Problem:
    if problem.path == "reason":
        form.add_error("reason", "Enter a reason. It is saved with the revision.")
    return problem
