"""Many new tenants from CSV: checked as a whole first, then created as one revision or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from celery import current_app
from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from access.request_ids import request_id_of
from dashboards.forms import outcome_toast
from dashboards.pages.matrix.sheet_import import SheetForm
from dashboards.pages.tenant.fields import is_part, tiers_of_people
from dashboards.viewer import principal_of
from quotas.changes.commit import commit
from quotas.errors import Refused
from quotas.models import Task
from quotas.policies.problems import Problem
from quotas.tasks import RUN_DOCUMENT
from quotas.tenants import NewTenant, tenants_create
from quotas.tenants.sheet import COLUMNS, LARGE, MOST_ROWS, sheet_tenants
from quotas.whole_tasks import IDENTITY, TEXT, TooManyOpenError, whole_task_file

IMPORT: Final = "import"  # what the task is asked to do, as the API calls it
MOST_SHOWN: Final = 20
MOST_RUNS: Final = 5


class ImportForm(SheetForm):
    """The table is uploaded or pasted once; its text is then carried from the check to the creation."""

    pasted = forms.CharField(
        label="Or paste the table",
        required=False,
        strip=False,
        widget=forms.Textarea({"rows": 6, "spellcheck": "false", "class": "textarea mono"}),
    )
    tier = forms.CharField(label="Tier of rows that name none", required=False, max_length=63)

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if not given.get("file") and not given.get("text"):
            given["text"] = given.get("pasted", "")
        return super().clean()


@require_http_methods(["GET", "HEAD", "POST"])
def tenants_import(request: HttpRequest) -> HttpResponse:
    form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
    context: dict[str, Any] = {"form": form, "columns": COLUMNS, "most": MOST_ROWS, "tiers": tiers_of_people()}
    if form.is_bound and form.is_valid():
        data = form.cleaned_data
        try:
            rows = sheet_tenants(data["text"], tier=data["tier"])
            context |= {"rows": rows, "shown": rows[:MOST_SHOWN], "text": data["text"], "by_tier": _by_tier(rows)}
            if request.POST.get("do") == "create":
                return _create(request, rows, data)
        except Refused as refused:
            context["problems"] = refused.problems
        except TooManyOpenError:
            context["problems"] = [Problem("", "many", "three imports of yours are not done yet; wait for one of them")]
    context["runs"] = _mine(request)[:MOST_RUNS]
    is_refused = bool(context.get("problems")) or (form.is_bound and not form.is_valid())
    return render(request, "dashboards/tenants/import.html", context, status=422 if is_refused else 200)


def _create(request: HttpRequest, rows: Sequence[NewTenant], data: dict[str, Any]) -> HttpResponse:
    reason = data["reason"].strip() or f"Imported {len(rows):,} tenants."
    if len(rows) > LARGE:
        task = _file(request, data, reason)
        return redirect("dashboards:tenants-import-run", task.pk)
    write = partial(tenants_create, tenants=rows, author=principal_of(request).actor, reason=reason)
    messages.success(request, outcome_toast(commit(write)))
    return redirect("dashboards:tenants")


def _by_tier(rows: Sequence[NewTenant]) -> list[tuple[str, int]]:
    names = [row.tier for row in rows]
    return sorted((name, names.count(name)) for name in set(names))


def _file(request: HttpRequest, data: dict[str, Any], reason: str) -> Task:
    """The same task that the API files, done by the same worker."""
    principal = principal_of(request)
    asked = {
        "action": IMPORT,
        TEXT: data["text"],
        "fields": {"reason": reason, **({"tier": data["tier"]} if data["tier"] else {})},
        "dry_run": False,
        "if_match": None,
        "request": request_id_of(request),
    }
    with transaction.atomic():
        kind = Task.Kind.DOCUMENT
        task = whole_task_file(kind=kind, author=principal.actor, identity=principal.identity, asked=asked)
        transaction.on_commit(lambda: _send(task))
    return task


def _send(task: Task) -> None:
    """If the broker is away, beat sends the task later."""
    try:
        current_app.send_task(RUN_DOCUMENT, (task.pk,))
    except current_app.connection_for_write().transport.connection_errors:
        return


@require_safe
def tenants_import_run(request: HttpRequest, number: int) -> HttpResponse:
    task = get_object_or_404(_mine(request), pk=number)
    template = "import_run.html" if is_part(request) else "import_run_page.html"
    return render(request, f"dashboards/tenants/{template}", {"task": task, "result": (task.result or {}).get("body")})


def _mine(request: HttpRequest) -> QuerySet[Task]:
    asked = {f"asked__{IDENTITY}": principal_of(request).identity, "asked__action": IMPORT}
    return Task.objects.filter(kind=Task.Kind.DOCUMENT, **asked).order_by("-pk")
