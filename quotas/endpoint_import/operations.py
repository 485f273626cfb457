"""The operations of an OpenAPI document (3.0, 3.1) or a Swagger one (2.0), as routes that an endpoint can have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headroom_edge.algorithms.base import ParameterError, shown
from headroom_edge.plan.paths import target_path
from headroom_edge.plan.priority import PRIORITIES, Priority, priority_of
from headroom_edge.plan.routes import METHODS
from quotas.endpoint_import.tree import COST, ITEM_METHODS, PRIORITY, Tree, read_tree
from quotas.policies.endpoint import path_template
from quotas.policies.problems import Problem, sentence
from quotas.policies.spec import MOST_COST

MOST_OPERATIONS: Final = 2_000
MOST_SERVERS: Final = 20
MOST_REFERENCES: Final = 8  # one after the other; every path may begin a chain
_LONGEST: Final = 60  # of either part of a name
_POINTER: Final = re.compile(r"#/(?:paths|components/pathItems)/([^/]+)")
_VARIABLE: Final = re.compile(r"\{([^{}/]*)\}")
_SERVER_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_HUMP: Final = re.compile(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str  # as in the document
    template: str  # with the base path, as an endpoint has it; empty if it cannot have one
    tag: str
    operation_id: str
    cost: int | None  # x-headroom-cost; None: not stated
    priority: Priority | None  # x-headroom-priority; None: not stated
    base: str = ""  # of its own server, or of the document
    problem: str = ""  # why it cannot be registered
    line: int | None = None

    @property
    def key(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class ApiDocument:
    title: str
    version: str
    dialect: str  # OpenAPI 3.1.0, Swagger 2.0
    bases: tuple[str, ...]  # base paths of its servers; the first is used unless another is chosen
    base: str
    operations: tuple[Operation, ...]

    @property
    def unnamed(self) -> int:
        return sum(not one.operation_id for one in self.operations)


def read_api(text: str, base: str | None = None) -> ApiDocument | list[Problem]:
    """`base`: put before every path instead of the path of the first server."""
    tree = read_tree(text)
    if isinstance(tree, Problem):
        return [tree]
    try:
        return _read(tree, base)
    except ParameterError as error:
        return [Problem(error.field, error.code, error.message)]
    except _DocumentError as error:
        return [error.problem]


class _DocumentError(Exception):
    def __init__(self, code: str, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.problem = Problem("document", code, message, line)


def _read(tree: Tree, base: str | None) -> ApiDocument:
    root = tree.root
    dialect = _dialect(root)
    bases = _bases(root, is_swagger=dialect.startswith("Swagger"))
    # A base of the document's own that no path can have is told with each operation.
    chosen = bases[0] if base is None else base if base in bases else _base(base)
    reader = _Reader(tree, chosen)
    operations = tuple(reader.operations())
    if not operations:
        message = "the document has no operations under paths; give one that has some"
        raise _DocumentError("empty", message, tree.line("paths"))
    info = _mapping(root.get("info"))
    return ApiDocument(_word(info.get("title")), _word(info.get("version")), dialect, bases, chosen, operations)


def _dialect(root: Mapping[str, Any]) -> str:
    openapi, swagger = _word(root.get("openapi")), _word(root.get("swagger"))
    if openapi.startswith(("3.0", "3.1")):
        return f"OpenAPI {openapi}"
    if swagger in ("2.0", "2"):
        return "Swagger 2.0"
    if openapi or swagger:
        message = f"version {shown(openapi or swagger)} is not read; give OpenAPI 3.0, OpenAPI 3.1 or Swagger 2.0"
        raise _DocumentError("version", message)
    raise _DocumentError("version", "this is no OpenAPI document: it has neither openapi nor swagger at the top")


def _bases(root: Mapping[str, Any], *, is_swagger: bool) -> tuple[str, ...]:
    if is_swagger and root.get("basePath") is not None:
        return (_word(root["basePath"]).rstrip("/"),)
    found = [_server_path(one) for one in _items(root.get("servers"))[:MOST_SERVERS]]
    return tuple(dict.fromkeys(found)) or ("",)


def _base(text: str) -> str:
    """As a person typed it."""
    text = text.strip().rstrip("/")
    try:
        return path_template(text)
    except ParameterError as error:
        raise ParameterError("base_path", f"the base path cannot be used: {error.message}", error.code) from None


def _server_path(server: object) -> str:
    """The path of a server's URL, with the defaults of its variables."""
    fields = _mapping(server)
    variables = _mapping(fields.get("variables"))

    def default(match: re.Match[str]) -> str:
        value = _mapping(variables.get(match[1])).get("default")
        return match[0] if value is None else _word(value)

    url = _SERVER_VARIABLE.sub(default, _word(fields.get("url")))
    return target_path(url).rstrip("/") if url else ""


@dataclass(frozen=True, slots=True)
class _Reader:
    tree: Tree
    base: str

    def operations(self) -> Iterator[Operation]:
        count = 0
        for path, item in _mapping(self.tree.root.get("paths")).items():
            if path.startswith("x-"):
                continue
            fields = self._resolved(item, path)
            for method in ITEM_METHODS:
                if isinstance(fields.get(method), Mapping):
                    count += 1
                    if count > MOST_OPERATIONS:
                        message = f"the document has more than {MOST_OPERATIONS:,} operations; split it"
                        raise _DocumentError("size", message, self.tree.line("paths", path))
                    yield self._operation(method.upper(), path, fields, fields[method])

    def _resolved(self, item: object, path: str) -> Mapping[str, Any]:
        """References of path items to others in the same document. Those of schemas name no path and are not read."""
        fields, seen = _mapping(item), set[str]()
        while "$ref" in fields:
            target = _word(fields["$ref"])
            line = self.tree.line("paths", path, "$ref") or self.tree.line("paths", path)
            match = _POINTER.fullmatch(target)
            if match is None:
                raise _DocumentError("reference", _reference_refused(target), line)
            if target in seen:
                message = f"{shown(target)} refers to itself; write the operations out"
                raise _DocumentError("reference", message, line)
            if len(seen) == MOST_REFERENCES:
                message = f"more than {MOST_REFERENCES} references follow each other; write the operations out"
                raise _DocumentError("reference", message, line)
            seen.add(target)
            found = self._at(target, match[1])
            if found is None:
                message = f"there is nothing at {shown(target)}; correct the reference"
                raise _DocumentError("reference", message, line)
            fields = {**found, **{key: value for key, value in fields.items() if key != "$ref"}}
        return fields

    def _at(self, target: str, name: str) -> Mapping[str, Any] | None:
        root = self.tree.root
        holder = (
            root.get("paths") if target.startswith("#/paths/") else _mapping(root.get("components")).get("pathItems")
        )
        found = _mapping(holder).get(name.replace("~1", "/").replace("~0", "~"))
        return found if isinstance(found, Mapping) else None

    def _operation(self, method: str, path: str, item: Mapping[str, Any], fields: Mapping[str, Any]) -> Operation:
        tags = [_word(tag) for tag in _items(fields.get("tags"))]
        cost, problem = _cost(fields.get(COST))
        priority, wrong = _priority(fields.get(PRIORITY))
        problem = problem or wrong
        own = _items(fields.get("servers")) or _items(item.get("servers"))
        base, template = _server_path(own[0]) if own else self.base, ""
        try:
            template = _template(base + path)
        except ParameterError as error:
            problem = problem or sentence(error.message)
        if method not in METHODS:
            template, problem = "", f"{method} requests cannot be registered."
        line = self.tree.line("paths", path, method.lower()) or self.tree.line("paths", path)
        tag, name = next(iter(tags), ""), _word(fields.get("operationId"))
        return Operation(method, path, "" if problem else template, tag, name, cost, priority, base, problem, line)


def essence(document: ApiDocument) -> str:
    """A document with nothing but its operations, which `read_api` reads alike. A page carries it from step to step."""
    paths: dict[str, dict[str, Any]] = {}
    for one in document.operations:
        fields = {"operationId": one.operation_id, "tags": [one.tag] if one.tag else [], COST: one.cost}
        fields[PRIORITY] = one.priority
        own = {"servers": [{"url": one.base or "/"}]} if one.base != document.base else {}
        wrong = {name: False for name in (COST, PRIORITY) if one.problem.startswith(name)}
        kept = {name: value for name, value in {**fields, **own, **wrong}.items() if value not in (None, "", [])}
        paths.setdefault(one.path, {})[one.method.lower()] = kept
    kind = {"swagger": "2.0"} if document.dialect.startswith("Swagger") else {"openapi": document.dialect.split()[1]}
    info = {"title": document.title, "version": document.version}
    servers = {"servers": [{"url": base or "/"} for base in document.bases]}
    bases = {"basePath": document.bases[0]} if "swagger" in kind else servers
    return json.dumps({**kind, "info": info, **bases, "paths": paths}, separators=(",", ":"))


def _reference_refused(target: str) -> str:
    begins = f"the path item refers to {shown(target)}"
    if target.startswith("#"):
        return f"{begins}, which is not read; put it under paths or components.pathItems"
    return f"{begins}, outside the document; references are not followed, so write it out"


def _cost(value: object) -> tuple[int | None, str]:
    if value is None:
        return None, ""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_COST:
        return value, ""
    return None, f"{COST} is {shown(value)}; write a whole number from 1 to {MOST_COST:,}."


def _priority(value: object) -> tuple[Priority | None, str]:
    if value is None or (priority := priority_of(value)) is not None:
        return priority if value is not None else None, ""
    return None, f"{PRIORITY} is {shown(value)}; write one of {', '.join(PRIORITIES)}."


def _template(path: str) -> str:
    """With variables named as endpoints have them: {rideId} becomes {ride_id}."""
    if not path.startswith("/"):
        raise ParameterError("path", f"the path is {shown(path)}; it must start with /", "path")
    seen: dict[str, int] = {}

    def renamed(match: re.Match[str]) -> str:
        name = slug(match[1], "_").replace(".", "_") or "value"
        name = name if name[0].isalpha() else f"v{name}"
        seen[name] = seen.get(name, 0) + 1
        return f"{{{name}}}" if seen[name] == 1 else f"{{{name}_{seen[name]}}}"

    return path_template(_VARIABLE.sub(renamed, path))


def slug(text: str, join: str = "-") -> str:
    """`getRideById` becomes get-ride-by-id."""
    apart = _HUMP.sub(lambda match: f"{match[1] or match[3]}{join}{match[2] or match[4]}", text[:200])
    plain = re.sub(r"[^a-z0-9._-]+", join, apart.lower().replace("_", join))
    plain = re.sub(f"{re.escape(join)}+", join, plain.replace("-", join))
    return plain.strip("-_.")[:_LONGEST].rstrip("-_.")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _word(value: object) -> str:
    return str(value)[:500] if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
