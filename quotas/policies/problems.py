"""Problems of a configuration that an author wrote, and checks of what can be stored and shown."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from itertools import islice
from math import isfinite
from typing import Any, TypeVar

from headroom_edge.algorithms.base import ParameterError, shown

T = TypeVar("T")

MOST_UNKNOWN = 10  # fields that are reported

ENDLESS = "a number is too large; write a smaller one"
# PostgreSQL cannot store NUL, and no encoding has half of a surrogate pair.
_UNFIT = re.compile("[\x00\ud800-\udfff]")
FIRST_YEAR = 2000
LAST_YEAR = 2199
WITHIN = f"write a year from {FIRST_YEAR} to {LAST_YEAR}"


class CompileError(ValueError):
    """A configuration that cannot be enforced. The message names the field and says what to change."""


@dataclass(frozen=True, slots=True)
class Problem:
    path: str  # policies[0].limits[1].window
    code: str
    message: str
    line: int | None = None  # of the document, if there is one

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"line {self.line}: {place}{self.message}" if self.line else f"{place}{self.message}"

    @property
    def sentence(self) -> str:
        """The message as people read it."""
        return sentence(self.message)


def sentence(text: str) -> str:
    """With a capital letter, unless it begins with a name such as `limits.burst`, and a full stop."""
    text = text.strip()
    text = text[:1].upper() + text[1:] if text[:1].islower() and text.split(" ")[0].isalpha() else text
    return ended(text)


def ended(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else text + "."


@dataclass(slots=True)
class Problems:
    """Collects the problems below one path, so that an author sees all of them at once."""

    path: str = ""
    found: list[Problem] = field(default_factory=list)

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path and name else self.path or name

    def add(self, error: ParameterError) -> None:
        self.found.append(Problem(self.at(error.field), error.code, error.message))

    def attempt(self, check: Callable[[], T]) -> T | None:
        try:
            return check()
        except ParameterError as error:
            self.add(error)
            return None


def mapping(raw: object, owner: str, field: str = "") -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise ParameterError(field, f"{owner} must be a mapping of fields, not {shown(raw)}", "type")
    return {str(key): value for key, value in raw.items()}


def items(raw: object, field: str) -> list[Any]:
    if not isinstance(raw, list | tuple):
        raise ParameterError(field, f"{field} must be a list, not {shown(raw)}", "type")
    return list(raw)


def unknown_fields(given: Iterable[object], known: Iterable[str], owner: str) -> Iterator[ParameterError]:
    """Only the first few, because the search for a similar name is slow."""
    names = tuple(known)
    unknown = (field for field in given if field not in names)
    yield from (unknown_field(field, names, owner) for field in islice(unknown, MOST_UNKNOWN))


def unknown_field(field: object, known: Iterable[str], owner: str) -> ParameterError:
    known = tuple(known)
    close = get_close_matches(str(field), known, n=1)
    way_out = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known) or 'none'}"
    text = str(field)[:64]
    shown_name = text if text.isprintable() else repr(text)
    return ParameterError(shown_name, f"{shown_name} is not a field of {owner}; {way_out}", "unknown_field")


def is_fit(text: str) -> bool:
    return not _UNFIT.search(text)


def is_endless(value: object) -> bool:
    """Whether it contains a number that JSON can write but no float can hold: 1e400."""
    return any(isinstance(one, float) and not isfinite(one) for one in _parts(value))


def fault_in(value: object) -> str | None:
    """Why it cannot be stored. Keys are checked like values."""
    if any(isinstance(one, str) and not is_fit(one) for one in _parts(value)):
        return "a text contains a NUL or an incomplete character (\\u0000, \\ud800 to \\udfff); remove it"
    return ENDLESS if is_endless(value) else None


def _parts(value: object) -> Iterator[object]:
    left = [value]
    while left:
        one = left.pop()
        yield one
        if isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            left += one


def is_within(moment: datetime) -> bool:
    """Compares the year as it is written: conversion to another zone fails at the edge of the calendar."""
    return FIRST_YEAR <= moment.year <= LAST_YEAR
