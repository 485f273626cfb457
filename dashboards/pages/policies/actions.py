"""Renaming and deleting a policy, and renaming one of its limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboards.forms import ReasonedForm, outcome_toast, sentences_of
from dashboards.pages.policies.forms import DeleteForm, RenameForm
from dashboards.pages.policies.lines import PolicyLine
from dashboards.pages.policies.view import find
from dashboards.viewer import principal_of
from quotas.changes.commit import commit
from quotas.errors import Refused
from quotas.models import Policy
from quotas.policies.edit import policy_delete
from quotas.policies.limit_names import why_it_resets
from quotas.policies.rename import limit_rename, policy_rename

RENAME = "dashboards/policies/rename_form.html"
DELETE = "dashboards/policies/delete_form.html"


@require_http_methods(["GET", "POST"])
def rename(request: HttpRequest, name: str) -> HttpResponse:
    row = find(name)
    form = RenameForm(request.POST or None, initial={"to": name}, auto_id="rename_%s")
    context = {"policy": row, "url": reverse("dashboards:policy-rename", args=[name])}
    return _changed(request, form, RENAME, context, lambda **said: policy_rename(name=name, **said))


@require_http_methods(["GET", "POST"])
def rename_limit(request: HttpRequest, name: str, limit: str) -> HttpResponse:
    row = find(name)
    held = next((one for one in row.limits.all() if one.name.name == limit), None)
    if held is None:
        raise Http404
    form = RenameForm(request.POST or None, initial={"to": limit}, auto_id="rename_%s")
    url = reverse("dashboards:policy-limit-rename", args=[name, limit])
    context = {"policy": row, "url": url, "limit": limit, "resets": why_it_resets(held, str(form["to"].value()))}
    act = partial(limit_rename, policy=name, limit=limit)
    return _changed(request, form, RENAME, context, act)


@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Shows what the removal would do, from the beginning."""
    row = find(name)
    form = DeleteForm(request.POST or None, auto_id="delete_%s")
    context: dict[str, Any] = {"policy": row, "owner": PolicyLine(row).owner}
    plan = partial(policy_delete, name=name, author=principal_of(request).actor, reason="dry run", force=True)
    try:
        found = commit(plan, "dry_run")
        context |= {"found": found, "changes": found.effect.changes}
    except Refused as refused:
        context["problems"] = sentences_of(refused)
    return _changed(request, form, DELETE, context, partial(policy_delete, name=name))


def _changed(
    request: HttpRequest, form: ReasonedForm, template: str, context: dict[str, Any], act: Callable[..., object]
) -> HttpResponse:
    if form.is_bound and form.is_valid():
        try:
            outcome = commit(partial(act, author=principal_of(request).actor, **form.cleaned_data))
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, outcome_toast(outcome))
            return HttpResponse(headers={"HX-Redirect": _place_of(context["policy"])})
    status = 422 if request.method == "POST" else 200
    return render(request, template, {**context, "form": form}, status=status)


def _place_of(row: Policy) -> str:
    """The policy under the name it has now; the list if it is gone."""
    name = Policy.objects.filter(pk=row.pk).values_list("name", flat=True).first()
    return reverse("dashboards:policies") if name is None else reverse("dashboards:policy", args=[name])
