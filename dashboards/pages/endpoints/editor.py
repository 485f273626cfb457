"""Registering and editing an endpoint, with a match test while one types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from dashboards.conflicts import WatchedForm
from dashboards.forms import PRIORITY_CHOICES, ReasonedForm, outcome_toast
from dashboards.viewer import principal_of
from headroom_edge.algorithms.base import ParameterError
from headroom_edge.keys import OWN_TENANT
from headroom_edge.plan.priority import USUAL
from headroom_edge.plan.routes import Route
from quotas.changes.commit import commit
from quotas.changes.snapshot import ENDPOINT, key_of
from quotas.endpoints import endpoint_create, endpoint_update
from quotas.errors import Refused
from quotas.matrix.queries import EVERYONE, matrix_read
from quotas.models import Endpoint
from quotas.policies.endpoint import LONGEST_NAME, LONGEST_PATH, path_template
from quotas.policies.limit_words import limit_short
from quotas.policies.problems import sentence
from quotas.policies.spec import EVERYWHERE, METHODS, MOST_COST
from quotas.route_match import MOST_TYPED, route_match, routes_read
from quotas.usage.queries.near_limits import tier_usage_read

YES_OR_NO = [("", "Not stated"), ("yes", "Yes"), ("no", "No")]
CLIENTS = [("", "Not stated"), ("few", "Few"), ("many", "Many")]
NEW = "(new)"  # cannot be the name of an endpoint
LONGEST_TYPED = 20_000


class EndpointForm(ReasonedForm, WatchedForm):
    service = forms.CharField(label="Service", max_length=LONGEST_NAME, required=False)
    operation = forms.CharField(label="Name", max_length=LONGEST_NAME, required=False)
    method = forms.ChoiceField(label="Method", choices=[(one, "Any" if one == "*" else one) for one in METHODS])
    path = forms.CharField(label="Path", max_length=LONGEST_PATH, required=False)
    default_cost = forms.IntegerField(label="Default cost", min_value=1, max_value=MOST_COST)
    priority = forms.ChoiceField(label="Priority", choices=PRIORITY_CHOICES, required=False, initial=USUAL)
    bursty = forms.ChoiceField(label="Can absorb bursts", choices=YES_OR_NO, required=False)
    clients = forms.ChoiceField(label="Clients", choices=CLIENTS, required=False)
    exact = forms.ChoiceField(label="Must count exactly", choices=YES_OR_NO, required=False)
    force = forms.BooleanField(label="Save anyway: I have reviewed these cuts", required=False)

    watched = ("method", "path", "default_cost", "priority", "bursty", "clients", "exact")
    fields_of: ClassVar[dict[str, str]] = {"name": "operation", "hints.clients": "clients"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("service", "operation", "path"):
            attributes = {"class": "input mono", "autocomplete": "off", "spellcheck": "false"}
            self.fields[name].widget.attrs |= attributes
        self.fields["service"].widget.attrs |= {"autofocus": True}
        self.fields["path"].widget.attrs |= {"placeholder": "/v1/rides/{id}"}
        self.fields["default_cost"].widget.attrs |= {"class": "input num"}

    def endpoint_fields(self) -> dict[str, Any]:
        data = self.cleaned_data
        hints: dict[str, Any] = {name: data[name] == "yes" for name in ("bursty", "exact") if data[name]}
        if data["clients"]:
            hints["clients"] = data["clients"]
        kept = {name: data[name] for name in ("method", "path", "default_cost", "force")}
        return {**kept, "priority": data["priority"] or USUAL, "hints": hints}


@require_http_methods(["GET", "HEAD", "POST"])
def endpoint_new(request: HttpRequest) -> HttpResponse:
    """The address may fill the form: `?name=` of a retired endpoint, or any fields."""
    form = EndpointForm(request.POST) if request.method == "POST" else EndpointForm(initial=_initial(request))
    if form.is_bound and form.is_valid():
        name = f"{form.cleaned_data['service']}:{form.cleaned_data['operation']}"
        create = partial(endpoint_create, name=name, **_said(request, form), **form.endpoint_fields())
        if (saved := _saved(request, form, create, name)) is not None:
            return saved
    return _page(request, form, None)


@require_http_methods(["GET", "HEAD", "POST"])
def endpoint_edit(request: HttpRequest, name: str) -> HttpResponse:
    row = Endpoint.objects.filter(name=name, retired=False).first()
    if row is None:
        raise Http404(f"No endpoint is called {name}.")
    form = EndpointForm(request.POST) if request.method == "POST" else EndpointForm(initial=fields_of(row))
    form.watch(fields_of(row), key_of(ENDPOINT, name))
    if form.is_bound and not form.conflict and form.is_valid():
        update = partial(endpoint_update, name=name, **_said(request, form), **form.endpoint_fields())
        if (saved := _saved(request, form, form.in_turn(partial(_fields_now, name), update), name)) is not None:
            return saved
    return _page(request, form, row)


def _saved(request: HttpRequest, form: EndpointForm, act: Any, name: str) -> HttpResponse | None:
    try:
        outcome = commit(act)
    except Refused as refusal:
        form.refused(refusal)
        return None
    messages.success(request, outcome_toast(outcome))
    if request.POST.get("then") == "limit":
        return redirect(f"{reverse('dashboards:matrix')}?{urlencode({'at': f'{EVERYONE}/{name}'})}")
    is_there = Endpoint.objects.filter(name=name, retired=False).exists()
    return redirect("dashboards:endpoint", name) if is_there else redirect("dashboards:endpoints")


def _said(request: HttpRequest, form: EndpointForm) -> dict[str, Any]:
    return {"author": principal_of(request).actor, "reason": form.cleaned_data["reason"]}


def fields_of(row: Endpoint) -> dict[str, Any]:
    service, _, operation = row.name.partition(":")
    words = {True: "yes", False: "no"}
    hints = {name: words.get(value, value) for name, value in row.hints.items()}
    fields = {"method": row.method, "path": row.path, "default_cost": row.default_cost, "priority": row.priority}
    return {"service": service, "operation": operation, **fields, **hints}


def _fields_now(name: str) -> dict[str, Any] | None:
    row = Endpoint.objects.filter(name=name, retired=False).first()
    return fields_of(row) if row else None


def _initial(request: HttpRequest) -> dict[str, Any]:
    asked = request.GET
    retired = Endpoint.objects.filter(name=asked.get("name", "")[:LONGEST_NAME], retired=True).first()
    if retired is not None:
        return fields_of(retired)
    given = {
        name: asked.get(name, "") for name in ("service", "operation", "method", "path", "default_cost", "priority")
    }
    usual = {"method": "GET", "default_cost": 1, "priority": USUAL}
    return {**usual, **{name: value for name, value in given.items() if value}}


@dataclass(frozen=True, slots=True)
class HeldLimit:
    owner: str
    words: str


def _page(request: HttpRequest, form: EndpointForm, row: Endpoint | None) -> HttpResponse:
    context = {"form": form, "endpoint": row, "held": _held(row), "most_typed": MOST_TYPED, **_matched(form, row, "")}
    status = 409 if form.conflict else 422 if form.errors else 200
    return render(request, "dashboards/endpoints/edit.html", context, status=status)


def _held(row: Endpoint | None) -> Sequence[HeldLimit]:
    """The limits that hold for the endpoint: on a new one, those on `*`."""
    scope = row.name if row else EVERYWHERE
    matrix = matrix_read(timezone.now())
    line = next((line for line in matrix.lines if line.scope == scope), None)
    cells = [cell for cell in line.cells if cell.tier != OWN_TENANT] if line else []
    return [
        HeldLimit(cell.tier or "everyone", str(limit_short(one.limit.algorithm)))
        for cell in cells
        for one in (*cell.limits, *cell.inherited)
    ]


@require_POST
def endpoint_match(request: HttpRequest) -> HttpResponse:
    """The match test of what is typed. Nothing is saved."""
    form = EndpointForm(request.POST)
    form.is_valid()
    row = Endpoint.objects.filter(name=request.POST.get("endpoint", "")[:LONGEST_NAME], retired=False).first()
    context = _matched(form, row, request.POST.get("paths", "")[:LONGEST_TYPED])
    return render(request, "dashboards/endpoints/match.html", context)


def _matched(form: EndpointForm, row: Endpoint | None, typed: str) -> Mapping[str, Any]:
    path, method = str(form["path"].value() or "").strip(), str(form["method"].value() or "")
    try:
        path_template(path)
    except ParameterError as error:
        return {"match_problem": sentence(error.message)}
    if method not in METHODS:
        return {"match_problem": f"Choose one of the methods {', '.join(METHODS)}."}
    registered = routes_read()
    wanted = Route(row.name if row else NEW, method, path)
    found = route_match(wanted, registered, typed.splitlines())
    measured = tier_usage_read()
    taken = [
        (name, sum(use.asked for (_, n), use in measured.rows.items() if n == measured.endpoints.get(name)))
        for name in found.taken_from
    ]
    return {"match": found, "taken": taken, "has_path": bool(path), "is_measured": measured.is_measured}
