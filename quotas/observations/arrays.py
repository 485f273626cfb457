"""Types of numpy arrays, and the table of columns that usage, calibration and replay build on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def whole_numbers(values: object) -> Ints:
    return np.asarray(values, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Columns:
    """A table: every field of a subclass is a column, and all have the same length."""

    @property
    def columns(self) -> tuple[Ints, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    @classmethod
    def of_columns(cls, columns: Iterable[Ints]) -> Self:
        return cls(*columns)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        if not parts:
            return cls.of_columns(np.empty(0, np.int64) for _ in fields(cls))
        return cls.of_columns(np.concatenate(found) for found in zip(*(part.columns for part in parts), strict=True))

    def __len__(self) -> int:
        return len(self.columns[0])

    def where(self, kept: Flags | Ints | slice) -> Self:
        return self.of_columns(column[kept] for column in self.columns)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Individual requests of one tenant on one endpoint, in order of time."""

    times_us: Ints
    costs: Ints
    subjects: Ints  # any numbers that tell them apart
    denied: Flags
    retry_us: Ints  # Retry-After of a denied request; 0 otherwise

    def __len__(self) -> int:
        return len(self.times_us)

    def cut(self, first: int, last: int) -> Attempts:
        place = slice(first, last)
        return Attempts(
            self.times_us[place], self.costs[place], self.subjects[place], self.denied[place], self.retry_us[place]
        )
