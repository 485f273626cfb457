"""A tier as a document declares it."""

from dataclasses import dataclass
from typing import Any

from headroom_edge.algorithms.base import ParameterError, shown
from headroom_edge.plan.priority import PRIORITIES
from quotas.policies.endpoint import highest_priority
from quotas.policies.limit_codec import NAME
from quotas.policies.problems import Problem, Problems, is_fit, mapping, unknown_fields
from quotas.policies.validate import read_name

LONGEST_LABEL = 200
LONGEST_DESCRIPTION = 500

# Field → its JSON Schema.
TIER_FIELDS: dict[str, dict[str, Any]] = {
    "name": NAME,
    "label": {"type": "string", "maxLength": LONGEST_LABEL, "description": "the name people use"},
    "description": {"type": "string", "maxLength": LONGEST_DESCRIPTION, "description": "whom it is for"},
    "priority": {
        "enum": ["", *PRIORITIES],
        "description": "the highest of its tenants' requests; empty: the endpoint's",
    },
}


@dataclass(frozen=True, slots=True)
class DeclaredTier:
    """None: the document does not say, so it stays as it is."""

    name: str
    label: str | None = None
    description: str | None = None
    priority: str | None = None


def parse_tier(raw: object, path: str = "") -> DeclaredTier | list[Problem]:
    problems = Problems(path)
    fields = problems.attempt(lambda: mapping(raw, "a tier"))
    if fields is None:
        return problems.found
    for unknown in unknown_fields(fields, TIER_FIELDS, "a tier"):
        problems.add(unknown)
    name = problems.attempt(lambda: read_name(fields, "tier"))
    label = problems.attempt(lambda: _text(fields, "label", LONGEST_LABEL))
    description = problems.attempt(lambda: _text(fields, "description", LONGEST_DESCRIPTION))
    priority = None
    if "priority" in fields:
        priority = problems.attempt(lambda: highest_priority(fields["priority"]))
    return problems.found or DeclaredTier(str(name), label, description, priority)


def _text(fields: dict[str, Any], field: str, longest: int) -> str | None:
    if field not in fields:
        return None
    value = fields[field]
    if not isinstance(value, str):
        raise ParameterError(field, f"{field} must be text, not {shown(value)}", "type")
    if not is_fit(value) or not value.isprintable():
        raise ParameterError(field, f"{field} contains a character that is not shown; write it in one line", "text")
    if len(value) > longest:
        raise ParameterError(field, f"{field} has {len(value)} characters; use at most {longest}", "too_long")
    return value
