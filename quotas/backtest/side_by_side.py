"""Spreads independent work over the cores of this machine, for traces with many series."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

FEWEST = 5_000  # things to do; below it, starting processes costs more than it saves
AT_ONCE = 250  # in one piece, so that progress is seen early

Found = TypeVar("Found")
_do: Callable[[int], Any] | None = None  # for the processes, which are forked from this one


def in_order(do: Callable[[int], Found], count: int) -> Iterator[Found]:
    """`do(0)`, `do(1)` … in this order. `do` must not change anything, because it may run in another process."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    if cores == 1 or count < FEWEST:
        yield from map(do, range(count))
        return
    global _do  # noqa: PLW0603 - a forked process finds it here, without having to be sent what it works on
    _do = do
    pieces = [range(first, min(count, first + AT_ONCE)) for first in range(0, count, AT_ONCE)]
    try:
        with multiprocessing.get_context("fork").Pool(cores) as processes:
            for found in processes.imap(_do_all, pieces):
                yield from found
    finally:
        _do = None


def _do_all(piece: range) -> list[Any]:
    if _do is None:
        raise RuntimeError("there is nothing to do")
    return [_do(number) for number in piece]
