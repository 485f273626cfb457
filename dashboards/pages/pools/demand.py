"""Shares by real demand: a worker measures and replays them, and the page shows how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboards.pages.pools.figures import TreeProposal
from headroom_edge.algorithms.sharing import Borrowing
from quotas.models import Task
from quotas.models.revision import newest_revision_number
from quotas.pools.amounts import Amounts, amounts_of
from quotas.pools.demand import demand_newest
from quotas.pools.queries import PoolRow
from quotas.pools.use import ShareKey

NOT_APART = "Only tenants are measured apart, so their shares cannot be proposed here."


@dataclass(frozen=True, slots=True)
class Demand:
    """What the page says about shares by real demand."""

    task: Task | None = None  # None: nobody has asked
    why_not: str = ""

    @property
    def found(self) -> dict[str, Any]:
        """The proposal, as the worker stored it; empty: there is none."""
        return (self.task.result or {}) if self.task and self.task.state == Task.State.DONE else {}

    @property
    def has_shares(self) -> bool:
        return any(one["proposed"] for one in self.found["members"])

    @property
    def is_old(self) -> bool:
        """Whether any limit has changed since."""
        return bool(newest_revision_number() > self.found["revision"])

    @property
    def proposed(self) -> dict[ShareKey, Borrowing]:
        return {
            (one["tenant"], one["endpoint"], one["limit"]): Borrowing.parse(dict(one["proposed"]))
            for one in self.found.get("members", ())
            if one["proposed"]
        }

    def shares(self, pool: PoolRow) -> dict[ShareKey, TreeProposal]:
        """In the time of the pool's rate."""
        return {key: _proposal(amounts_of(pool.algorithm, share)) for key, share in self.proposed.items()}


def _proposal(amounts: Amounts) -> TreeProposal:
    return TreeProposal(float(amounts.assured), None if amounts.ceiling is None else float(amounts.ceiling))


def demand_of(pool: PoolRow, *, is_apart: bool) -> Demand:
    return Demand(demand_newest(pool)) if is_apart else Demand(why_not=NOT_APART)
