"""Saves shares from the table, a pool's own numbers, new pools and new members."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from dashboards.forms import CUT, ReasonedForm, outcome_toast, sentences_of
from dashboards.pages.pools.forms import (
    Confirmation,
    MemberForm,
    NewPoolForm,
    OwnedForm,
    PoolForm,
)
from dashboards.pages.pools.shares_form import SharesForm, shares_of
from dashboards.pages.pools.view import find_pool
from dashboards.viewer import principal_of
from quotas.changes.commit import Outcome, Written, commit
from quotas.changes.snapshot import POLICY, key_of
from quotas.errors import Refused
from quotas.matrix.edit import limits_plan
from quotas.pools.queries import PoolRow
from quotas.pools.shares import (
    WantedShare,
    member_add,
    pool_create,
    pool_set,
    shares_plan,
    shares_set,
)

SAVEBAR: Final = "dashboards/pools/savebar.html"
FORM: Final = "dashboards/pools/form.html"


@require_POST
def pool_plan(request: HttpRequest, name: str, limit: str) -> HttpResponse:
    """What saving these shares would do."""
    pool = find_pool(name, limit)
    wanted = shares_of(pool, request.POST)
    told = {"problems": [wanted]} if isinstance(wanted, str) else _told(request, pool, wanted)
    return render(request, "dashboards/pools/told.html", told)


def _told(request: HttpRequest, pool: PoolRow, wanted: list[WantedShare]) -> dict[str, Any]:
    """The dry run, as told.html shows it."""
    if not wanted:
        return {}
    try:
        plan = shares_plan(pool, wanted)
        found = limits_plan(edits=plan.edits, author=principal_of(request).actor)
    except Refused as refused:
        return {"problems": sentences_of(refused)}
    return {"found": found, "warnings": plan.promise.warnings}


@require_POST
def pool_shares(request: HttpRequest, name: str, limit: str) -> HttpResponse:
    """Saves all shares that were changed, in one revision."""
    pool = find_pool(name, limit)
    form, wanted = SharesForm(request.POST), shares_of(pool, request.POST)
    form.watch(form.saved(pool), key_of(POLICY, pool.policy))
    told: dict[str, Any] = {}
    if form.conflict:
        pass
    elif isinstance(wanted, str):
        form.add_error(None, wanted)
    elif not wanted:
        form.add_error(None, "No share was changed.")
    elif form.is_valid():
        said = {"reason": form.cleaned_data["reason"], "force": form.cleaned_data["force"]}
        write = partial(shares_set, policy=name, limit=limit, shares=wanted, author=principal_of(request).actor, **said)
        try:
            outcome = commit(form.in_turn(partial(form.saved_now, name, limit), write))
        except Refused as refused:
            told = _told_again(request, form, pool, wanted, refused)
        else:
            messages.success(request, outcome_toast(outcome))
            address = reverse("dashboards:pool", args=[name, limit])
            saved = f"?saved={outcome.revision.number}" if isinstance(outcome, Written) else ""
            return HttpResponse(headers={"HX-Redirect": f"{address}{saved}"})
    else:  # without a reason
        told = _told(request, pool, wanted)
    return render(request, SAVEBAR, {"form": form, **told}, status=422)


def _told_again(
    request: HttpRequest, form: SharesForm, pool: PoolRow, wanted: list[WantedShare], refused: Refused
) -> dict[str, Any]:
    """Of cuts the dry run has the list, so the form only asks to confirm them."""
    told = _told(request, pool, wanted) if is_cut(refused) else {}
    if "found" not in told:
        form.refused(refused)
        return {}
    form.add_error(None, "Nothing is saved yet: tick Apply anyway to confirm.")
    return told


def is_cut(refused: Refused) -> bool:
    """Whether force would help."""
    return all(problem.code == CUT for problem in refused.problems)


@require_http_methods(["GET", "HEAD", "POST"])
def pool_new(request: HttpRequest) -> HttpResponse:
    form = NewPoolForm(request.POST or None)
    if form.is_bound and form.is_valid():
        data = form.cleaned_data
        tier, tenant = _owner(data)
        fields = {**form.fields_wanted, "mode": data["mode"]}
        make = partial(pool_create, name=data["name"], fields=fields, endpoint=data["endpoint"])
        make = partial(make, tier=tier, tenant=tenant)
        outcome = _saved(request, form, make)
        if outcome is not None:
            made = outcome.result if isinstance(outcome, Written) else None
            return redirect("dashboards:pool", made.policy, made.name) if made else redirect("dashboards:pools")
    return _form(request, form, None, "New pool", "Create pool")


@require_http_methods(["GET", "HEAD", "POST"])
def pool_edit(request: HttpRequest, name: str, limit: str) -> HttpResponse:
    pool = find_pool(name, limit)
    algorithm = pool.algorithm
    present = {"rate": algorithm.describe()["rate"], "burst": algorithm.burst, "reserve": algorithm.reserve}
    form = PoolForm(request.POST or None, initial=present)
    if form.is_bound and form.is_valid():
        act = partial(pool_set, policy=name, limit=limit, fields=form.fields_wanted)
        if _saved(request, form, act) is not None:
            return redirect("dashboards:pool", name, limit)
    return _form(request, form, pool, f"Edit {pool.name}", "Save pool")


@require_http_methods(["GET", "HEAD", "POST"])
def pool_member_new(request: HttpRequest, name: str, limit: str) -> HttpResponse:
    pool = find_pool(name, limit)
    form = MemberForm(request.POST or None, initial={"tenant": request.GET.get("tenant", "")[:63]})
    if form.is_bound and form.is_valid():
        data = form.cleaned_data
        tier, tenant = _owner(data)
        fields = {key: Fraction(data[key]) for key in ("assured", "ceiling") if data.get(key) is not None}
        add = partial(member_add, policy=name, limit=limit, fields=fields, scope=data["scope"])
        act = partial(add, tier=tier, tenant=tenant)
        if _saved(request, form, act) is not None:
            return redirect("dashboards:pool", name, limit)
    return _form(request, form, pool, f"Add a member to {pool.name}", "Add member")


def _owner(data: dict[str, Any]) -> tuple[str | None, str | None]:
    """The tier or the tenant that was chosen."""
    tier, tenant = (data[kind] or None if data["owner"] == kind else None for kind in ("tier", "tenant"))
    return tier, tenant


def _saved(request: HttpRequest, form: ReasonedForm, act: Any) -> Outcome[Any] | None:
    act = partial(act, author=principal_of(request).actor)
    try:
        outcome: Outcome[Any] = commit(
            partial(act, reason=form.cleaned_data["reason"], force=form.cleaned_data["force"])
        )
    except Refused as refused:
        _refused(form, act, refused)
        return None
    messages.success(request, outcome_toast(outcome))
    return outcome


def _refused(form: ReasonedForm, act: Any, refused: Refused) -> None:
    """Something new that limits somebody is asked about; everything else says why not."""
    if isinstance(form, OwnedForm) and is_cut(refused):
        form.confirmation = _confirmation(act)
        if form.confirmation is not None:
            return
    form.refused(refused)


def _confirmation(act: Any) -> Confirmation | None:
    """None: there is more to it than limits that get tighter."""
    try:
        impact = commit(partial(act, reason="dry run", force=True), "dry_run").impact
    except Refused:
        return None
    return Confirmation(impact) if impact.cuts and not impact.unenforced else None


def _form(request: HttpRequest, form: ReasonedForm, pool: PoolRow | None, title: str, verb: str) -> HttpResponse:
    hints = getattr(form, "hints", {})
    fields = [
        (form[name], hints.get(name, ""), f"for-{name}" if name in OwnedForm.asked else "")
        for name in form.fields
        if name != "force"
    ]
    context = {"form": form, "pool": pool, "title": title, "verb": verb, "lines": fields}
    is_refused = form.errors or getattr(form, "confirmation", None)
    return render(request, FORM, context, status=422 if is_refused else 200)
