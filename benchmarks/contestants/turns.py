"""Contestants take turns, so that a busy moment of the machine affects all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

ROUNDS = 5

Turn: TypeAlias = Callable[[], float]  # returns requests per second of the contestant's processor time


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    turns: Mapping[int, Turn]  # by how many limits a request is decided against
    lacks: str = ""  # what it does not do, of what a check of Headroom does


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was measured of contestants that do the same work. The first one is the yardstick."""

    title: str
    contestants: Sequence[Contestant]
    rates: Mapping[tuple[str, int], Sequence[float]]  # by name and limits; one value per round

    def rate(self, contestant: Contestant, limits: int) -> float:
        return median(self.rates[contestant.name, limits])

    def ratio(self, contestant: Contestant, limits: int) -> float | None:
        """How many times as many requests as the yardstick: the median of the ratios within each round."""
        first = self.contestants[0]
        if contestant is first:
            return None
        others = self.rates[first.name, limits if limits in first.turns else next(iter(first.turns))]
        return median(own / other for own, other in zip(self.rates[contestant.name, limits], others, strict=True))


def take_turns(title: str, contestants: Sequence[Contestant], rounds: int = ROUNDS) -> Comparison:
    rates: dict[tuple[str, int], list[float]] = {}
    for number in range(rounds + 1):
        for contestant in contestants:
            for limits, turn in contestant.turns.items():
                rate = turn()
                # The first round opens connections and fills caches, so it does not count.
                if number:
                    rates.setdefault((contestant.name, limits), []).append(rate)
    return Comparison(title, contestants, rates)
