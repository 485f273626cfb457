"""Answering a request for more quota."""

from __future__ import annotations

from functools import partial

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboards.forms import ReasonedForm, outcome_toast
from dashboards.viewer import principal_of
from quotas.changes.commit import commit
from quotas.errors import Refused
from quotas.models.quota_request import QuotaRequest
from quotas.quota_requests import quota_request_decline, quota_request_grant


class AnswerForm(ReasonedForm):
    wanted = forms.IntegerField(label="Amount", min_value=1, required=False)


@require_POST
def request_answer(request: HttpRequest, number: int) -> HttpResponse:
    """Grants the request with an override, or declines it. The tenant sees the reason."""
    row = get_object_or_404(QuotaRequest.objects.select_related("tenant"), pk=number)
    form = AnswerForm(request.POST, auto_id=f"answer-{number}-%s")
    author = principal_of(request).actor
    if form.is_valid():
        said = {"request": number, "author": author, "reason": form.cleaned_data["reason"]}
        try:
            if request.POST.get("say") == "no":
                quota_request_decline(**said)
                messages.success(request, "Request declined|The tenant sees your reason")
            else:
                act = partial(quota_request_grant, **said, wanted=form.cleaned_data["wanted"])
                messages.success(request, outcome_toast(commit(act)))
            return HttpResponse(headers={"HX-Redirect": reverse("dashboards:tenant", args=[row.tenant.name])})
        except Refused as refused:
            form.refused(refused)
    context = {"row": row, "form": form}
    return render(request, "dashboards/tenant/request_answer_form.html", context, status=422)
