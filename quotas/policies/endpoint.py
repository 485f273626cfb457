"""Endpoints as an author declares them: name, method, path template, default cost, priority, hints."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headroom_edge.algorithms.base import ParameterError, WholeNumber, shown
from headroom_edge.plan.priority import PRIORITIES, USUAL, Priority, priority_of
from quotas.policies.problems import Problem, Problems, mapping, unknown_field, unknown_fields
from quotas.policies.spec import ENDPOINT_PART, EVERYWHERE, METHODS, MOST_COST

LONGEST_NAME = 128
LONGEST_PATH = 512
DEFAULT_COST = WholeNumber("default_cost", most=MOST_COST)

_LITERAL = re.compile(r"[A-Za-z0-9._~@:-]+")
_VARIABLE = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_SEGMENT = f"({_LITERAL.pattern}|{_VARIABLE.pattern})"

# Field → its JSON Schema.
HINT_FIELDS: dict[str, dict[str, Any]] = {
    "bursty": {"type": "boolean"},
    "clients": {"enum": ["few", "many"]},
    "exact": {"type": "boolean"},
}
ENDPOINT_FIELDS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "pattern": f"^{ENDPOINT_PART}:{ENDPOINT_PART}$", "maxLength": LONGEST_NAME},
    "method": {"enum": list(METHODS), "default": "*"},
    "path": {"type": "string", "pattern": f"^(/|(/{_SEGMENT})+/?)?$", "maxLength": LONGEST_PATH, "default": ""},
    "default_cost": {**DEFAULT_COST.schema(), "default": 1},
    "priority": {"enum": list(PRIORITIES), "default": USUAL, "description": "a full pool refuses the last ones first"},
    "hints": {"type": "object", "properties": HINT_FIELDS, "additionalProperties": False},
}

_NAME = re.compile(f"{ENDPOINT_PART}:{ENDPOINT_PART}")
_SERVICE = re.compile(rf"{ENDPOINT_PART}:\*")


@dataclass(frozen=True, slots=True)
class Hints:
    """What the author knows about an endpoint. None: not stated."""

    bursty: bool | None = None  # can it absorb bursts?
    clients: Literal["few", "many"] | None = None
    exact: bool | None = None  # must the count be exact?


@dataclass(frozen=True, slots=True)
class DeclaredEndpoint:
    name: str
    method: str = "*"
    path: str = ""
    default_cost: int = 1
    hints: Hints = Hints()
    priority: Priority = USUAL

    @property
    def route(self) -> tuple[str, str]:
        """Two endpoints with the same route would match the same requests."""
        return self.method, _VARIABLE.sub("{}", self.path)


def parse_endpoint(raw: object, path: str = "") -> DeclaredEndpoint | list[Problem]:
    problems = Problems(path)
    fields = problems.attempt(lambda: mapping(raw, "an endpoint"))
    if fields is None:
        return problems.found
    for unknown in unknown_fields(fields, ENDPOINT_FIELDS, "an endpoint"):
        problems.add(unknown)
    name = problems.attempt(lambda: endpoint_name(fields.get("name")))
    method = problems.attempt(lambda: _method(fields.get("method", "*")))
    template = problems.attempt(lambda: path_template(fields.get("path", "")))
    cost = problems.attempt(lambda: default_cost(fields))
    hints = problems.attempt(lambda: _hints(fields.get("hints", {})))
    priority = problems.attempt(lambda: read_priority(fields.get("priority", USUAL)))
    if problems.found or name is None or method is None or template is None or cost is None or hints is None:
        return problems.found
    return DeclaredEndpoint(name, method, template, cost, hints, priority or USUAL)


def endpoint_name(value: object) -> str:
    if value is None:
        raise ParameterError("name", "the endpoint's name is missing; write service:operation", "missing")
    if isinstance(value, str) and _NAME.fullmatch(value) and len(value) <= LONGEST_NAME:
        return value
    raise ParameterError("name", f"the endpoint's name cannot be {shown(value)}; {_NAME_RULE}", "endpoint")


def endpoint_or_service(value: object, is_global: bool) -> str:
    """What a policy may be attached to. Only a global policy may be attached to a whole service."""
    if value is None:
        raise ParameterError("endpoint", "endpoint is missing; write service:operation, or * for all", "missing")
    if isinstance(value, str) and len(value) <= LONGEST_NAME:
        if value == EVERYWHERE or _NAME.fullmatch(value) or (is_global and _SERVICE.fullmatch(value)):
            return value
        if _SERVICE.fullmatch(value):
            message = f"endpoint {value!r} names a whole service, which only a global policy can; name the operation"
            raise ParameterError("endpoint", message, "endpoint")
    raise ParameterError("endpoint", f"endpoint cannot be {shown(value)}; {_NAME_RULE}, or * for all", "endpoint")


_NAME_RULE = "write service:operation, each of lower case letters, digits, - _ and ."


def path_template(value: object) -> str:
    """Each segment is literal or a {variable}. Patterns are not allowed, so that matching takes linear time."""
    if value == "":
        return ""
    if not isinstance(value, str) or not value.startswith("/") or len(value) > LONGEST_PATH:
        message = f"path must start with / and have at most {LONGEST_PATH} characters, like /v1/rides/{{id}}"
        raise ParameterError("path", message, "path")
    variables = [_variable(segment) for segment in value[1:].removesuffix("/").split("/")] if value != "/" else []
    named = [name for name in variables if name]
    if len(set(named)) < len(named):
        raise ParameterError("path", "path names a variable twice; give each {variable} its own name", "path")
    return value


def default_cost(fields: Mapping[str, Any]) -> int:
    cost = DEFAULT_COST.read({"default_cost": fields.get("default_cost", 1)})
    if cost > MOST_COST:
        raise ParameterError("default_cost", f"default_cost is at most {MOST_COST:,}", "cost")
    return cost


def read_priority(value: object) -> Priority:
    if priority := priority_of(value):
        return priority
    message = f"priority cannot be {shown(value)}; use one of {', '.join(PRIORITIES)}"
    raise ParameterError("priority", message, "priority")


def highest_priority(value: object) -> str:
    """Of a tier or a tenant. Empty: it lowers nothing."""
    return "" if value == "" else read_priority(value)


def _variable(segment: str) -> str | None:
    match = _VARIABLE.fullmatch(segment)
    if match:
        return match[1]
    if _LITERAL.fullmatch(segment) and segment not in (".", ".."):
        return None
    raise ParameterError(
        "path",
        f"path segment {shown(segment)} is neither plain text nor one {{variable}}; paths are templates like "
        "/v1/rides/{id}, not patterns",
        "path",
    )


def _method(value: object) -> str:
    if isinstance(value, str) and value in METHODS:
        return value
    raise ParameterError("method", f"method cannot be {shown(value)}; use one of {', '.join(METHODS)}", "method")


def _hints(raw: object) -> Hints:
    fields = mapping(raw, "hints", "hints")
    for field, value in fields.items():
        if field not in HINT_FIELDS:
            error = unknown_field(field, HINT_FIELDS, "hints")
            raise ParameterError(f"hints.{field}", error.message, error.code)
        if field == "clients" and value not in HINT_FIELDS["clients"]["enum"]:
            raise ParameterError("hints.clients", f"clients must be few or many, not {shown(value)}", "hint")
        if field != "clients" and not isinstance(value, bool):
            raise ParameterError(f"hints.{field}", f"{field} must be true or false, not {shown(value)}", "hint")
    return Hints(**fields)
