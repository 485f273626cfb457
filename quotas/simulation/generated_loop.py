"""Generates the loop that decides arrivals one by one, from the source lines of each limit's kernel.

Function calls would cost more than the decisions, so the lines of all limits form one loop, and the tenant's state is
in local variables. The source comes from the kernels only; it never contains configured text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ONE = "1"  # the cost, if every arrival costs 1
MANY = -2


@dataclass(frozen=True, slots=True)
class LoopLines:
    """The source lines of one limit; `@` is replaced by its index."""

    values: Mapping[str, Any]  # by name
    ask: Sequence[str]  # computes the outcome from `now`, `who` and the state, without charging
    fits: str  # the expression that says whether it admits
    keep: Sequence[str]  # charges
    load: Sequence[str] = field(default=())  # reads the tenant's state into variables; `store` writes it back
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
    """The loop takes times, subjects, the named cost columns, `denied_by`, `waits` and `many`.

    It writes the index of the denying limit to `denied_by`. If several deny, `many(now, who, admits, costs)` chooses.
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
    """Usually one limit denies. To choose among several, `many` needs all states, so they are stored first."""
    admits = ", ".join(one.fits for one in placed)
    many = [*_all(one.store for one in placed), f"by = many(now, who, ({admits},), ({', '.join(costs)},))"]
    return [f"if by == {MANY}:", *_deep(1, many), "denied_by[i] = by"]


def _asked(place: int, fits: str) -> str:
    return f"if not ({fits}): by = " + (f"{place} if by == -1 else {MANY}" if place else "0")


def _all(parts: Iterable[Sequence[str]]) -> list[str]:
    return [line for part in parts for line in part]


def _deep(depth: int, lines: Iterable[str]) -> list[str]:
    return ["    " * depth + line for line in lines]
