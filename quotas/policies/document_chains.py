"""The chains of a document, judged from the document alone. Pure.

A document may hold a part of the configuration only. So a limit whose parent is not in it is not judged here; planning
the document does that, with all that is live.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from headroom_edge.algorithms.sharing import Borrowing
from quotas.policies.chains import chain_problems
from quotas.policies.document import MOST_PROBLEMS, Document
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.problems import Problem
from quotas.policies.resolve import Effective, globals_at, resolve
from quotas.policies.spec import Policy


def unworkable(document: Document) -> list[Problem]:
    """Problems of limits that cannot borrow as they say: the first of them, each once."""
    sentences = {message: effective for effective, message in reversed(list(_found(document)))}
    paths = _paths(document.policies)
    problems = (
        (paths[effective.source, effective.limit.name], message) for message, effective in reversed(sentences.items())
    )
    return [Problem(path, "chain", message, document.line(path)) for path, message in islice(problems, MOST_PROBLEMS)]


def _found(document: Document) -> Iterator[tuple[Effective, str]]:
    index = PolicyIndex.of(document.policies, ())
    for scope in index.globals:
        yield from _judged((), index.globals, scope)
    for policies in index.tiers.values():
        yield from _owned(policies, index.globals)
    known = {limit.name for policies in index.tiers.values() for policy in policies.values() for limit in policy.limits}
    for policies in index.tenants.values():
        yield from _owned(policies, index.globals, known)


def _owned(
    policies: Mapping[str, Policy], everyone: Mapping[str, Policy], nearer: Collection[str] = ()
) -> Iterator[tuple[Effective, str]]:
    """`nearer`: limits of tiers. One of them may be the tenant's; a global one of that name is then no parent."""
    limits = (limit for policy in policies.values() for limit in policy.limits)
    if not any(isinstance(limit.algorithm, Borrowing) for limit in limits):
        return
    resolved = resolve(Layers(policies), 0)
    for scope in policies:
        yield from _judged(resolved.at(scope), everyone, scope, nearer)


def _judged(
    own: Iterable[Effective], everyone: Mapping[str, Policy], scope: str, nearer: Collection[str] = ()
) -> Iterator[tuple[Effective, str]]:
    shared = (effective for effective in globals_at(everyone, scope) if effective.limit.name not in nearer)
    applied = [effective for effective in (*own, *shared) if effective.limit.mode != "off"]
    return chain_problems(applied, scope)


def _paths(policies: Iterable[Policy]) -> dict[tuple[str, str], str]:
    """Where a limit is in the document, by its policy's place and its name."""
    return {
        (policy.source, limit.name): f"policies[{index}].limits[{position}]"
        for index, policy in enumerate(policies)
        for position, limit in enumerate(policy.limits)
    }
