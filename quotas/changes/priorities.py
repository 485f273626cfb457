"""Whose requests a change makes less important to a pool. Nothing is cut: a pool that runs full refuses them sooner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headroom_edge.algorithms.base import counted
from headroom_edge.algorithms.sharing import Pool
from headroom_edge.plan.priority import PRIORITIES, USUAL, lowest
from quotas.changes.affected import Group, Judgement, Side
from quotas.policies.resolve import globals_at
from quotas.policies.spec import EVERYWHERE

MOST_LOWERED: Final = 100  # that an impact lists
MOST_NAMED: Final = 100  # endpoints


@dataclass(frozen=True, slots=True)
class LoweredPriority:
    owner: str  # `tier pro` (its tenants without limits of their own), `tenant acme`, `everyone`
    before: str
    after: str
    endpoints: tuple[str, ...]  # the first of them, by name; `*`: those that are not registered
    endpoint_count: int
    tenants: int

    def __str__(self) -> str:
        more = f" and {self.endpoint_count - 1:,} more" if self.endpoint_count > 1 else ""
        whom = counted(self.tenants, "tenant", "tenants")
        return f"priority on {self.endpoints[0]}{more}: {self.before} → {self.after} for {whom}"


def lowered_priorities(judgement: Judgement) -> Iterator[LoweredPriority]:
    """The groups of tenants for which a pool will take requests for less important than now."""
    edited = _edited(judgement)
    for group in judgement.groups():
        endpoints = _asked(judgement, group, edited)
        if not endpoints or not judgement.names(group, 1):
            continue
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for endpoint in endpoints:
            before, after = (_priority(side, group, endpoint) for side in (judgement.was, judgement.now))
            if PRIORITIES.index(after) > PRIORITIES.index(before) and _has_pool(judgement, group, endpoint):
                found[before, after].append(endpoint)
        for (before, after), names in found.items():
            first = tuple(names[:MOST_NAMED])
            yield LoweredPriority(str(group), before, after, first, len(names), judgement.count(group))


def _edited(judgement: Judgement) -> list[str]:
    """Endpoints whose own priority changes."""
    was, now = judgement.was.configuration.endpoints, judgement.now.configuration.endpoints
    return sorted(name for name in was.keys() & now.keys() if was[name].priority != now[name].priority)


def _asked(judgement: Judgement, group: Group, edited: list[str]) -> list[str]:
    if _highest(judgement.was, group) == _highest(judgement.now, group):
        return edited
    was, now = judgement.was.configuration.endpoints, judgement.now.configuration.endpoints
    return [*sorted(was.keys() & now.keys()), EVERYWHERE]


def _highest(side: Side, group: Group) -> str:
    if group.tenant:
        return side.of_tenant(group.tenant).highest
    return side.index.of_tier(group.tier).highest if group.tier else ""


def _priority(side: Side, group: Group, endpoint: str) -> str:
    known = side.configuration.endpoints.get(endpoint)
    return lowest(known.priority if known else USUAL, _highest(side, group))


def _has_pool(judgement: Judgement, group: Group, endpoint: str) -> bool:
    """For all tenants together, only global pools count. Each tier tells of its own, and of all if it lowers them."""
    is_own_edit = _highest(judgement.was, group) != _highest(judgement.now, group)
    limits = judgement.periods(group)[0].after.at(endpoint)
    if is_own_edit:
        limits = (*limits, *globals_at(judgement.now.index.globals, endpoint))
    return any(isinstance(each.limit.algorithm, Pool) and each.limit.mode == "enforce" for each in limits)
