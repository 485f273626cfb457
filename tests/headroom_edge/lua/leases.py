"""Leases in the tests: what hr_lease and hr_return are asked, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.headroom_edge.lua.world import NOW_US, Reply, World

ENDPOINT = "rides:search"


@dataclass(frozen=True, slots=True)
class Block:
    calls: int
    cost: int
    lasts_us: int
    receipt: str
    dimensions: tuple[str, ...]

    @classmethod
    def of(cls, raw: list[Any]) -> Block:
        calls, cost, lasts_us, receipt, dimensions = raw
        return cls(calls, cost, lasts_us, receipt.decode(), tuple(name.decode() for name in dimensions))


@dataclass(frozen=True, slots=True)
class Settlement:
    receipt: str = ""
    spent_calls: int = 0
    spent_cost: int = 0
    back_calls: int = 0
    back_cost: int = 0

    @property
    def words(self) -> tuple[Any, ...]:
        return (self.spent_calls, self.spent_cost, self.back_calls, self.back_cost, self.receipt)


NOTHING = Settlement()


def spent(block: Block, count: int) -> Settlement:
    """So many requests of cost 1 were served from the block; the rest comes back."""
    return Settlement(block.receipt, count, count, block.calls - count, block.cost - count)


def lease(
    world: World,
    now_us: int = NOW_US,
    want: int | tuple[int, int] = 100,
    settle: Settlement = NOTHING,
    cost: int | str = 1,
    longest_ms: int = 1_000,
    endpoint: str = ENDPOINT,
    rows: bool = False,
    **dimensions: str,
) -> tuple[Reply, Block]:
    calls, units = want if isinstance(want, tuple) else (want, want)
    pairs = [part for pair in dimensions.items() for part in pair]
    words = (endpoint, cost, calls, units, longest_ms, *settle.words, *(("ALL",) if rows else ()), *pairs)
    *reply, block = world.ask("lease", now_us, *words)
    return Reply.of(reply), Block.of(block)


def give_back(world: World, now_us: int, settle: Settlement, endpoint: str = ENDPOINT, **dimensions: str) -> int:
    pairs = [part for pair in dimensions.items() for part in pair]
    return int(world.ask("return", now_us, endpoint, *settle.words, *pairs))
