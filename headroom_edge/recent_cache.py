"""A bounded cache of recently used keys."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentCache(Generic[K, V]):
    """Keeps at least the last `size` keys used, and at most twice as many.

    It has two generations instead of an ordered list, so a hit costs one look-up and no lock. When the young generation
    is full it becomes the old one, and the keys of the old one that were not used since are dropped.
    """

    def __init__(self, size: int, on_drop: Callable[[Mapping[K, V]], None] | None = None) -> None:
        """`on_drop` gets the keys that are dropped, if there are any."""
        self._size = size
        self._on_drop = on_drop
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def get(self, key: K) -> V | None:
        value = self._young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        if len(self._young) >= self._size and key not in self._young:
            dropped, self._old, self._young = self._old, self._young, {}
            if self._on_drop is not None:
                self._on_drop({old: kept for old, kept in dropped.items() if old not in self._old and old != key})
        self._young[key] = value
