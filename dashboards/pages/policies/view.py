"""The list of policies (of tenants, tiers, services and everyone), and one of them with the matrix' editor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from dashboards.pages.matrix.view import cells_at
from dashboards.pages.policies.forms import ListForm, PlaceForm
from dashboards.pages.policies.lines import PolicyLine
from quotas.changes.snapshot import POLICY, key_of, snapshots
from quotas.matrix.queries import Cell
from quotas.models import Endpoint, Policy
from quotas.policies.export import document_text, without_candidates
from quotas.policies.queries import KINDS, policies_read, policy_read

PAGE: Final = 50
COLUMNS: Final = (("name", "Policy"), ("owner", "For"), ("endpoint", "Endpoint"), ("changed", "Changed"))
KIND_WORDS: Final = {"": "All", "tenant": "Tenants", "tier": "Tiers", "everyone": "Everyone"}


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    href: str
    state: str = ""  # of a column: ascending or descending; of a filter: true


@require_safe
def policies(request: HttpRequest) -> HttpResponse:
    """`?for=acme` opens the dialog for a limit of that tenant."""
    form = ListForm(request.GET)
    wanted, number = form.wanted(), form.page_number
    found = policies_read(wanted, (number - 1) * PAGE, PAGE)
    context = {
        "lines": [PolicyLine(row) for row in found.rows],
        "found": found,
        "wanted": wanted,
        "kinds": [_kind(request, kind, wanted.kind) for kind in ("", *KINDS)],
        "columns": [_column(request, name, label, wanted.order) for name, label in COLUMNS],
        "first": (number - 1) * PAGE + 1,
        "last": (number - 1) * PAGE + len(found.rows),
        "before": _address(request, page=str(number - 1)) if number > 1 else "",
        "after": _address(request, page=str(number + 1)) if number * PAGE < found.count else "",
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


def _kind(request: HttpRequest, kind: str, wanted: str) -> Link:
    return Link(KIND_WORDS[kind], _address(request, kind=kind, page=""), "true" if kind == wanted else "")


def _column(request: HttpRequest, name: str, label: str, order: str) -> Link:
    turned = f"-{name}" if order == name else name
    sort = {name: "ascending", f"-{name}": "descending"}.get(order, "")
    return Link(label, _address(request, order=turned, page=""), sort)


def _address(request: HttpRequest, **changed: str) -> str:
    kept = {name: request.GET.get(name, "") for name in ("q", "kind", "endpoint", "order", "page")} | changed
    return "?" + urlencode({name: value for name, value in kept.items() if value})
