"""Forms of the matrix editor: one limit of one cell, or the shared fields of several cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from django import forms

from dashboards.conflicts import Conflict, WatchedForm
from dashboards.forms import PageForm, amount_typed
from headroom_edge.algorithms import ALGORITHMS, FIELDS, PARAMETERS
from quotas.changes.snapshot import POLICY, key_of
from quotas.errors import refuse
from quotas.matrix.edit import Edit
from quotas.matrix.queries import Cell, MatrixLimit
from quotas.models import Limit
from quotas.policies import spec
from quotas.policies.adapt import ADAPTING, LONGEST_TEXT
from quotas.policies.limit_codec import CHOICES, COMMON_FIELDS, limit_fields, row_limit
from quotas.policies.limit_words import algorithm_words
from quotas.policies.spec import CARRIES

NEW = "+"  # cannot be the name of a limit
PERCENT_MAX = 10_000

LABELS = {
    "rate": "Rate",
    "per": "Per",
    "burst": "Burst",
    "max_wait": "Maximum wait",
    "queue": "Queue",
    "limit": "Limit",
}
LABELS |= {"window": "Window", "period": "Period", "timezone": "Time zone", "anchor": "Starts on", "hold": "Hold"}
LABELS |= {"reserve": "Reserve", "assured": "Guaranteed", "ceiling": "Ceiling", "ceiling_burst": "Ceiling burst"}
LABELS |= {"parent": "Borrows from", "weight": "Weight"}
LABELS |= {"min": "At least", "max": "At most", "start": "Starts at", "target": "Target"}
HINTS = {
    "rate": "such as 100, 4.2 or 4.2/10s",
    "per": "1s, 1m, 1h",
    "max_wait": "empty: no waiting",
    "window": "1m, 1h, 1d",
    "period": "day, week, month or year",
    "timezone": "tenant, UTC or Europe/Berlin",
    "anchor": "day of month, weekday or MM-DD",
    "hold": "a slot expires after this time",
    "reserve": "units of the burst that are not lent; empty: 0",
    "assured": "units per time that are always its own; empty: 0",
    "ceiling": "the most per time, with what it borrows; empty: as much as is lent",
    "ceiling_burst": "the most at once, with what it borrows",
    "parent": "the name of a pool, or of another borrowing limit",
    "weight": "its part of what is lent; empty: as guaranteed",
    "min": "requests in flight that always pass",
    "max": "requests in flight when the service is fast",
    "start": "empty: half-way between",
    "target": "time to an answer: 100ms, or calibrated",
}
LEASING = (
    "A service may take a block of requests from Redis and decide them by itself, so an edit arrives up to this much "
    "later. Write never, or 10ms to 1s;"
)


@dataclass(frozen=True, slots=True)
class Selection:
    cells: Sequence[Cell]

    @property
    def is_single(self) -> bool:
        return len(self.cells) == 1

    @property
    def cell(self) -> Cell:
        return self.cells[0]

    @property
    def names(self) -> list[str]:
        return sorted({one.limit.name for cell in self.cells for one in cell.limits})

    @property
    def keys(self) -> list[str]:
        return [cell.key for cell in self.cells]

    @property
    def without(self) -> int:
        """Cells without their own limit; a bulk edit does not change them."""
        return sum(not cell.limits for cell in self.cells)


class _EditForm(PageForm):
    conflict: Conflict | None = None

    lease = forms.CharField(
        label="Longest lease",
        max_length=40,
        required=False,
        widget=forms.TextInput({"autocomplete": "off"}),
        help_text=f"{LEASING} empty: 100ms",
    )
    carry = forms.ChoiceField(label="Current usage", choices=[(carry, carry) for carry in CARRIES], required=False)
    reason = forms.CharField(
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Saved in the history with the diff",
        error_messages={"required": "Enter a reason. It is saved with the revision."},
    )
    force = forms.BooleanField(required=False)

    def __init__(self, selection: Selection, *args: Any, **kwargs: Any) -> None:
        self.selection = selection
        super().__init__(*args, **kwargs)

    def clean_lease(self) -> str:
        """Pages write `250 ms`, documents `250ms`."""
        return "".join(str(self.cleaned_data["lease"]).split())

    def clean_carry(self) -> str:
        return str(self.cleaned_data["carry"] or CARRIES[0])

    def watch_chosen(self) -> None:
        """Only one limit that is there can be edited by two people; see CellForm."""

    def check_chosen(self) -> None:
        """Call it in the turn of the edit."""

    @property
    def wanted_name(self) -> str:
        """Of the limit. Empty: of several, or not chosen yet."""
        fields = self.cleaned_data
        return str(fields.get("name", "") if fields["limit_name"] in ("", NEW) else fields["limit_name"])

    @property
    def is_unnamed(self) -> bool:
        return self.selection.is_single and not self.wanted_name


class CellForm(_EditForm, WatchedForm):
    """One limit of one cell. Parameters that the algorithm does not have are ignored."""

    name = forms.CharField(label="New limit name", max_length=63, required=False)
    algorithm = forms.ChoiceField(choices=[(name, algorithm_words(name)) for name in ALGORITHMS])
    subject = forms.CharField(max_length=200, required=False, help_text="tenant, key, ip, key|ip, …")
    unit = forms.ChoiceField(choices=[(one, one) for one in CHOICES["unit"]], required=False)
    mode = forms.ChoiceField(choices=[(one, one) for one in CHOICES["mode"]], required=False)
    on_failure = forms.ChoiceField(
        label="If Redis fails", choices=[(one, one) for one in CHOICES["on_failure"]], required=False
    )
    adapt = forms.CharField(
        label="Follow the endpoint's health",
        max_length=LONGEST_TEXT,
        required=False,
        widget=forms.TextInput({"autocomplete": "off", "data-algorithms": " ".join(ADAPTING)}),
        help_text="Token bucket or GCRA on one endpoint: slow 300ms, errors 5%, floor 30%. Empty: never",
    )
    remove = forms.BooleanField(required=False)

    fields_of: ClassVar[dict[str, str]] = {"limit": "p_limit"} | {name: f"p_{name}" for name in PARAMETERS}
    watched = (
        "algorithm",
        *(f"p_{name}" for name in PARAMETERS),
        "subject",
        "unit",
        "mode",
        "on_failure",
        "lease",
        "adapt",
    )

    def __init__(self, selection: Selection, *args: Any, **kwargs: Any) -> None:
        super().__init__(selection, *args, **kwargs)
        for name in PARAMETERS:
            field = forms.CharField(label=LABELS[name], max_length=40, required=False, help_text=HINTS.get(name, ""))
            used_by = " ".join(algorithm for algorithm, fields in FIELDS.items() if name in fields)
            field.widget.attrs = {"class": "input num", "data-algorithms": used_by, "autocomplete": "off"}
            self.fields[f"p_{name}"] = field
        self.fields["lease"].widget.attrs |= {"placeholder": "100ms"}
        if selection.is_single and (used := sorted({one.limit.name for one in selection.cell.inherited})):
            self.fields["name"].help_text = f"{' or '.join(used)} replaces that limit here; any other name adds one"
        choices = [*((name, name) for name in selection.names), (NEW, "new limit …")]
        self.fields["limit_name"] = _choice("Which limit", choices)

    @classmethod
    def of(cls, selection: Selection, name: str = "") -> CellForm:
        """Filled with the limit of that name, else the first one, else the inherited one."""
        limits = {one.limit.name: one for one in selection.cell.limits}
        chosen = limits.get(name) or (next(iter(limits.values()), None) if name != NEW else None)
        filled = chosen or next(iter(selection.cell.inherited), None)
        initial = (
            _initial(filled.limit) if filled else {"algorithm": "token_bucket", "p_per": "1s", "subject": "tenant"}
        )
        is_own = bool(selection.cell.tenant)
        initial |= {"limit_name": chosen.limit.name if chosen else NEW, "name": _new_name(filled, limits, is_own)}
        form = cls(selection, initial=initial)
        form.watch_chosen()
        return form

    def watch_chosen(self) -> None:
        if self.chosen is not None:
            self.watch(_initial(self.chosen.limit), key_of(POLICY, self.selection.cell.policy))

    def check_chosen(self) -> None:
        if self.chosen is not None:
            name = self.chosen.limit.name
            row = Limit.objects.filter(policy__name=self.selection.cell.policy, name__name=name).first()
            self.check(_initial(row_limit(name, row)) if row else None)

    @property
    def parameters(self) -> Iterator[forms.BoundField]:
        return (self[f"p_{name}"] for name in PARAMETERS)

    @property
    def chosen(self) -> MatrixLimit | None:
        name = self["limit_name"].value()
        return next((one for one in self.selection.cell.limits if one.limit.name == name), None)

    def limit_fields(self) -> dict[str, Any]:
        fields = self.cleaned_data
        taken = FIELDS[fields["algorithm"]]
        typed = {name: text for name in taken if (text := fields.get(f"p_{name}", ""))}
        amounts = {name: amount_typed(text) for name, text in typed.items()}
        parameters = {name: typed[name] if amount is None else amount for name, amount in amounts.items()}
        if "/" in str(parameters.get("rate")):  # 4.2/10s has its own time
            parameters.pop("per", None)
        others = {name: fields[name] for name in COMMON_FIELDS if fields[name]}
        return {"algorithm": fields["algorithm"], **parameters, **others}


class CellsForm(_EditForm):
    """Fields shared by several cells: a factor on rates and capacities, the mode, and the failure rule."""

    percent = forms.DecimalField(
        label="Percent of current value", min_value=1, max_value=PERCENT_MAX, decimal_places=1, required=False
    )
    mode = forms.ChoiceField(choices=[("", "unchanged"), *((one, one) for one in CHOICES["mode"])], required=False)
    on_failure = forms.ChoiceField(
        label="If Redis fails",
        choices=[("", "unchanged"), *((one, one) for one in CHOICES["on_failure"])],
        required=False,
    )

    fields_of: ClassVar[dict[str, str]] = {"multiplier": "percent"}

    def __init__(self, selection: Selection, *args: Any, **kwargs: Any) -> None:
        super().__init__(selection, *args, **kwargs)
        self.fields["percent"].widget.attrs |= {"placeholder": "100"}
        self.fields["lease"].widget.attrs |= {"placeholder": "unchanged"}
        self.fields["lease"].help_text = f"{LEASING} empty: unchanged"
        choices = [("", "all limits"), *((name, name) for name in selection.names)]
        self.fields["limit_name"] = _choice("Limits", choices)


def _choice(label: str, choices: list[tuple[str, str]]) -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label, choices=choices, required=False, widget=forms.Select(attrs={"class": "select"})
    )


def edits_of(cells: Sequence[Cell], form: CellForm | CellsForm) -> list[Edit]:
    return [_edit_of(cells[0], form)] if isinstance(form, CellForm) else list(_edits_of(cells, form))


def _edit_of(cell: Cell, form: CellForm) -> Edit:
    fields = form.cleaned_data
    name = form.wanted_name
    if not name:
        raise refuse("name", "missing", "Enter a name for the new limit, such as peak or daily.")
    if fields["limit_name"] == NEW and name in form.selection.names:
        raise refuse("name", "taken", f"A limit called {name} exists here. Select it above or enter another name.")
    return _edit(cell, name, None if fields["remove"] else form.limit_fields())


def _edit(cell: Cell, name: str, fields: dict[str, Any] | None) -> Edit:
    return Edit(None if cell.tenant else cell.tier or None, cell.scope, name, fields, tenant=cell.tenant or None)


def _edits_of(cells: Sequence[Cell], form: CellsForm) -> Iterator[Edit]:
    fields = form.cleaned_data
    factor = Fraction(fields["percent"]) / 100 if fields["percent"] is not None else Fraction(1)
    changed = {name: fields[name] for name in ("mode", "on_failure", "lease") if fields[name]}
    for cell in cells:
        for one in cell.limits:
            if fields["limit_name"] in ("", one.limit.name):
                scaled = one.limit.algorithm.scaled(factor.numerator, factor.denominator)
                values = {**limit_fields(one.limit), "algorithm": scaled.name, **scaled.describe(), **changed}
                yield _edit(cell, one.limit.name, values)


def _initial(limit: spec.Limit) -> dict[str, Any]:
    values = limit_fields(limit)
    if limit.adapt:
        values["adapt"] = limit.adapt.text
    return {f"p_{name}" if name in PARAMETERS else name: value for name, value in values.items()}


def _new_name(filled: MatrixLimit | None, taken: dict[str, MatrixLimit], is_own: bool) -> str:
    """Here an endpoint's limit mostly replaces the tier's. A tenant's may as well be added, so its name is chosen."""
    if is_own and filled:
        return ""
    name = filled.limit.name if filled else "burst"
    return name if name not in taken else ""
