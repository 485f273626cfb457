from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trace:
    """Where something of somebody is, and how much of it."""

    place: str
    count: int

    def __str__(self) -> str:
        return f"{self.count:>7,}  {self.place}"
