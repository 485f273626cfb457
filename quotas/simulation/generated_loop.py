"""One arrival after the other through several limits: a loop that is made of the lines of each of them.

Calls cost more than what is done in them, so the lines of all limits stand in one loop, and the state of the tenant as
a whole in local variables. The texts are those of the kernels; nothing that anybody configured is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ONE = "1"  # what an arrival costs, where each costs that
MANY = -2


@dataclass(frozen=True, slots=True)
class LoopLines:
    """Of one limit; `@` in them stands for its place among the others."""

    values: Mapping[str, Any]  # by name
    ask: Sequence[str]  # from now, who and the state, before anything is charged
    fits: str  # whether it admits
    keep: Sequence[str]  # charges
    load: Sequence[str] = field(default=())  # the tenant's state into variables, and back
    store: Sequence[str] = field(default=())

    def at(self, place: int) -> LoopLines:
        mark = str(place)

        def put(texts: Sequence[str]) -> list[str]:
            return [text.replace("@", mark) for text in texts]

        values = {name.replace("@", mark): value for name, value in self.values.items()}
        fits = self.fits.replace("@", mark)
        return LoopLines(values, put(self.ask), fits, put(self.keep), put(self.load), put(self.store))


Loop = Callable[..., None]


def build_loop(lines: Sequence[LoopLines], costs: Sequence[str]) -> Loop:
    """Takes times, subjects, the columns of costs that are named, `denied_by`, `waits` and whom to ask about many.

    `denied_by` gets the place of the limit that denies; of many, what `many(now, who, deniers, costs)` says.
    """
    placed = [one.at(place) for place, one in enumerate(lines)]
    columns = [cost for cost in dict.fromkeys(costs) if cost != ONE]
    names = ["i", "now", "who", *columns]
    given = ["range(len(times))", "times", "whos", *(f"all_{column}" for column in columns)]
    found: dict[str, Any] = {name: value for one in placed for name, value in one.values.items()}
    taken = ["times", "whos", *given[3:], "denied_by", "waits", "many", *(f"{name}={name}" for name in found)]
    text = [
        f"def loop({', '.join(taken)}):",
        *_deep(1, _all(one.load for one in placed)),
        f"    for {', '.join(names)} in zip({', '.join(given)}):",
        *_deep(2, _all(one.ask for one in placed)),
        *_deep(2, ["by = -1", *(_asked(place, one.fits) for place, one in enumerate(placed)), "if by == -1:"]),
        *_deep(3, [*_all(one.keep for one in placed), "continue"]),
        *_deep(2, _denied(placed, costs)),
        *_deep(1, _all(one.store for one in placed)),
    ]
    exec("\n".join(text), found)  # noqa: S102 - the kernels' own lines; docs/adr/unrolled-replay.md has the gain
    loop: Loop = found["loop"]
    return loop


def _denied(placed: Sequence[LoopLines], costs: Sequence[str]) -> list[str]:
    """Most often one limit denies; which of several is named depends on all states, so these are stored first."""
    admits = ", ".join(one.fits for one in placed)
    many = [*_all(one.store for one in placed), f"by = many(now, who, ({admits},), ({', '.join(costs)},))"]
    return [f"if by == {MANY}:", *_deep(1, many), "denied_by[i] = by"]


def _asked(place: int, fits: str) -> str:
    return f"if not ({fits}): by = " + (f"{place} if by == -1 else {MANY}" if place else "0")


def _all(parts: Iterable[Sequence[str]]) -> list[str]:
    return [line for part in parts for line in part]


def _deep(depth: int, lines: Iterable[str]) -> list[str]:
    return ["    " * depth + line for line in lines]
