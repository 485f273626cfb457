"""What differs between two states of a configuration, object by object and field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Action = Literal["create", "update", "delete"]
State = Mapping[str, Any] | None  # None: it is not there


@dataclass(frozen=True, slots=True)
class FieldDiff:
    path: str  # limits.burst.rate
    before: Any  # None: it is not there
    after: Any


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    object: str  # policy:pro-all
    action: Action
    fields: tuple[FieldDiff, ...]


def differences(before: Mapping[str, State], after: Mapping[str, State]) -> tuple[ObjectDiff, ...]:
    """Of the objects in `after`, by name; those that are the same are left out."""
    found = (_of_object(name, before.get(name), after[name]) for name in sorted(after))
    return tuple(one for one in found if one)


def _of_object(name: str, before: State, after: State) -> ObjectDiff | None:
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
