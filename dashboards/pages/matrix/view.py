"""The limits matrix, tier × endpoint. Every edit has a dry run; an edit of several cells is one revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboards.forms import number_of
from dashboards.pages.matrix.cells import matrix_table, title_of, without_own
from dashboards.pages.matrix.forms import CellForm, CellsForm, Selection, edits_of
from dashboards.viewer import principal_of
from headroom_edge.algorithms.sharing import Borrowing
from quotas.changes.commit import Outcome, Proposed, Written, commit
from quotas.changes.rollout import change_propose, change_start
from quotas.changes.turn import turn
from quotas.errors import Refused
from quotas.matrix.edit import Edit, limits_plan, limits_set, sheet_write
from quotas.matrix.queries import OF_TENANT, Cell, Matrix, matrix_read, tenant_cell_read
from quotas.policies.chains import fit_words
from quotas.policies.limit_codec import limit_parse
from quotas.policies.limit_words import sharing_words
from quotas.policies.queries import lender_read
from quotas.pools.promises import warnings_of
from quotas.publishing.queries import publish_progress_read
from quotas.publishing.store import StoreError
from quotas.usage.queries.near_limits import tier_usage_read

MOST_CELLS = 500  # in one edit


@require_safe
def matrix(request: HttpRequest) -> HttpResponse:
    measured, whole = tier_usage_read(), matrix_read(timezone.now())
    plain, shows_own = without_own(whole), request.GET.get("own") == "1"
    context = {
        "matrix": matrix_table(whole if shows_own else plain, measured),
        "measured": measured,
        "shows_own": shows_own,
        "has_own": plain != whole,
    }
    return render(request, "dashboards/matrix/page.html", context)


@require_safe
def matrix_csv(request: HttpRequest) -> HttpResponse:
    headers = {"Content-Disposition": 'attachment; filename="limits.csv"'}
    return HttpResponse(sheet_write(), content_type="text/csv; charset=utf-8", headers=headers)


@require_safe
def matrix_cell(request: HttpRequest) -> HttpResponse:
    """The editor for the selected cells."""
    cells = cells_at(request.GET.getlist("at"))
    if not cells:
        return _no_cells()
    return _editor(request, cells, _form(cells, request.GET.get("limit", "")))


@require_POST
def matrix_plan(request: HttpRequest) -> HttpResponse:
    """A dry run of the edit, requested while the user types."""
    cells = cells_at(request.POST.getlist("at"))
    if not cells:
        return _no_cells()
    form = _bound(request, cells)
    context: dict[str, Any] = {"form": form}
    if form.is_valid() and not form.is_unnamed:
        try:
            edits = edits_of(cells, form)
            context |= _planned(edits, form, principal_of(request).actor)
        except Refused as refusal:
            form.refused(refusal)
    return render(request, "dashboards/matrix/dry_run.html", context)


@require_POST
def matrix_publish(request: HttpRequest) -> HttpResponse:
    cells = cells_at(request.POST.getlist("at"))
    if not cells:
        return _no_cells()
    form = _bound(request, cells, is_final=True)
    plan: dict[str, Any] = {}
    form.watch_chosen()
    if form.conflict:
        return _editor(request, cells, form)
    if form.is_valid():
        try:
            edits = edits_of(cells, form)
            if request.POST.get("do") == "trial":
                return _on_trial(request, edits, form)
            return _published(request, _write(request, edits, form))
        except Refused as refusal:
            if form.conflict:
                return _editor(request, cells_at(form.selection.keys), form)
            plan = _plan_if_any(cells, form, principal_of(request).actor)
            form.refused(refusal)
    return _editor(request, cells, form, **plan)


@require_safe
def matrix_published(request: HttpRequest) -> HttpResponse:
    """The publishing progress of a revision."""
    number = number_of(request.GET.get("revision", ""))
    if number is None:
        return HttpResponseBadRequest("revision must be a number.", content_type="text/plain")
    try:
        progress, unreachable = publish_progress_read(number), ""
    except StoreError as error:
        progress, unreachable = None, str(error)
    return render(
        request,
        "dashboards/matrix/progress.html",
        {"progress": progress, "unreachable": unreachable, "revision": number},
    )


def _no_cells() -> HttpResponse:
    return HttpResponseBadRequest("No such cell. Reload the page.", content_type="text/plain")


def cells_at(keys: Sequence[str]) -> list[Cell]:
    """By `Cell.key`. Cells that do not exist are left out."""
    found: Matrix | None = None
    cells: list[Cell | None] = []
    for key in keys[:MOST_CELLS]:
        owner, _, scope = key.partition("/")
        if owner.startswith(OF_TENANT):
            cells.append(tenant_cell_read(owner.removeprefix(OF_TENANT), scope))
        else:
            found = found or matrix_read(timezone.now())
            cells.append(found.cell(owner, scope))
    return [cell for cell in cells if cell]


def _form(cells: Sequence[Cell], limit: str) -> CellForm | CellsForm:
    selection = Selection(cells)
    return CellForm.of(selection, limit) if selection.is_single else CellsForm(selection)


def _bound(request: HttpRequest, cells: Sequence[Cell], is_final: bool = False) -> CellForm | CellsForm:
    selection = Selection(cells)
    kind = CellForm if selection.is_single else CellsForm
    form = kind(selection, request.POST)
    form.fields["reason"].required = is_final
    return form


def _editor(request: HttpRequest, cells: Sequence[Cell], form: CellForm | CellsForm, **plan: Any) -> HttpResponse:
    context = {"form": form, "cells": cells, "selection": form.selection, "title": title_of(cells[0].owner), **plan}
    return render(request, "dashboards/matrix/editor.html", context)


def _planned(edits: Sequence[Edit], form: CellForm | CellsForm, author: str) -> dict[str, Any]:
    plan = limits_plan(edits=edits, author=author, carry=form.cleaned_data["carry"])
    return {"plan": plan, "edits": edits, "buys": _buys(edits), "warnings": warnings_of(plan)}


def _buys(edits: Sequence[Edit]) -> list[str]:
    """What a limit that shares buys, in words. Empty for others, for none and for several."""
    edit = edits[0] if len(edits) == 1 else None
    if edit is None or edit.fields is None:
        return []
    algorithm = limit_parse(edit.name, edit.fields).algorithm
    if not isinstance(algorithm, Borrowing):
        return [*sharing_words(algorithm)]
    lender = lender_read(algorithm.parent, tier=edit.tier, tenant=edit.tenant)
    fits = fit_words(algorithm.parent, lender, algorithm) if lender else ()
    return [*sharing_words(algorithm), *fits]


def _plan_if_any(cells: Sequence[Cell], form: CellForm | CellsForm, author: str) -> dict[str, Any]:
    """Beside a refusal: a cut is refused, but its plan shows whom it hurts."""
    try:
        return _planned(edits_of(cells, form), form, author)
    except Refused:
        return {}


def _write(request: HttpRequest, edits: Sequence[Edit], form: CellForm | CellsForm) -> Outcome[object]:
    fields = form.cleaned_data
    write = partial(
        limits_set,
        edits=edits,
        author=principal_of(request).actor,
        reason=fields["reason"],
        carry=fields["carry"],
        force=fields["force"],
    )

    def checked() -> object:
        form.check_chosen()
        return write()

    return commit(checked, "propose" if request.POST.get("do") == "draft" else "write")


def _on_trial(request: HttpRequest, edits: Sequence[Edit], form: CellForm | CellsForm) -> HttpResponse:
    """The values are counted beside the live limits, which stay enforced."""
    beside = [replace(edit, fields=edit.fields and {**edit.fields, "mode": "enforce"}) for edit in edits]
    who = {"author": principal_of(request).actor, "reason": form.cleaned_data["reason"]}
    with turn():
        form.check_chosen()
        change = change_propose(limits_set, edits=beside, carry=form.cleaned_data["carry"], **who)
        change_start(change=change.pk, mode="shadow", **who)
    return HttpResponse(headers={"HX-Redirect": reverse("dashboards:change", args=[change.pk])})


def _published(request: HttpRequest, outcome: Outcome[object]) -> HttpResponse:
    response = render(
        request,
        "dashboards/matrix/published.html",
        {
            "change": outcome.change if isinstance(outcome, Proposed) else None,
            "revision": outcome.revision if isinstance(outcome, Written) else None,
        },
    )
    # matrix.js refreshes the grid in place.
    response.headers["HX-Trigger"] = "matrix:changed"
    return response
