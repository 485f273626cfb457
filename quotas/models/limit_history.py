"""The parameters a limit has had, as JSON: `Limit.past`, `Tenant.handovers`.

In the database a time is the number of the revision that brought the change; `Clock` turns it into the
time at which that revision was first published. With `by_number` the numbers themselves are the times,
which is how the services compare and store them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.algorithms.base import Algorithm
from quotas.policies.spec import PAST_GENERATIONS, Generation, Handover

Clock = Callable[[int], int]


def by_number(revision: int) -> int:
    return revision


def algorithm_load(stored: Mapping[str, Any]) -> Algorithm:
    return ALGORITHMS[stored["algorithm"]].parse(dict(stored["parameters"]))


def algorithm_dump(algorithm: Algorithm) -> dict[str, Any]:
    return {"algorithm": algorithm.name, "parameters": algorithm.describe()}


def generations_load(stored: Iterable[Mapping[str, Any]], clock: Clock) -> tuple[Generation, ...]:
    return tuple(Generation(algorithm_load(row), clock(row["revision"]), row["carry"]) for row in stored)


def generations_dump(generations: Iterable[Generation]) -> list[dict[str, Any]]:
    """Of generations whose times are revision numbers."""
    newest = list(generations)[:PAST_GENERATIONS]
    return [{**algorithm_dump(g.algorithm), "revision": g.since_us, "carry": g.carry} for g in newest]


def handovers_load(stored: Iterable[Mapping[str, Any]], clock: Clock) -> tuple[Handover, ...]:
    return tuple(
        Handover(row["scope"], row["limit"], clock(row["revision"]), row["carry"], generations_load(row["past"], clock))
        for row in stored
    )


def handovers_dump(handovers: Iterable[Handover]) -> list[dict[str, Any]]:
    return [
        {
            "scope": handover.scope,
            "limit": handover.limit,
            "revision": handover.since_us,
            "carry": handover.carry,
            "past": generations_dump(handover.past),
        }
        for handover in handovers
    ]


def revisions_in(stored: Iterable[Mapping[str, Any]]) -> set[int]:
    """Every revision that rows of `Limit.past` or `Tenant.handovers` mention."""
    found: set[int] = set()
    for row in stored:
        found.add(row["revision"])
        found |= {past["revision"] for past in row.get("past", ())}
    return found
