"""Retiring an endpoint: what counts on it is said first, and its limits go with it only if that is wanted."""

from __future__ import annotations

from functools import partial

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from dashboards.forms import ReasonedForm, outcome_toast
from dashboards.viewer import principal_of
from quotas.changes.commit import commit
from quotas.endpoint_use import DAYS, endpoint_use
from quotas.endpoints import endpoint_delete
from quotas.errors import Refused
from quotas.models import Endpoint


class RetireForm(ReasonedForm):
    with_limits = forms.BooleanField(required=False)
    force = forms.BooleanField(label="Retire anyway: I have reviewed these cuts", required=False)


@require_http_methods(["GET", "HEAD", "POST"])
def endpoint_retire(request: HttpRequest, name: str) -> HttpResponse:
    row = Endpoint.objects.filter(name=name, retired=False).first()
    if row is None:
        raise Http404(f"No endpoint is called {name}.")
    form = RetireForm(request.POST) if request.method == "POST" else RetireForm(auto_id="r_%s")
    if form.is_bound and form.is_valid():
        data = form.cleaned_data
        act = partial(
            endpoint_delete,
            name=name,
            author=principal_of(request).actor,
            reason=data["reason"],
            with_limits=data["with_limits"],
            force=data["force"],
        )
        try:
            messages.success(request, outcome_toast(commit(act)))
            return HttpResponse(headers={"HX-Redirect": f"{reverse('dashboards:endpoints')}?state=retired"})
        except Refused as refusal:
            form.refused(refusal)
    context = {"endpoint": row, "form": form, "use": endpoint_use(row, timezone.now()), "days": DAYS}
    return render(request, "dashboards/endpoints/retire_form.html", context, status=422 if form.is_bound else 200)
