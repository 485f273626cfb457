"""The list of policies (of tenants, tiers, services and everyone), and one of them with the matrix' editor."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from dashboards.lists import asked_of
from dashboards.pages.matrix.view import cells_at
from dashboards.pages.policies.forms import PlaceForm
from dashboards.pages.policies.lines import PolicyLine
from quotas.changes.snapshot import POLICY, key_of, snapshots
from quotas.keyset import count_up_to, keyset_page
from quotas.matrix.queries import Cell
from quotas.models import Endpoint, Policy
from quotas.policies.export import document_text, without_candidates
from quotas.policies.queries import KINDS, ORDERS, PolicyFilter, policies_found, policy_read

FILTERS: Final = ("q", "kind", "endpoint")
KIND_WORDS: Final = {"": "All", "tenant": "Tenants", "tier": "Tiers", "everyone": "Everyone"}


@require_safe
def policies(request: HttpRequest) -> HttpResponse:
    """`?for=acme` opens the dialog for a limit of that tenant."""
    asked = asked_of(request, FILTERS, ORDERS, default="name")
    kind = asked.one("kind") if asked.one("kind") in KINDS else ""
    found = policies_found(PolicyFilter(asked.one("q"), kind, asked.one("endpoint")))
    page = keyset_page(found, ORDERS, order=asked.order, after=asked.after, before=asked.before)
    context = {
        "lines": [PolicyLine(row) for row in page.rows],
        "asked": asked,
        "text": asked.one("q"),
        "endpoint": asked.one("endpoint"),
        "kind": kind,
        "kinds": [(KIND_WORDS[each], asked.address(kind=each), each == kind) for each in ("", *KINDS)],
        "count": count_up_to(found),
        "page": page,
        "next_address": asked.address(after=page.next),
        "previous_address": asked.address(before=page.previous),
        "form": PlaceForm(auto_id="place_%s", initial={"tenant": request.GET.get("for", "")[:63]}),
        "is_adding": "for" in request.GET,
        "endpoints": Endpoint.objects.filter(retired=False).order_by("name").values_list("name", flat=True),
    }
    return render(request, "dashboards/policies/list.html", context)


@require_http_methods(["GET", "POST"])
def policy_new(request: HttpRequest) -> HttpResponse:
    """POST leads to the place that was chosen. GET is the editor there; its first limit makes the policy."""
    if request.method == "POST":
        return _chosen(request)
    cell = next(iter(cells_at([request.GET.get("at", "")])), None)
    if cell is None:
        raise Http404
    return render(request, "dashboards/policies/new.html", {"cell": cell, "owner": cell.owner or "everyone"})


def _chosen(request: HttpRequest) -> HttpResponse:
    form = PlaceForm(request.POST, auto_id="place_%s")
    if form.is_valid():
        cell = next(iter(cells_at([form.key])), None)
        if cell is not None:
            return HttpResponse(headers={"HX-Redirect": _of_cell(cell)})
        form.add_error(None, "There is no such tenant or endpoint. Correct the name.")
    return render(request, "dashboards/policies/place_form.html", {"form": form}, status=422)


def _of_cell(cell: Cell) -> str:
    if cell.policy:
        return reverse("dashboards:policy", args=[cell.policy])
    return f"{reverse('dashboards:policy-new')}?{urlencode({'at': cell.key})}"


@require_safe
def policy(request: HttpRequest, name: str) -> HttpResponse:
    row = find(name)
    context = {"line": PolicyLine(row), "policy": row, "yaml": _yaml(name), "opened": request.GET.get("limit", "")}
    return render(request, "dashboards/policies/page.html", context)


@require_safe
def policy_yaml(request: HttpRequest, name: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{find(name).name}.yaml"'}
    return HttpResponse(_yaml(name), content_type="application/yaml; charset=utf-8", headers=headers)


def find(name: str) -> Policy:
    row = policy_read(name)
    if row is None:
        raise Http404
    return row


def _yaml(name: str) -> str:
    key = key_of(POLICY, name)
    state = without_candidates(snapshots([key])[key]) or {}
    lines = document_text({key: state}, f"policy {name}", {}).splitlines()
    return "\n".join(line for line in lines if line not in ("tiers: []", "endpoints: []")) + "\n"
