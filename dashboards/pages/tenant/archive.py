"""Archiving a tenant, which asks for its name, and restoring it with a new key."""

from __future__ import annotations

from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboards.forms import ReasonedForm, outcome_toast
from dashboards.pages.tenant.keys import handed_out
from dashboards.viewer import principal_of
from quotas.api_keys import api_key_issue
from quotas.changes.commit import commit
from quotas.errors import Refused
from quotas.tenants import archiving_of, tenant_archive, tenant_restore
from tenants.scope import tenant_get


@require_POST
def archive(request: HttpRequest, name: str) -> HttpResponse:
    row = tenant_get(principal_of(request), name)
    form = ReasonedForm(request.POST, auto_id="archive_%s")
    typed = request.POST.get("name", "").strip()
    wrong = "" if typed == row.name else f"Type {row.name} to confirm."
    if form.is_valid() and not wrong:
        author, reason = principal_of(request).actor, form.cleaned_data["reason"]
        try:
            outcome = commit(partial(tenant_archive, name=row.name, author=author, reason=reason))
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, outcome_toast(outcome))
            return HttpResponse(headers={"HX-Redirect": reverse("dashboards:tenant-settings", args=[name])})
    context = {"tenant": row, "archive_form": form, "typed": typed, "wrong": wrong, "stops": archiving_of(row)}
    return render(request, "dashboards/tenant/archive_form.html", context, status=422)


@require_POST
def restore(request: HttpRequest, name: str) -> HttpResponse:
    """With `key`, the response contains a new key, which is shown only once."""
    row = tenant_get(principal_of(request), name)
    form = ReasonedForm(request.POST, auto_id="restore_%s")
    context = {"tenant": row, "restore_form": form}
    if form.is_valid():
        said = {"author": principal_of(request).actor, "reason": form.cleaned_data["reason"]}
        try:
            outcome = commit(partial(tenant_restore, name=row.name, **said))
            if request.POST.get("key") != "on":
                messages.success(request, outcome_toast(outcome))
                return HttpResponse(headers={"HX-Redirect": reverse("dashboards:tenant", args=[name])})
            issued = api_key_issue(tenant=row.name, scopes=["check", "read"], label="after the restore", **said)
        except Refused as refused:
            form.refused(refused)
        else:
            return render(request, "dashboards/tenant/key_issued.html", {**context, **handed_out(issued)})
    return render(request, "dashboards/tenant/restore_form.html", context, status=422)
