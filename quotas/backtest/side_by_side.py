"""Spreads independent work over the cores of this machine, for traces with many series."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Final, TypeVar

FEWEST = 5_000  # things to do; below it, starting processes costs more than it saves
AT_ONCE = 250  # in one piece, so that progress is seen early
AHEAD: Final = 4  # pieces per process that are under way or wait to be read, so that results do not pile up

Found = TypeVar("Found")
_do: Callable[[int], Any] | None = None  # for the processes, which are forked from this one


class ProcessLostError(Exception):
    """A process was killed, and its piece of the work with it."""

    def __init__(self) -> None:
        super().__init__(
            "a process of this backtest was killed, most likely because memory ran out; "
            "free memory, or use fewer cores (taskset -c 0), and start it again"
        )


def in_order(do: Callable[[int], Found], count: int) -> Iterator[Found]:
    """`do(0)`, `do(1)` … in this order. `do` must not change anything, because it may run in another process.

    Raises ProcessLostError if one of the processes is killed.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    if cores == 1 or count < FEWEST:
        yield from map(do, range(count))
        return
    global _do  # noqa: PLW0603 - a forked process finds it here, without having to be sent what it works on
    _do = do
    pieces = (range(first, min(count, first + AT_ONCE)) for first in range(0, count, AT_ONCE))
    # Not a multiprocessing.Pool: it waits for good for the piece of a process that was killed.
    processes = ProcessPoolExecutor(cores, multiprocessing.get_context("fork"))
    try:
        yield from _results(processes, pieces, AHEAD * cores)
    except BrokenProcessPool:
        raise ProcessLostError from None
    finally:
        processes.shutdown(cancel_futures=True)
        _do = None


def _results(processes: ProcessPoolExecutor, pieces: Iterator[range], ahead: int) -> Iterator[Any]:
    waiting = deque(_submitted(processes, islice(pieces, ahead)))
    while waiting:
        found = waiting.popleft().result()
        waiting.extend(_submitted(processes, islice(pieces, 1)))
        yield from found


def _submitted(processes: ProcessPoolExecutor, pieces: Iterable[range]) -> list[Future[list[Any]]]:
    return [processes.submit(_do_all, piece) for piece in pieces]


def _do_all(piece: range) -> list[Any]:
    if _do is None:
        raise RuntimeError("there is nothing to do")
    return [_do(number) for number in piece]
