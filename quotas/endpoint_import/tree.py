"""The few parts of an OpenAPI document that name operations, read from JSON or YAML without keeping the rest.

A document comes from anywhere, so it is read as a stream of events: schemas and examples are skipped, not built, and
nothing is followed outside the text. No aliases, no anchors, no tags, no duplicate keys among what is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from headroom_edge.algorithms.base import shown
from headroom_edge.json_text import RepeatedKeyError, distinct
from quotas.policies.problems import Problem, is_fit

MOST_BYTES: Final = 2_000_000
DEEPEST: Final = 64
MOST_VALUES: Final = 400_000  # of a YAML document; a large real one has half of that, and reading takes about a second
ITEM_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

Path = tuple[str, ...]

# What is read. `*`: any key. A list: each entry. None: a value, or a list of values.
Shape = Mapping[str, Any] | list[Any] | None
_SERVERS: Final[Shape] = [{"url": None, "variables": {"*": {"default": None}}}]
COST: Final = "x-headroom-cost"
PRIORITY: Final = "x-headroom-priority"
_OPERATION: Final[Shape] = {"operationId": None, "tags": [None], COST: None, PRIORITY: None, "servers": _SERVERS}
_ITEM: Final[Shape] = {"$ref": None, "servers": _SERVERS, **dict.fromkeys(ITEM_METHODS, _OPERATION)}
_ROOT: Final[Shape] = {
    "openapi": None,
    "swagger": None,
    "info": {"title": None, "version": None},
    "servers": _SERVERS,
    "basePath": None,
    "paths": {"*": _ITEM},
    "components": {"pathItems": {"*": _ITEM}},
}
_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Tree:
    root: Any  # a mapping, once it is accepted
    lines: Mapping[Path, int] = field(default_factory=dict)  # of keys; empty for JSON

    def line(self, *path: str) -> int | None:
        return self.lines.get(path)


def read_tree(text: str) -> Tree | Problem:
    size = len(text.encode(errors="replace"))
    if size > MOST_BYTES:
        message = f"the document has {size:,} bytes; the maximum is {MOST_BYTES:,}. Leave out examples, or split it"
        return Problem("document", "size", message)
    if not text.strip():
        return Problem("document", "empty", "the document is empty; paste an OpenAPI document, or choose its file")
    if not is_fit(text):
        return Problem("document", "text", "the document contains a NUL or an incomplete character; remove it")
    found = _json(text) if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")) else _yaml(text)
    if isinstance(found, Tree) and not isinstance(found.root, Mapping):
        message = f"the document must be a mapping with openapi and paths, not {shown(found.root)}"
        return Problem("document", "type", message)
    return found


def _json(text: str) -> Tree | Problem:
    try:
        whole = json.loads(text.lstrip("\ufeff"), object_pairs_hook=distinct)
    except RepeatedKeyError as error:
        return Problem("document", "duplicate_key", str(error))
    except json.JSONDecodeError as error:
        return Problem("document", "json", f"this is not JSON: {error.msg}", error.lineno)
    except RecursionError:
        return Problem("document", "depth", "the document is nested too deeply; use fewer levels")
    except ValueError as error:
        return Problem("document", "json", f"this is not JSON: {error}")
    return Tree(_pruned(whole, _ROOT))


def _pruned(value: Any, shape: Shape) -> Any:
    if isinstance(shape, Mapping) and isinstance(value, Mapping):
        every = shape.get("*")
        wanted = ((key, shape.get(key, every)) for key in value if key in shape or "*" in shape)
        return {_text(key): _pruned(value[key], below) for key, below in wanted}
    if isinstance(shape, list) and isinstance(value, list):
        return [_pruned(one, shape[0]) for one in value]
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    """Escapes in JSON can write half of a character, which no page can show."""
    return value if is_fit(value) else value.encode("utf-8", "replace").decode().replace("\x00", "?")


def _yaml(text: str) -> Tree | Problem:
    reader = _YamlReader(text)
    try:
        return Tree(reader.document(), reader.lines)
    except _UnreadableError as error:
        return error.problem
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        return Problem("document", "yaml", f"this is not YAML: {reason}", mark.line + 1 if mark else None)


class _UnreadableError(Exception):
    def __init__(self, code: str, message: str, line: int) -> None:
        super().__init__(message)
        self.problem = Problem("document", code, message, line)


class _YamlReader:
    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=yaml.CSafeLoader))
        self._depth = self._count = 0

    def document(self) -> Any:
        found: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _UnreadableError("several", "this starts a second document; give one document", _line(event))
                found = self._node(self._next(), _ROOT, ())
        return found

    def _next(self) -> yaml.Event:
        """The next event, checked. Depth is bounded here, also for what is skipped."""
        event = next(self._events)
        line, anchor, tag = _line(event), getattr(event, "anchor", None), getattr(event, "tag", None)
        self._count += 1
        if self._count > MOST_VALUES:
            raise _UnreadableError("size", f"the document has more than {MOST_VALUES:,} values; split it", line)
        if isinstance(event, yaml.AliasEvent):
            raise _UnreadableError("alias", f"alias *{anchor} is not accepted; write the value out", line)
        if anchor is not None:
            raise _UnreadableError("alias", f"anchor &{anchor} is not accepted; remove it", line)
        if tag is not None:
            raise _UnreadableError("tag", f"tag {tag} is not accepted; write plain data", line)
        self._depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if self._depth > DEEPEST:
            raise _UnreadableError("depth", f"nested more than {DEEPEST} deep; use fewer levels", line)
        return event

    def _node(self, event: yaml.Event, shape: Shape, path: Path) -> Any:
        if isinstance(event, yaml.MappingStartEvent):
            if isinstance(shape, Mapping):
                return self._mapping(shape, path)
            self._skip(event)
            return {}
        if isinstance(event, yaml.SequenceStartEvent):
            below = shape[0] if isinstance(shape, list) else None
            return list(self._sequence(below, path))
        return _scalar(event)

    def _mapping(self, shape: Mapping[str, Any], path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            line = _line(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise _UnreadableError("type", "a field's name must be plain text, not a list or mapping", line)
            key = str(event.value)
            if key not in shape and "*" not in shape:
                self._skip(self._next())
                continue
            if key in found:
                raise _UnreadableError("duplicate_key", f"{key} appears twice in one mapping; remove one", line)
            self.lines[*path, key] = line
            found[key] = self._node(self._next(), shape.get(key, shape.get("*")), (*path, key))
        return found

    def _sequence(self, below: Shape, path: Path) -> Iterator[Any]:
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            yield self._node(event, below, path)

    def _skip(self, event: yaml.Event) -> None:
        if not isinstance(event, yaml.CollectionStartEvent):
            return
        until = self._depth - 1
        while self._depth > until:
            self._next()


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _scalar(event: yaml.Event) -> Any:
    """Plain text as a number where a number is read, as JSON would have it; everything else stays text."""
    value = str(getattr(event, "value", ""))
    is_plain = not getattr(event, "style", None)
    if is_plain and _WHOLE.fullmatch(value):
        return int(value)
    return None if is_plain and value in ("", "~", "null") else value
