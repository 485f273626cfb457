"""Suspending and resuming a tenant."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboards.forms import ReasonedForm, outcome_toast
from dashboards.viewer import principal_of
from quotas.changes.commit import commit
from quotas.errors import Refused
from quotas.tenants import tenant_resume, tenant_suspend
from tenants.scope import tenant_get


@require_POST
def suspend(request: HttpRequest, name: str) -> HttpResponse:
    return _switched(request, name, tenant_suspend, "suspend")


@require_POST
def resume(request: HttpRequest, name: str) -> HttpResponse:
    return _switched(request, name, tenant_resume, "resume")


def _switched(request: HttpRequest, name: str, act: Callable[..., object], what: str) -> HttpResponse:
    row = tenant_get(principal_of(request), name)
    form = ReasonedForm(request.POST)
    if form.is_valid():
        author = principal_of(request).actor
        try:
            outcome = commit(partial(act, name=row.name, author=author, reason=form.cleaned_data["reason"]))
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, outcome_toast(outcome))
            return _back(name)
    context = {"tenant": row, "switch_form": form, "what": what}
    return render(request, "dashboards/tenant/suspend_form.html", context, status=422)


def _back(name: str) -> HttpResponse:
    return HttpResponse(headers={"HX-Redirect": reverse("dashboards:tenant", args=[name])})
