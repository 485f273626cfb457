"""What tenants asked for, of many of them at once: rows of seconds with whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from quotas.models.usage import LET_THROUGH, Outcome
from quotas.observations.cells import Cells
from quotas.observations.packing import groups
from quotas.observations.seconds import Seconds
from quotas.simulation.arrays import Flags, Ints

HOUR_S: Final = 3_600
# Refused by a limit. What a suspended or an unknown tenant asks for is no demand that a limit could be made for.
DENIED: Final = (Outcome.DENIED, Outcome.TOO_BIG, Outcome.OVERFLOW, Outcome.DEGRADED_CLOSED)


@dataclass(frozen=True, slots=True)
class Load:
    tenants: Ints
    endpoints: Ints
    rows: Ints  # epoch second at which the row of the table begins that holds it
    seconds: Seconds

    @classmethod
    def of_cells(cls, cells: Cells) -> Self:
        cells = cells.where(cells.tenant > 0).with_outcome((*LET_THROUGH, *DENIED))
        is_let = np.isin(cells.outcome, [ord(letter) for letter in LET_THROUGH])
        let, refused = is_let.astype(np.int64), (~is_let).astype(np.int64)
        sums = (cells.count * let, cells.count * refused, cells.cost * let, cells.cost * refused)
        seconds = Seconds(cells.start, cells.length, *sums)
        return cls(cells.tenant, cells.endpoint, cells.start // HOUR_S * HOUR_S, seconds)

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[int, int, int, bytes]]) -> Self:
        """Tenant, endpoint, start and packed seconds, as the table has them."""
        found = list(rows)
        parts = [Seconds.unpack(packed) for *_, packed in found]
        lengths = [len(part) for part in parts]
        keys = np.array([row[:3] for row in found], np.int64).reshape(-1, 3)
        columns = [np.concatenate(each) for each in zip(*(part.columns for part in parts), strict=True)]
        tenants, endpoints, starts = np.repeat(keys, lengths, axis=0).T
        return cls(tenants, endpoints, starts, Seconds(*columns) if parts else Seconds.joined([]))

    @classmethod
    def joined(cls, parts: Sequence[Load]) -> Self:
        tenants, endpoints, rows = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("tenants", "endpoints", "rows")
        )
        seconds = zip(*(part.seconds.columns for part in parts), strict=True)
        return cls(tenants, endpoints, rows, Seconds(*(np.concatenate(each) for each in seconds)))

    def __len__(self) -> int:
        return len(self.tenants)

    def where(self, kept: Flags | Ints | slice) -> Self:
        return type(self)(self.tenants[kept], self.endpoints[kept], self.rows[kept], self.seconds.where(kept))

    @property
    def hours(self) -> Ints:
        return self.seconds.starts_s // HOUR_S * HOUR_S

    def summed(self) -> Self:
        """One line per row of the table and second, in this order."""
        starts, lengths, *sums = self.seconds.columns
        order = np.lexsort((lengths, starts, self.rows, self.endpoints, self.tenants))
        keys = [key[order] for key in (self.tenants, self.endpoints, self.rows, starts, lengths)]
        first = groups(*keys)
        if not len(first):
            return self
        tenants, endpoints, rows, starts, lengths = (key[first] for key in keys)
        added = (np.add.reduceat(column[order], first) for column in sums)
        return type(self)(tenants, endpoints, rows, Seconds(starts, lengths, *added))

    def by_row(self) -> Iterator[tuple[int, int, int, Seconds]]:
        """Of sorted lines: tenant, endpoint, start and seconds of each row of the table."""
        first = groups(self.tenants, self.endpoints, self.rows)
        for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(self)], strict=True):
            key = (int(self.tenants[begin]), int(self.endpoints[begin]), int(self.rows[begin]))
            yield *key, self.seconds.where(slice(begin, end))
