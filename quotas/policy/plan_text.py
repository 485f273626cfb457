"""A diff as people know it from Terraform."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quotas.policy.diff import FieldDiff, ObjectDiff

_MARKS = {"create": "+", "update": "~", "delete": "-"}
_WORDS = {"create": "will be created", "update": "will be changed", "delete": "will be deleted"}


def plan_lines(changes: Sequence[ObjectDiff], notes: Mapping[str, str]) -> Iterator[str]:
    """`notes` stand as comments above the changes they are about."""
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
        return "No changes. What is live is what the document says."
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
