"""States as a policy document: YAML that `read_document` reads back as the same."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from quotas.policy.fields import DEFAULTS
from quotas.policy.states import States

_ENDPOINT_DEFAULTS = {"method": "*", "path": "", "default_cost": 1, "hints": {}}
_LIMIT_DEFAULTS = {**DEFAULTS, "subject": "tenant"}
_SECTIONS = (("tier", "tiers"), ("endpoint", "endpoints"), ("policy", "policies"))


class _Dumper(yaml.CSafeDumper):
    """Quotes what YAML 1.1 would take for something else than text, and what our own reader would."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def document_text(states: States, heading: str, notes: Mapping[str, str]) -> str:
    """`notes` stand as comments above the objects they are about."""
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
    """A comment ends with its line, and a reason may have several."""
    return "".join(c if c.isprintable() else " " for c in text)


def _item(fields: Mapping[str, Any]) -> Iterator[str]:
    text = yaml.dump([fields], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return (f"  {line}" for line in text.splitlines())


def _tier(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name}


def _endpoint(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, **_unless_default(state, _ENDPOINT_DEFAULTS)}


def _policy(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    owner = {field: state[field] for field in ("tier", "tenant") if state[field] is not None}
    limits = [{"name": limit, **_unless_default(fields, _LIMIT_DEFAULTS)} for limit, fields in state["limits"].items()]
    return {"name": name, **owner, "endpoint": state["endpoint"], "limits": limits}


def _unless_default(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in defaults or defaults[name] != value}


_WRITERS = {"tier": _tier, "endpoint": _endpoint, "policy": _policy}
