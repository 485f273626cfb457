"""Saves shares from the table, a pool's own numbers, new pools and new members."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from dashboards.conflicts import WatchedForm
from dashboards.forms import CUT, RateField, ReasonedForm, amount_typed, number_of, outcome_toast, sentences_of
from dashboards.pages.pools.demand import Demand
from dashboards.pages.pools.figures import row_key
from dashboards.pages.pools.view import find_pool
from dashboards.templatetags.numbers import unlocalized
from dashboards.viewer import principal_of
from headroom_edge.algorithms.base import counted
from headroom_edge.algorithms.bucket import MOST_DECIMALS, MOST_DIGITS
from headroom_edge.algorithms.sharing import Borrowing
from headroom_edge.keys import OWN_TENANT
from quotas.changes.commit import Outcome, Written, commit
from quotas.changes.impact import Impact, OwnedCut
from quotas.changes.snapshot import POLICY, key_of
from quotas.errors import Refused
from quotas.matrix.edit import limits_plan
from quotas.models import Endpoint, Revision
from quotas.policies.spec import EVERYWHERE
from quotas.pools.amounts import KEEP, Units, amounts_of
from quotas.pools.demand import demand_numbered
from quotas.pools.members import shares_now
from quotas.pools.queries import PoolRow, pool_read
from quotas.pools.shares import (
    MOST_SHARES,
    WantedShare,
    member_add,
    pool_create,
    pool_set,
    shares_plan,
    shares_set,
)
from quotas.pools.use import ShareKey
from tenants.models import Tier

OWNERS: Final = [("", "Everyone together"), ("tier", "Each tenant of a tier"), ("tenant", "One tenant")]
TIMES: Final = re.compile(r"\b(shorten|lengthen) per\b")
LEAST: Final = "0.000001"  # above 0, with as many decimals as an amount may have
PLACES: Final = "pool-places"  # the list of suggested endpoints
MOST_SUGGESTED: Final = 200
MOST_SAID: Final = 10  # limits that a confirmation lists
SAVEBAR: Final = "dashboards/pools/savebar.html"
FORM: Final = "dashboards/pools/form.html"


class SharesForm(ReasonedForm, WatchedForm):
    """The rows that can be edited: `k-3` says whose row 3 is, `was-g-3` what it showed, `g-3` what it has now."""

    force = forms.BooleanField(required=False)

    def __init__(self, posted: QueryDict) -> None:
        self.rows = {index: key for index, key in _rows(posted) if f"g-{index}" in posted}
        watched = [f"{name}-{index}" for index in self.rows for name in ("g", "c")]
        seen = {name: posted.get(f"was-{name}", "") for name in watched}
        super().__init__({**posted.dict(), "seen": json.dumps(seen)})
        self.watched = tuple(watched)
        self.policies: set[str] = set()
        for index, whose in _names(self.rows).items():
            self.fields[f"g-{index}"] = forms.CharField(required=False, label=f"the share of {whose}")
            self.fields[f"c-{index}"] = forms.CharField(required=False, label=f"the ceiling of {whose}")

    def saved(self, pool: PoolRow) -> dict[str, str]:
        """The shares as they are now."""
        tenants = {key.partition("|")[0] for key in self.rows.values()} - {""}
        present = {row_key(pool, share): share for share in shares_now(pool, tenants)}
        self.policies = {pool.policy, *(share.policy for share in present.values())}
        found: dict[str, str] = {}
        for index, key in self.rows.items():
            share = present.get(key)
            assured, ceiling = (share.assured(pool.algorithm), share.ceiling(pool.algorithm)) if share else (None, None)
            found |= {f"g-{index}": _shown(assured), f"c-{index}": _shown(ceiling)}
        return found

    def saved_now(self, policy: str, limit: str) -> dict[str, str] | None:
        """None: the pool is gone."""
        pool = pool_read(policy, limit)
        return None if pool is None else self.saved(pool)

    def revisions(self) -> QuerySet[Revision]:
        """Since the page was read. A policy that was removed with its share is not known any more."""
        since = number_of(self.data.get("at", "")) or 0
        return Revision.objects.filter(number__gt=since, touched__overlap=[key_of(POLICY, p) for p in self.policies])

    @property
    def theirs(self) -> dict[str, str]:
        """After a conflict: what the rows have to show as saved."""
        return json.loads(self.data["seen"]) if self.conflict else {}


def _whole(label: str, least: int, required: str = "") -> forms.IntegerField:
    """`required`: what is said when it is left empty; empty: it may be."""
    messages = {
        "required": required,
        "invalid": f"{label} must be a whole number, such as {max(least, 20)}.",
        "min_value": f"{label} must be at least {least}.",
    }
    return forms.IntegerField(label=label, min_value=least, required=bool(required), error_messages=messages)


def _names(rows: Mapping[int, str]) -> dict[int, str]:
    """Whose share each row is: the tenant or the limit, with the place if one has several."""
    parts = {index: (key.partition("|")[0] or key.rpartition("|")[2], key.split("|")[1]) for index, key in rows.items()}
    names = [name for name, _ in parts.values()]
    return {index: f"{name} on {scope}" if names.count(name) > 1 else name for index, (name, scope) in parts.items()}


def _amount(label: str, least: str, too_low: str, required: str = "") -> forms.DecimalField:
    """`too_low`: what is said of less than the least."""
    messages = {
        "required": required,
        "invalid": f"{label} must be a number, such as 20 or 4.2.",
        "min_value": too_low,
        "max_decimal_places": f"{label} has more than {MOST_DECIMALS} decimals. Round it.",
        "max_digits": f"{label} has too many digits. Round it.",
        "max_whole_digits": f"{label} is too high.",
    }
    bounds = {"min_value": Decimal(least), "max_digits": MOST_DIGITS, "decimal_places": MOST_DECIMALS}
    return forms.DecimalField(label=label, required=bool(required), error_messages=messages, **bounds)


def _text(label: str, longest: int, required: str = "", **more: Any) -> forms.CharField:
    messages = {"required": required, "max_length": f"Shorten it to {longest} characters."}
    return forms.CharField(label=label, max_length=longest, required=bool(required), error_messages=messages, **more)


def _shown(value: Fraction | None) -> str:
    return unlocalized(None if value is None else float(value))


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What has to be confirmed before it is saved."""

    impact: Impact

    @property
    def words(self) -> str:
        whom = counted(self.impact.hurt_count, "tenant", "tenants")
        does = f"starts to limit {whom}" if self.impact.is_new_only else f"leaves {whom} less"
        return f"This {does}{self._place}."

    @property
    def _place(self) -> str:
        places = {cut.endpoint for cut in self.impact.cuts}
        if len(places) > 1:
            return f" on {len(places)} endpoints"
        return " on all endpoints" if EVERYWHERE in places else f" on {next(iter(places))}"

    @property
    def listed(self) -> Sequence[OwnedCut]:
        return self.impact.cuts[:MOST_SAID]

    @property
    def more(self) -> int:
        return self.impact.cut_count - len(self.listed)


class OwnedForm(ReasonedForm):
    """Asks for the tier or the tenant that was chosen: without it, the limit would be for everyone."""

    confirmation: Confirmation | None = None

    asked: ClassVar[dict[str, str]] = {"tier": "Choose a tier.", "tenant": "Enter a tenant."}

    tier = forms.ChoiceField(
        label="Tier", required=False, error_messages={"invalid_choice": "This tier is gone. Choose another."}
    )
    tenant = _text("Tenant", 63)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tier"].choices = _tier_choices()  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any] | None:
        data = super().clean()
        kind = self.cleaned_data.get("owner", "")
        if kind in self.asked and kind not in self.errors and not self.cleaned_data.get(kind):
            self.add_error(kind, self.asked[kind])
        return data


def shares_of(pool: PoolRow, posted: QueryDict) -> list[WantedShare] | str:
    """The rows of the table that were changed; a sentence if one cannot be read."""
    found, proposed = [], _proposed(pool, posted)
    for index, key in _rows(posted):
        tenant, _, rest = key.partition("|")
        scope, _, limit = rest.rpartition("|")
        share = WantedShare(tenant, limit, scope)
        proposal = proposed.get((tenant, scope, limit))
        assured, ceiling = _changed(posted, "g", index), _changed(posted, "c", index)
        if posted.get(f"r-{index}"):
            found.append(replace(share, is_removed=True))
        elif "" in (assured, ceiling):
            return f"Enter numbers such as 20 or 4.2 for {tenant or limit}."
        elif proposal and _is_left(pool, posted, index, proposal):
            found.append(replace(share, exactly=proposal))
        elif (assured, ceiling) != (KEEP, KEEP):
            found.append(replace(share, assured=assured, ceiling=ceiling))  # type: ignore[arg-type]
    return found


def _proposed(pool: PoolRow, posted: QueryDict) -> Mapping[ShareKey, Borrowing]:
    """The proposal that filled in the table; empty: none did."""
    number = number_of(posted.get("demand", ""))
    return Demand(demand_numbered(pool, number)).proposed if number is not None else {}


def _is_left(pool: PoolRow, posted: QueryDict, index: int, proposal: Borrowing) -> bool:
    """Whether the row has what was filled in."""
    amounts = amounts_of(pool.algorithm, proposal)
    typed = [posted.get(f"{name}-{index}", "").strip() for name in ("g", "c")]
    return typed == [_shown(amounts.assured), _shown(amounts.ceiling)]


def _rows(posted: QueryDict) -> Iterator[tuple[int, str]]:
    for index in range(2 * MOST_SHARES):
        key = posted.get(f"k-{index}")
        if key is not None and key.count("|") >= 2:
            yield index, key


def _changed(posted: QueryDict, name: str, index: int) -> Units | str | None:
    """KEEP: as it was. None: no ceiling. Empty: it cannot be read."""
    if f"{name}-{index}" not in posted:
        return KEEP  # a row that cannot be edited
    typed, was = posted.get(f"{name}-{index}", "").strip(), posted.get(f"was-{name}-{index}", "").strip()
    if typed == was:
        return KEEP
    if not typed and name == "c":
        return None
    number = amount_typed(typed)
    return "" if number is None or isinstance(number, str) else Fraction(repr(number))


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


class PoolForm(ReasonedForm):
    rate = RateField(label="Rate", error_messages={"required": "Enter a rate."})
    burst = _whole("Burst", 1)
    reserve = _whole("Reserve", 0)
    force = forms.BooleanField(label="Apply anyway: I have reviewed these cuts", required=False)

    field_order: Any = ("rate", "burst", "reserve", "force", "reason")
    hints: ClassVar[dict[str, str]] = {
        "rate": "Such as 100, or 4.2/10s. All members together.",
        "burst": "Units at once. Empty: twice the rate.",
        "reserve": "Units that are never lent. Set it to the sum of all members' bursts, and guaranteed requests never "
        "wait.",
    }

    def said(self, message: str) -> str:
        """The form has no field for the time: it is part of the rate."""
        return TIMES.sub(lambda found: f"{found[1]} the time of the rate, such as 100/10s", super().said(message))

    @property
    def fields_wanted(self) -> dict[str, Any]:
        names = ("rate", "burst", "reserve")
        return {name: self.cleaned_data[name] for name in names if self.cleaned_data.get(name) is not None}


class NewPoolForm(OwnedForm, PoolForm):
    name = _text("Name", 63, "Enter a name.")
    owner = forms.ChoiceField(
        label="For",
        choices=OWNERS,
        required=False,
        error_messages={"invalid_choice": "Choose everyone, a tier or a tenant."},
    )
    endpoint = _text("On", 128, "Enter where the pool is, such as service:operation; * is everywhere.", initial="*")
    mode = forms.ChoiceField(
        label="Mode",
        choices=[("enforce", "Enforce"), ("shadow", "Shadow: count, deny nobody")],
        error_messages=dict.fromkeys(("required", "invalid_choice"), "Choose enforce or shadow."),
    )

    field_order = ("name", "owner", "tier", "tenant", "endpoint", "rate", "burst", "reserve", "mode", "force", "reason")
    hints: ClassVar[dict[str, str]] = {
        **PoolForm.hints,
        "name": "Lower case letters, digits, - _ and .",
        "owner": "Everyone: all tenants share one pool. Tier: each tenant of the tier gets its own.",
        "endpoint": "service:operation, service:* (for everyone only) or *",
        "mode": "A new pool can be tried in shadow first, together with its members.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["endpoint"].widget.attrs["list"] = PLACES

    @property
    def places(self) -> list[str]:
        """Suggested where it asks for the endpoint."""
        names = Endpoint.objects.filter(retired=False).order_by("name").values_list("name", flat=True)
        return ["*", *names[:MOST_SUGGESTED]]


class MemberForm(OwnedForm):
    owner = forms.ChoiceField(
        label="Who",
        choices=[("tenant", "One tenant"), ("tier", "Each tenant of a tier")],
        error_messages=dict.fromkeys(("required", "invalid_choice"), "Choose a tenant or a tier."),
    )
    scope = _text("On", 128)
    assured = _amount(
        "Guaranteed", "0", "Guaranteed must be at least 0.", "Enter what is guaranteed. 0: it only borrows."
    )
    ceiling = _amount("Ceiling", LEAST, "Ceiling must be above 0.")
    force = forms.BooleanField(label="Apply anyway: I have reviewed these cuts", required=False)

    fields_of: ClassVar[dict[str, str]] = {"endpoint": "scope", "burst": "assured", "ceiling_burst": "ceiling"}
    field_order = ("owner", "tenant", "tier", "scope", "assured", "ceiling", "force", "reason")
    hints: ClassVar[dict[str, str]] = {
        "assured": "The member can always use this much. 0: it only borrows.",
        "ceiling": "The most that it can reach by borrowing. Empty: as much as the pool lends.",
        "scope": "Empty: where the pool is.",
    }


def _tier_choices() -> list[tuple[str, str]]:
    names = Tier.objects.filter(retired=False).exclude(name=OWN_TENANT).order_by("name").values_list("name", flat=True)
    return [("", "Choose a tier"), *((name, name) for name in names)]


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
