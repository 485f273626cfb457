"""What the store must still hear about leases: ended blocks, and denials that this process repeated by itself."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from headroom_edge.check import pack, prefix_of
from headroom_edge.leases.block import Settlement

SETTLEMENTS_KEPT: Final = 10_000
DENIALS_KEPT: Final = 10_000
COUNT_MAX: Final = 2**24 - 1  # in one report
COST_MAX: Final = 2**39 - 1


@dataclass(frozen=True, slots=True)
class DenialReport:
    """Repeated denials of one limit."""

    tenant: str
    endpoint: str
    limit: str
    count: int
    cost: int

    def command(self, shards: int) -> bytes:
        about = (prefix_of(self.tenant, shards), self.tenant, self.endpoint)
        sums = (str(min(self.count, COUNT_MAX)), str(min(self.cost, COST_MAX)))
        return pack(("FCALL", "hr_report", "1", *about, "d", *sums, self.limit))


Due = Settlement | DenialReport


class Dues:
    """Bounded: while the store is away for long, the oldest settlements are lost. The caller holds a lock."""

    def __init__(self) -> None:
        self._settlements: deque[Settlement] = deque(maxlen=SETTLEMENTS_KEPT)
        self._denials: dict[tuple[str, str, str], tuple[int, int]] = {}

    def put(self, due: Due) -> None:
        if isinstance(due, Settlement):
            self._settlements.append(due)
        else:
            self.deny(due.tenant, due.endpoint, due.limit, due.cost, due.count)

    def deny(self, tenant: str, endpoint: str, limit: str, cost: int, count: int = 1) -> None:
        cell = (tenant, endpoint, limit)
        sums = self._denials.get(cell)
        if sums is not None:
            self._denials[cell] = (sums[0] + count, sums[1] + cost)
        elif len(self._denials) < DENIALS_KEPT:
            self._denials[cell] = (count, cost)

    def take(self, most: int) -> list[Due]:
        taken: list[Due] = [self._settlements.popleft() for _ in range(min(most, len(self._settlements)))]
        cells = list(self._denials)[: most - len(taken)]
        return [*taken, *(DenialReport(*cell, *self._denials.pop(cell)) for cell in cells)]
