"""Saving, changing and deleting views of lists."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboards.forms import PageForm, told
from dashboards.lists import ORDER, Asked, ViewTabs, view_address
from dashboards.viewer import principal_of
from quotas.errors import Refused
from quotas.models.saved_view import LONGEST_NAME
from quotas.saved_views import may_share, view_create, view_delete, view_get, view_update

# Pages with views, and the parameters that a view of each keeps.
PAGES = {
    "tenants": ("q", "tier", "state", "tag"),
    "overrides": ("q", "state", "tier", "endpoint", "tenant"),
}


class ViewForm(PageForm):
    name = forms.CharField(label="Name", max_length=LONGEST_NAME, error_messages={"required": "Give the view a name."})
    shared = forms.BooleanField(required=False, widget=forms.CheckboxInput({"role": "switch"}))
    query = forms.CharField(required=False, widget=forms.HiddenInput)

    fields_of: ClassVar[dict[str, str]] = {"shared": "shared"}


def view_form(asked: Asked) -> ViewForm:
    return ViewForm(initial={"query": asked.query}, auto_id="v_%s")


@require_POST
def view_save(request: HttpRequest, page: str) -> HttpResponse:
    kept, principal = _kept(page), principal_of(request)
    form = ViewForm(request.POST, auto_id="v_%s")
    if form.is_valid():
        data = form.cleaned_data
        query = canonical(data["query"], kept)
        try:
            view = view_create(principal, page=page, name=data["name"], query=query, is_shared=data["shared"])
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, f"View saved|{view.name}")
            return HttpResponse(headers={"HX-Redirect": _address(page) + view_address(view)})
    context = {"form": form, "views": ViewTabs(page, ()), "may_share": may_share(principal)}
    return render(request, "dashboards/lists/view_form.html", context, status=422)


@require_POST
def view_change(request: HttpRequest, page: str, number: int) -> HttpResponse:
    """Keeps the present search, filters and order under the same name."""
    query, principal = canonical(request.POST.get("query", ""), _kept(page)), principal_of(request)
    told(
        request,
        lambda: view_update(principal, view_get(principal, page, number), query=query),
        lambda view: f"View saved|{view.name}",
    )
    return redirect(f"{_address(page)}?{query}{'&' if query else ''}view={number}")


@require_POST
def view_remove(request: HttpRequest, page: str, number: int) -> HttpResponse:
    _kept(page)
    principal = principal_of(request)
    told(request, lambda: view_delete(principal, view_get(principal, page, number)), lambda _: "View deleted")
    return redirect(_address(page))


def canonical(query: str, kept: tuple[str, ...]) -> str:
    """As `Asked.query` writes it: the page's own parameters alone, in its order."""
    given = QueryDict(query)
    found = {name: values for name in (*kept, ORDER) if (values := list(filter(None, given.getlist(name))))}
    return urlencode(found, doseq=True)


def _kept(page: str) -> tuple[str, ...]:
    if page not in PAGES:
        raise Http404
    return PAGES[page]


def _address(page: str) -> str:
    return reverse(f"dashboards:{page}")
