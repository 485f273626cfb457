"""How requests arrive: each shape says how many come between two moments, in seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

Shape = Callable[[float, float, Random], int]


def steady(rate: float) -> Shape:
    """At random, `rate` a second on average."""
    return lambda start, end, chance: poisson(rate * (end - start), chance)


def wave(low: float, high: float, period_s: float) -> Shape:
    """A day in small: the rate goes up and down once a period."""

    def arrivals(start: float, end: float, chance: Random) -> int:
        phase = math.cos(2 * math.pi * start / period_s)
        return poisson((low + (high - low) * (1 - phase) / 2) * (end - start), chance)

    return arrivals


def pulses(size: int, every_s: float, offset_s: float = 0.0) -> Shape:
    """`size` at the same instant, once every so often: a cron job, or clients that poll in step."""

    def arrivals(start: float, end: float, chance: Random) -> int:
        del chance
        return size * (math.floor((end - offset_s) / every_s) - math.floor((start - offset_s) / every_s))

    return arrivals


def spells(rate: float, length_s: float, every_s: float) -> Shape:
    """At random, but only for a while every so often: somebody who runs a script."""

    def arrivals(start: float, end: float, chance: Random) -> int:
        return poisson(rate * (end - start), chance) if start % every_s < length_s else 0

    return arrivals


def poisson(mean: float, chance: Random) -> int:
    """How many of many independent events happen when `mean` are expected."""
    count, left = -1, mean
    while left >= 0:
        left -= chance.expovariate(1)
        count += 1
    return count
