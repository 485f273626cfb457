"""What the policies of a document are attached to, by names that somebody may have mistyped."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from quotas.policy.document import Document
from quotas.policy.problems import Problem
from quotas.policy.spec import EVERYWHERE


@dataclass(frozen=True, slots=True)
class Names:
    """That are live."""

    tiers: Collection[str] = ()
    tenants: Collection[str] = ()
    endpoints: Collection[str] = ()


def unresolved(document: Document, live: Names) -> list[Problem]:
    """A name that is neither in the document nor live."""
    return [
        Problem(path, f"unknown_{kind}", _sentence(kind, name, known), document.line(path))
        for path, kind, name, known in _references(document, live)
        if name not in known
    ]


def _references(document: Document, live: Names) -> Iterator[tuple[str, str, str, frozenset[str]]]:
    tiers = frozenset((*document.tiers, *live.tiers))
    endpoints = frozenset((*(endpoint.name for endpoint in document.endpoints), *live.endpoints))
    for index, policy in enumerate(document.policies):
        path = f"policies[{index}]"
        if policy.tier is not None:
            yield f"{path}.tier", "tier", policy.tier, tiers
        if policy.tenant is not None:
            yield f"{path}.tenant", "tenant", policy.tenant, frozenset(live.tenants)
        if not policy.endpoint.endswith(EVERYWHERE):  # a whole service may have no endpoint yet
            yield f"{path}.endpoint", "endpoint", policy.endpoint, endpoints


def _sentence(kind: str, name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"there is no {kind} {name}; did you mean {close[0]}?"
    declared = "create it first" if kind == "tenant" else f"declare it under {kind}s"
    return f"there is no {kind} {name}, neither in the document nor live; {declared}, or correct the name"
