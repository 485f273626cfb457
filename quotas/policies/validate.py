"""Turns raw fields from a form, the API or a document into the values of spec.py, or into a list of problems.

Pure: knows no database. The compiler checks what depends on other limits of a tenant.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from headroom_edge.algorithms.base import ParameterError, shown
from headroom_edge.algorithms.calendar_quota import TENANT_ZONE, CalendarQuota
from quotas.policies.adapt import scope_problem
from quotas.policies.endpoint import LONGEST_NAME, endpoint_or_service
from quotas.policies.limit_codec import NAME, limit_read
from quotas.policies.problems import Problem, Problems, items, mapping, unknown_fields
from quotas.policies.spec import ENDPOINT_PART, EVERYWHERE, NAME_PATTERN, TENANT_PATTERN, Limit, Policy

MOST_LIMITS = 32  # of one policy
TENANT = {"type": "string", "pattern": f"^{TENANT_PATTERN}$"}

# Field → its JSON Schema.
POLICY_FIELDS: dict[str, dict[str, Any]] = {
    "name": NAME,
    "tier": {"anyOf": [NAME, {"type": "null"}]},
    "tenant": {"anyOf": [TENANT, {"type": "null"}]},
    "endpoint": {
        "type": "string",
        "pattern": rf"^(\*|{ENDPOINT_PART}:(\*|{ENDPOINT_PART}))$",
        "maxLength": LONGEST_NAME,
        "description": "service:operation, * for all, or (global policies only) service:*",
    },
    "limits": {"type": "array", "minItems": 1, "maxItems": MOST_LIMITS, "items": {"$ref": "#/$defs/limit"}},
}

_NAME = re.compile(NAME_PATTERN)
_TENANT = re.compile(TENANT_PATTERN)


def parse_limit(raw: object, path: str = "") -> Limit | list[Problem]:
    problems = Problems(path)
    fields = problems.attempt(lambda: mapping(raw, "a limit"))
    if fields is None:
        return problems.found
    name = problems.attempt(lambda: read_name(fields, "limit"))
    limit = limit_read(name or "", {key: value for key, value in fields.items() if key != "name"})
    if isinstance(limit, list):
        for error in limit:
            problems.add(error)
        return problems.found
    return problems.found or limit


def parse_policy(raw: object, path: str = "") -> Policy | list[Problem]:
    problems = Problems(path)
    fields = problems.attempt(lambda: mapping(raw, "a policy"))
    if fields is None:
        return problems.found
    for unknown in unknown_fields(fields, POLICY_FIELDS, "a policy"):
        problems.add(unknown)
    name = problems.attempt(lambda: read_name(fields, "policy"))
    owner = problems.attempt(lambda: _owner(fields)) or {}
    endpoint = problems.attempt(lambda: endpoint_or_service(fields.get("endpoint"), is_global=not owner))
    limits = _limits(fields, problems)
    if problems.found:
        return problems.found
    policy = Policy(str(name), str(endpoint), limits, owner.get("tier"), owner.get("tenant"))
    _check_together(policy, problems)
    return problems.found or policy


def check_policies(policies: Iterable[Policy]) -> list[Problem]:
    """Conflicts between policies that are valid by themselves. Paths count the policies from 0."""
    found, names, places = list[Problem](), dict[str, int](), dict[str, str]()
    for index, policy in enumerate(policies):
        if policy.name in names:
            message = f"policies {names[policy.name]} and {index} are both named {policy.name}; rename one"
            found.append(Problem(f"policies[{index}].name", "duplicate", message))
        elif policy.source in places:
            message = f"{policy.source} already has the policy {places[policy.source]}; put all limits into one"
            found.append(Problem(f"policies[{index}].endpoint", "duplicate", message))
        names.setdefault(policy.name, index)
        places.setdefault(policy.source, policy.name)
    return found


def read_name(fields: Mapping[str, Any], owner: str) -> str:
    return _matching(fields.get("name"), "name", _NAME, f"the {owner}'s name", ", - _ and .")


def tenant_name(value: object) -> str:
    return _matching(value, "tenant", _TENANT, "tenant", " and -")


def tier_name(value: object) -> str:
    return _matching(value, "tier", _NAME, "tier", ", - _ and .")


def _matching(value: object, field: str, pattern: re.Pattern[str], words: str, others: str) -> str:
    if value is None:
        raise ParameterError(field, f"{words} is missing; add it", "missing")
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ParameterError(
            field,
            f"{words} cannot be {shown(value)}; use up to 63 lower case letters, digits{others}, "
            "starting with a letter or digit",
            "name",
        )
    return value


def _owner(fields: Mapping[str, Any]) -> dict[str, str]:
    """Empty for a global policy."""
    tier, tenant = fields.get("tier"), fields.get("tenant")
    if tier is not None and tenant is not None:
        raise ParameterError(
            "tenant", "a policy belongs to a tier or to a tenant, not to both; make it two policies", "owner"
        )
    if tier is not None:
        return {"tier": tier_name(tier)}
    return {} if tenant is None else {"tenant": tenant_name(tenant)}


def _limits(fields: Mapping[str, Any], problems: Problems) -> tuple[Limit, ...]:
    raw = problems.attempt(lambda: items(fields.get("limits") or (), "limits"))
    if raw == []:
        problems.add(ParameterError("limits", "the policy has no limits; add one or remove the policy", "empty"))
    if raw and len(raw) > MOST_LIMITS:
        message = f"the policy has {len(raw)} limits; the maximum is {MOST_LIMITS}"
        problems.add(ParameterError("limits", message, "too_many"))
        return ()
    limits = []
    for index, one in enumerate(raw or ()):
        limit = parse_limit(one, problems.at(f"limits[{index}]"))
        if isinstance(limit, Limit):
            limits.append(limit)
        else:
            problems.found.extend(limit)
    return tuple(limits)


def _check_together(policy: Policy, problems: Problems) -> None:
    names, shaper = set[str](), None
    for index, limit in enumerate(policy.limits):
        where = Problems(problems.at(f"limits[{index}]"), problems.found)
        if limit.name in names:
            where.add(ParameterError("name", f"the policy already has a limit {limit.name}; rename one", "duplicate"))
        names.add(limit.name)
        if limit.algorithm.kind == "l" and limit.mode == "enforce":
            if shaper:
                where.add(_second_shaper(shaper))
            shaper = shaper or limit.name
        if limit.adapt and policy.endpoint.endswith(EVERYWHERE):
            where.add(scope_problem(policy.endpoint))
        if _lacks_zone(policy, limit):
            where.add(_no_zone())


def _second_shaper(first: str) -> ParameterError:
    return ParameterError(
        "algorithm",
        f"{first} is already an enforced leaky_bucket, and two cannot both keep their spacing; "
        "use gcra or token_bucket here, or mode shadow",
        "second_leaky_bucket",
    )


def _lacks_zone(policy: Policy, limit: Limit) -> bool:
    is_global = policy.tier is None and policy.tenant is None
    return is_global and isinstance(limit.algorithm, CalendarQuota) and limit.algorithm.timezone == TENANT_ZONE


def _no_zone() -> ParameterError:
    return ParameterError(
        "timezone", "a global calendar_quota has no tenant whose time zone it could take; name one, such as UTC", "zone"
    )
