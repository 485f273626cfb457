"""The differences between two states of a configuration, by object; and the same as the lines of a plan."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Action = Literal["create", "update", "delete"]
ObjectState = Mapping[str, Any] | None  # None: it does not exist


@dataclass(frozen=True, slots=True)
class FieldDiff:
    path: str  # limits.burst.rate
    before: Any  # None: it does not exist
    after: Any


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    object: str  # policy:pro-all
    action: Action
    fields: tuple[FieldDiff, ...]


def differences(before: Mapping[str, ObjectState], after: Mapping[str, ObjectState]) -> tuple[ObjectDiff, ...]:
    """Changes of the objects in `after`, by name. Unchanged objects are left out."""
    found = (_of_object(name, before.get(name), after[name]) for name in sorted(after))
    return tuple(one for one in found if one)


def _of_object(name: str, before: ObjectState, after: ObjectState) -> ObjectDiff | None:
    if before == after:
        return None
    action: Action = "create" if before is None else "delete" if after is None else "update"
    return ObjectDiff(name, action, tuple(_fields(before or {}, after or {}, "")))


def _fields(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[FieldDiff]:
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name), after.get(name)
        own = f"{path}.{name}" if path else name
        if old == new:
            continue
        if isinstance(old, Mapping) or isinstance(new, Mapping):
            yield from _fields(_mapping(old), _mapping(new), own)
        else:
            yield FieldDiff(own, old, new)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_MARKS = {"create": "+", "update": "~", "delete": "-"}
_WORDS = {"create": "will be created", "update": "will be changed", "delete": "will be deleted"}


def plan_lines(changes: Sequence[ObjectDiff], notes: Mapping[str, str]) -> Iterator[str]:
    """`notes` become comments above the changes they are about."""
    for change in changes:
        kind, _, name = change.object.partition(":")
        yield f"  # {kind} {name} {_WORDS[change.action]}"
        if change.object in notes:
            yield f"  # {notes[change.object]}"
        yield f"  {_MARKS[change.action]} {kind} {_shown(name)}"
        yield from (f"      {_field(field)}" for field in change.fields)
        yield ""
    yield summary(changes)


def summary(changes: Sequence[ObjectDiff]) -> str:
    if not changes:
        return "No changes. The live configuration matches the document."
    count = Counter(change.action for change in changes)
    return f"Plan: {count['create']:,} to create, {count['update']:,} to change, {count['delete']:,} to delete."


def _field(field: FieldDiff) -> str:
    if field.before is None:
        return f"+ {field.path}: {_shown(field.after)}"
    if field.after is None:
        return f"- {field.path}: {_shown(field.before)}"
    return f"~ {field.path}: {_shown(field.before)} -> {_shown(field.after)}"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
