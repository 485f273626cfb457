"""The form of the simulator's page about sharing: a pool, its members, and what they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from django import forms

from dashboards.forms import PageForm
from headroom_edge.algorithms.base import ParameterError
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import PRIORITIES, USUAL, lowest
from quotas.policies.problems import sentence
from quotas.simulation.sharing_presets import CLASSES, PLACES, TEAMS, TENANTS
from quotas.simulation.sharing_run import ORG, SECONDS, TEAM, Demand, Sharer, SharingSetup

KINDS: Final = (TENANTS, TEAMS, CLASSES)
MOST: Final = 100_000  # requests
MOST_NUMBER: Final = 1_000_000
POOL: Final = {"rate": "Rate", "burst": "Burst", "reserve": "Reserve"}
TEAM_FIELDS: Final = {
    "assured": "Guaranteed",
    "burst": "Burst",
    "ceiling": "Ceiling",
    "ceiling_burst": "Ceiling burst",
    "reserve": "Reserve",
}
KEY_FIELDS: Final = {"assured": "Guaranteed", "burst": "Burst", "ceiling": "Ceiling", "weight": "Weight"}
DEMAND: Final = {"first": "Asks per second", "then": "Later", "at": "Later is from second"}
OPTIONAL: Final = ("burst", "ceiling", "ceiling_burst", "weight")
LETTERS: Final = "ABCD"

T = TypeVar("T", Pool, Borrowing)


def _number(label: str, is_required: bool, most: int = MOST_NUMBER) -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        min_value=0,
        max_value=most,
        required=is_required,
        localize=False,
        error_messages={
            "required": f"{label} is missing. Enter a whole number.",
            "invalid": f"{label} must be a whole number.",
        },
        widget=forms.TextInput(attrs={"class": "input num", "inputmode": "numeric", "autocomplete": "off"}),
    )


def _priority() -> forms.ChoiceField:
    choices = [(name, name) for name in PRIORITIES]
    return forms.ChoiceField(label="Priority", choices=choices, widget=forms.Select(attrs={"class": "select"}))


def _fields() -> dict[str, forms.Field]:
    found: dict[str, forms.Field] = {name: _number(label, True) for name, label in POOL.items()}
    for prefix, labels in ((TEAM, TEAM_FIELDS), ("key", KEY_FIELDS)):
        found |= {f"{prefix}_{name}": _number(label, name not in OPTIONAL) for name, label in labels.items()}
    for place in range(1, PLACES + 1):
        found |= {
            f"m{place}_{name}": _number(label, True, SECONDS if name == "at" else MOST_NUMBER)
            for name, label in DEMAND.items()
        }
        found |= {f"m{place}_{name}": _number(label, name not in OPTIONAL) for name, label in KEY_FIELDS.items()}
        found[f"m{place}_priority"] = _priority()
    return found


# What a field holds that a preset does not name.
BLANK: Final[Mapping[str, str]] = {
    name: "" if name.rpartition("_")[2] in OPTIONAL else USUAL if name.endswith("priority") else "0"
    for name in _fields()
} | {"rate": "1000", "burst": "250", "reserve": "0"}


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """One card of numbers."""

    title: str
    fields: list[forms.BoundField]
    is_open: bool = True


class SharingForm(PageForm):
    kind = forms.ChoiceField(choices=[(kind, kind) for kind in KINDS], widget=forms.HiddenInput)
    chosen = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)

    setup: SharingSetup

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields.update(_fields())

    @property
    def shown_kind(self) -> str:
        asked = str(self.data.get("kind", TENANTS))
        return asked if asked in KINDS else TENANTS

    @property
    def groups(self) -> list[FieldGroup]:
        """The cards that belong to this kind of members."""
        kind = self.shown_kind
        groups = [FieldGroup("Pool", [self[name] for name in POOL])]
        own: list[str] = []
        if kind == TEAMS:
            groups.append(FieldGroup("Each team", [self[f"{TEAM}_{name}"] for name in TEAM_FIELDS]))
            groups.append(FieldGroup("Each key", [self[f"key_{name}"] for name in KEY_FIELDS]))
        else:
            own = ["priority"] if kind == CLASSES else [*KEY_FIELDS, "priority"]
        for place in range(1, PLACES + 1):
            names = [f"m{place}_{name}" for name in (*DEMAND, *own)]
            asks = any(self.data.get(f"m{place}_{name}", "0") not in ("", "0") for name in ("first", "then"))
            is_wrong = any(name in self.errors for name in names)
            groups.append(FieldGroup(self._title(place), [self[name] for name in names], asks or is_wrong))
        return groups

    def _title(self, place: int) -> str:
        if self.shown_kind == TEAMS:
            return f"Team {_team(place)}, key {_key(place)}"
        return f"Member {LETTERS[place - 1]}"

    def clean(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().clean() or {}
        if not self.errors:
            self._build(fields)
        return fields

    def _build(self, fields: Mapping[str, Any]) -> None:
        kind = fields["kind"]
        pool = self._parsed(Pool, "", {name: fields[name] for name in POOL})
        team = self._share(fields, TEAM, TEAM_FIELDS, ORG) if kind == TEAMS else None
        key = self._share(fields, "key", KEY_FIELDS, TEAM) if kind == TEAMS else None
        sharers = [self._sharer(fields, place, key) for place in range(1, PLACES + 1)]
        if self.errors or pool is None:
            return
        self.setup = SharingSetup(pool, tuple(one for one in sharers if one.demand.count), team)
        if not self.setup.sharers:
            self.add_error("m1_first", "Nobody asks for anything. Enter requests per second.")
        elif self.setup.count > MOST:
            most = f"{self.setup.count:,} of at most {MOST:,} in {SECONDS} s"
            self.add_error("m1_first", f"Too many requests: {most}. Lower what members ask for.")

    def _sharer(self, fields: Mapping[str, Any], place: int, key: Borrowing | None) -> Sharer:
        kind, prefix = fields["kind"], f"m{place}"
        demand = Demand(*(fields[f"{prefix}_{name}"] for name in DEMAND))
        priority = lowest(fields[f"{prefix}_priority"])
        if kind == TEAMS:
            return Sharer(f"{_team(place)}/{_key(place)}", key, demand, team=_team(place))
        if kind == CLASSES:
            return Sharer(f"{LETTERS[place - 1]} ({priority})", None, demand, priority)
        share = self._share(fields, prefix, KEY_FIELDS, ORG) if demand.count else None
        return Sharer(LETTERS[place - 1], share, demand, priority)

    def _share(self, fields: Mapping[str, Any], prefix: str, names: Mapping[str, str], parent: str) -> Borrowing | None:
        given = {name: fields[f"{prefix}_{name}"] for name in names if fields[f"{prefix}_{name}"] is not None}
        return self._parsed(Borrowing, f"{prefix}_", {**given, "parent": parent})

    def _parsed(self, kind: type[T], prefix: str, given: dict[str, Any]) -> T | None:
        try:
            return kind.parse(given)
        except ParameterError as error:
            field = f"{prefix}{error.field}"
            self.add_error(field if field in self.fields else "rate", sentence(self.said(error.message)))
            return None


def _team(place: int) -> str:
    return "a" if place <= PLACES // 2 else "b"


def _key(place: int) -> int:
    return (place - 1) % (PLACES // 2) + 1
