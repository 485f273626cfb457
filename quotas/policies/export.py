"""A policy document as the states of its objects, and states as YAML that `read_document` reads back unchanged."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import yaml

from headroom_edge.plan.priority import USUAL
from quotas.policies.document import Document
from quotas.policies.endpoint import DeclaredEndpoint
from quotas.policies.limit_codec import DEFAULTS, fields_of, limit_fields
from quotas.policies.spec import Policy
from quotas.policies.tier import DeclaredTier

States = Mapping[str, Mapping[str, Any]]


def states_of(document: Document) -> dict[str, dict[str, Any]]:
    """What the document says of its objects; of a tier, only what it says of it at all."""
    tiers = {f"tier:{tier.name}": _said(tier) for tier in document.tiers}
    endpoints = {f"endpoint:{endpoint.name}": endpoint_state(endpoint) for endpoint in document.endpoints}
    return tiers | endpoints | {f"policy:{policy.name}": policy_state(policy) for policy in document.policies}


def _said(tier: DeclaredTier) -> dict[str, Any]:
    return {field: value for field, value in asdict(tier).items() if field != "name" and value is not None}


def tier_state(label: str, description: str, priority: str) -> dict[str, Any]:
    return given(label=label, description=description, priority=priority)


def tier_after(live: Mapping[str, Any] | None, said: Mapping[str, Any]) -> dict[str, Any]:
    """A tier's state once a document that says this of it is applied."""
    return given(**{**(live or {}), **said})


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not empty. States from before these fields existed lack them, which means the same."""
    return {field: value for field, value in fields.items() if value}


def without_candidates(state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A document does not contain candidates."""
    if state is None or "limits" not in state:
        return state
    return {**state, "limits": {name: fields_of(limit) for name, limit in state["limits"].items()}}


def endpoint_state(endpoint: DeclaredEndpoint) -> dict[str, Any]:
    hints = {name: value for name, value in asdict(endpoint.hints).items() if value is not None}
    fields = {"method": endpoint.method, "path": endpoint.path, "default_cost": endpoint.default_cost, "hints": hints}
    return fields | given_priority(endpoint.priority)


def given_priority(priority: str) -> dict[str, str]:
    """Unless it is the usual one, which endpoints had before there were priorities."""
    return {"priority": priority} if priority != USUAL else {}


def policy_state(policy: Policy) -> dict[str, Any]:
    limits = {limit.name: limit_fields(limit) for limit in policy.limits}
    return {"tier": policy.tier, "tenant": policy.tenant, "endpoint": policy.endpoint, "limits": limits}


_ENDPOINT_DEFAULTS = {"method": "*", "path": "", "default_cost": 1, "hints": {}}
_LIMIT_DEFAULTS = {**DEFAULTS, "subject": "tenant"}
_SECTIONS = (("tier", "tiers"), ("endpoint", "endpoints"), ("policy", "policies"))


class _Dumper(yaml.CSafeDumper):
    """Quotes text that YAML 1.1 or our own reader would not read as text."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def document_text(states: States, heading: str, notes: Mapping[str, str]) -> str:
    """`notes` become comments above the objects they are about."""
    return "\n".join(_lines(states, heading, notes)) + "\n"


def _lines(states: States, heading: str, notes: Mapping[str, str]) -> Iterator[str]:
    yield f"# {heading}"
    for kind, section in _SECTIONS:
        names = sorted(key for key in states if key.startswith(f"{kind}:"))
        yield f"{section}:" if names else f"{section}: []"
        for key in names:
            if key in notes:
                yield f"  # {_one_line(notes[key])}"
            yield from _item(_WRITERS[kind](key.partition(":")[2], states[key]))


def _one_line(text: str) -> str:
    """A comment is one line, but a reason may have several."""
    return "".join(c if c.isprintable() else " " for c in text)


def _item(fields: Mapping[str, Any]) -> Iterator[str]:
    text = yaml.dump([fields], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return (f"  {line}" for line in text.splitlines())


def _tier(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **state}


def _endpoint_yaml(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **_unless_default(state, _ENDPOINT_DEFAULTS)}


def _policy_yaml(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    owner = {field: state[field] for field in ("tier", "tenant") if state[field] is not None}
    limits = [{"name": limit, **_unless_default(fields, _LIMIT_DEFAULTS)} for limit, fields in state["limits"].items()]
    return {"name": name, **owner, "endpoint": state["endpoint"], "limits": limits}


def _unless_default(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in defaults or defaults[name] != value}


_WRITERS = {"tier": _tier, "endpoint": _endpoint_yaml, "policy": _policy_yaml}
