"""Importing endpoints from an OpenAPI document: read it, choose operations, register them in one revision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboards.forms import PageForm, outcome_toast
from dashboards.viewer import principal_of
from quotas.changes.commit import Outcome, commit
from quotas.endpoint_import.operations import MOST_OPERATIONS, ApiDocument, essence, read_api
from quotas.endpoint_import.plan import ImportPlan, ImportRow, chosen_of, endpoints_import, import_plan
from quotas.endpoint_import.tree import MOST_BYTES
from quotas.errors import Refused, accepted, refuse
from quotas.policies.document import LARGE
from quotas.policies.endpoint import LONGEST_NAME, LONGEST_PATH
from quotas.policies.problems import Problem


class ImportForm(PageForm):
    """The document is uploaded or pasted once. Its operations are then carried in the form, without the rest."""

    file = forms.FileField(label="File", required=False, widget=forms.FileInput)
    pasted = forms.CharField(required=False, strip=False, widget=forms.Textarea)
    text = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)
    base_path = forms.CharField(label="Base path", max_length=LONGEST_PATH, required=False)
    base_of = forms.CharField(max_length=LONGEST_PATH, required=False, widget=forms.HiddenInput)
    service = forms.CharField(label="Service", max_length=LONGEST_NAME, required=False)
    reason = forms.CharField(label="Reason", max_length=500, required=False, widget=forms.Textarea(attrs={"rows": 2}))
    force = forms.BooleanField(label="Register anyway: I have reviewed these cuts", required=False)

    fields_of: ClassVar[dict[str, str]] = {"document": "file"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("base_path", "service"):
            self.fields[name].widget.attrs |= {"class": "input mono", "autocomplete": "off", "spellcheck": "false"}

    @property
    def is_fresh(self) -> bool:
        """A document came with this request, so what was chosen before is about another one."""
        return bool(self.cleaned_data.get("file") or self.cleaned_data.get("pasted"))

    def clean(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().clean() or {}
        file = fields.get("file")
        if file is not None and file.size > MOST_BYTES:
            self.add_error("file", f"The file has {file.size:,} bytes. The maximum is {MOST_BYTES:,}.")
        elif file is not None:
            fields["text"] = self._decoded(file.read())
        elif fields.get("pasted"):
            fields["text"] = fields["pasted"]
        elif not fields.get("text"):
            self.add_error("file", "Choose a file, or paste the document.")
        return fields

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.add_error("file", f"The file is not UTF-8 (byte {error.start:,}). Save it as UTF-8.")
            return ""


@dataclass(frozen=True, slots=True)
class ShownRow:
    number: int
    row: ImportRow
    name: str
    is_picked: bool

    @property
    def route(self) -> str:
        """With the base path, as it will be matched; as in the document if it cannot be."""
        return self.row.operation.template or self.row.operation.path


@require_http_methods(["GET", "HEAD", "POST"])
def endpoints_import_page(request: HttpRequest) -> HttpResponse:
    form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
    context: dict[str, Any] = {"form": form, "most_bytes": MOST_BYTES, "most_operations": MOST_OPERATIONS}
    problems: Sequence[Problem] = ()
    if form.is_bound and form.is_valid():
        try:
            plan = _plan(form)
            shown = _shown(plan, request, form)
            context |= {"plan": plan, "rows": shown, "text": essence(plan.document), **_counts(plan, shown)}
            if request.POST.get("do") == "register" and not form.is_fresh:
                messages.success(request, outcome_toast(_registered(request, form, plan, shown)))
                return redirect("dashboards:endpoints")
        except Refused as refusal:
            form.refused(Refused(problem for problem in refusal.problems if problem.path in ("reason", "base_path")))
            form.codes = frozenset(problem.code for problem in refusal.problems)
            problems = [problem for problem in refusal.problems if problem.path not in ("reason", "base_path")]
    context["problems"] = problems
    status = 422 if form.errors or problems else 200
    return render(request, "dashboards/endpoints/import.html", context, status=status)


def _plan(form: ImportForm) -> ImportPlan:
    """A base path typed for one document does not hold for the next."""
    fields = form.cleaned_data
    typed = fields["base_path"]
    is_default = typed == fields["base_of"] and (form.is_fresh or not typed)
    document: ApiDocument = accepted(read_api(fields["text"], None if is_default else typed))
    return import_plan(document, fields["service"])


def _shown(plan: ImportPlan, request: HttpRequest, form: ImportForm) -> list[ShownRow]:
    """New operations are ticked; those that would change something are left to the person."""
    is_chosen = request.POST.get("do") == "register" and not form.is_fresh
    picked = set(request.POST.getlist("pick"))
    names: Mapping[str, str] = request.POST if not form.is_fresh else {}
    return [
        ShownRow(
            number,
            row,
            names.get(f"name-{number}", "") if is_chosen and row.state == "new" else row.name,
            row.may_be_chosen and (str(number) in picked if is_chosen else row.state == "new"),
        )
        for number, row in enumerate(plan.rows)
    ]


def _registered(request: HttpRequest, form: ImportForm, plan: ImportPlan, shown: Sequence[ShownRow]) -> Outcome[object]:
    picked = [one for one in shown if one.is_picked]
    if not picked:
        raise refuse("operations", "missing", "nothing is selected; tick at least one operation")
    names = {one.row.operation.key: one.name.strip() for one in picked}
    endpoints = chosen_of(plan, names.keys(), names)
    said = {"author": principal_of(request).actor, "reason": form.cleaned_data["reason"]}
    write = partial(endpoints_import, endpoints=endpoints, force=form.cleaned_data["force"], **said)
    # Judging many endpoints takes longer than writing them, so it is done before others have to wait.
    return commit(write, rehearsal=write if len(endpoints) > LARGE else None)


def _counts(plan: ImportPlan, shown: Sequence[ShownRow]) -> dict[str, int]:
    return {
        "new": len(plan.of_state("new")),
        "different": len(plan.of_state("different")),
        "same": len(plan.of_state("same")),
        "cannot": len(plan.of_state("cannot")),
        "picked": sum(one.is_picked for one in shown),
    }
