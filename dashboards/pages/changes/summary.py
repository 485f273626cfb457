"""One-line summaries of revisions and changes: the action, its object and the changed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from quotas.changes.queries import Aftermath
from quotas.models import Revision
from quotas.policies.diff import FieldDiff, ObjectDiff, differences

MOST_VALUES: Final = 2
VERBS: Final = {
    "tier_create": "New tier",
    "tier_duplicate": "New tier",
    "tier_update": "Edit",
    "tier_retire": "Retire",
    "tenant_create": "New tenant",
    "tenant_update": "Edit",
    "tenant_move": "Move",
    "tenant_suspend": "Suspend",
    "tenant_resume": "Resume",
    "tenant_archive": "Archive",
    "tenant_restore": "Restore",
    "endpoint_create": "New endpoint",
    "endpoint_import": "Import",
    "endpoint_update": "Change",
    "endpoint_delete": "Retire",
    "policy_create": "New policy for",
    "policy_update": "Change",
    "policy_delete": "Delete policy for",
    "policy_rename": "Rename",
    "limit_set": "Change",
    "limit_rename": "Rename limit of",
    "limit_remove": "Remove limit from",
    "limit_pin": "Pin limit of",
    "limit_unpin": "Unpin limit of",
    "limits_set": "Change",
    "candidate_set": "Start candidate on",
    "candidate_promote": "Promote candidate on",
    "override_create": "Add override for",
    "override_cancel": "End override for",
    "override_extend": "Extend override for",
    "override_update": "Change override for",
    "document_apply": "Apply policy document:",
    "revision_rollback": "Roll back",
    "revision_revert": "Revert",
    "change_shadow": "Start shadow on",
    "change_canary": "Start canary on",
    "change_schedule": "Schedule change of",
    "change_promote": "Promote change of",
    "change_drop": "Drop change of",
}
TIER_ACTIONS: Final = ("tier_duplicate", "tier_retire")


class Recorded(Protocol):
    """A Revision or a Change."""

    action: str
    touched: list[str]
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Summary:
    verb: str
    what: str
    values: str  # `rate 30 → 45`; empty if no change is short enough

    @property
    def title(self) -> str:
        return f"{self.verb} {self.what}"


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """A revision in a list."""

    revision: Revision
    summary: Summary
    aftermath: Aftermath | None


def revision_rows(revisions: Sequence[Revision], aftermaths: Mapping[int, Aftermath]) -> list[RevisionRow]:
    return [RevisionRow(row, summary_of(row), aftermaths.get(row.number)) for row in revisions]


def summary_of(row: Recorded) -> Summary:
    found = differences(row.before, row.after)
    main = [one for one in found if not one.object.startswith("change:")] or list(found)
    verb = VERBS.get(row.action, row.action.replace("_", " ").capitalize())
    if row.action in ("limit_set", "limits_set", "policy_update") and (turn := _direction(main)):
        verb = turn
    if row.action == "tenant_create" and len(main) > 1:
        return Summary(f"{len(main):,} new", "tenants", _values(main))
    return Summary(verb, _what(row, main), _values(main))


def _what(row: Recorded, found: Sequence[ObjectDiff]) -> str:
    if len(found) == 1:
        name = found[0].object
        state = row.after.get(name) or row.before.get(name) or {}
        place = place_of(name, state)
        return f"{place} to {state['tier']}" if row.action == "tenant_move" and state.get("tier") else place
    if tier := next((one.object for one in found if row.action in TIER_ACTIONS and one.object.startswith("tier:")), ""):
        return tier.partition(":")[2]  # its policies, or the tenants that left it, come along
    kinds = {one.object.partition(":")[0] for one in found}
    noun = {"policy": "policies", "tenant": "tenants", "endpoint": "endpoints", "override": "overrides"}
    return f"{len(found)} {noun.get(kinds.pop(), 'objects') if len(kinds) == 1 else 'objects'}"


def place_of(name: str, state: Mapping[str, Any]) -> str:
    """`policy:pro-quotes` is pro × rider:quote."""
    kind, _, rest = name.partition(":")
    if kind in ("policy", "override") and "endpoint" in state:
        return f"{state.get('tier') or state.get('tenant') or 'everyone'} × {state['endpoint']}"
    return rest if kind != "change" else f"change {rest}"


def _direction(found: Sequence[ObjectDiff]) -> str:
    """Raise or Lower if all changed numbers went the same way, else empty."""
    moves = [
        (field.before, field.after)
        for one in found
        for field in one.fields
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in (field.before, field.after))
    ]
    other = any(field.path.endswith((".algorithm", ".subject", ".mode")) for one in found for field in one.fields)
    if not moves or other:
        return ""
    if all(after > before for before, after in moves):
        return "Raise"
    return "Lower" if all(after < before for before, after in moves) else ""


def _values(found: Sequence[ObjectDiff]) -> str:
    fields = [field for one in found if one.action == "update" for field in one.fields if _is_brief(field)]
    said = [
        f"{field.path.rpartition('.')[2]} {_text(field.before)} → {_text(field.after)}"
        for field in fields[:MOST_VALUES]
    ]
    more = len(fields) - len(said)
    return ", ".join([*said, *([f"{more} more"] if more > 0 else [])])


def _is_brief(field: FieldDiff) -> bool:
    values = (field.before, field.after)
    return all(value is None or isinstance(value, str | int | float) for value in values) and len(str(values)) < 80


def _text(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
