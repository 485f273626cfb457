"""Tells apart the times at which a limit had the same parameters, where a reset lies between them.

A record says by a fingerprint under which parameters it was written. Parameters that go from A to B and back to A,
with a reset on the way, have two fingerprints of A: otherwise who was idle under B would keep what the reset took away.
Without a reset in between they have one, and what was used stays used.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headroom_edge.algorithms.base import Algorithm
from quotas.policy.spec import Generation

TURNS = 8  # the low bits of a fingerprint; the same parameters come at most five times in nine generations


class _Told(NamedTuple):
    algorithm: Algorithm
    turn: int


def turns(generations: Sequence[Generation]) -> tuple[int, ...]:
    """Of generations newest first; 0 for parameters that no earlier generation had."""
    told: list[_Told] = []
    oldest_first = tuple(reversed(generations))
    for index, generation in enumerate(oldest_first):
        same = [i for i in range(index) if told[i].algorithm == generation.algorithm]
        if not same:
            turn = 0
        elif any(later.carry == "reset" for later in oldest_first[same[-1] + 1 : index + 1]):
            turn = _free(generation.since_us, {told[i].turn for i in same})
        else:
            turn = told[same[-1]].turn
        told.append(_Told(generation.algorithm, turn))
    return tuple(one.turn for one in reversed(told))


def _free(since_us: int, taken: set[int]) -> int:
    """By its time, so that it stays the same when earlier generations are forgotten."""
    return next(turn for turn in ((since_us + step) % TURNS for step in range(TURNS)) if turn not in taken)
