"""What is wrong with a configuration somebody wrote: where, and what to do about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headroom_edge.algorithms.base import ParameterError, shown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    path: str  # policies[0].limits[1].window
    code: str
    message: str
    line: int | None = None  # of the document, where there is one

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"line {self.line}: {place}{self.message}" if self.line else f"{place}{self.message}"


@dataclass(slots=True)
class Problems:
    """Collects what is wrong below one path, so that an author sees all of it at once."""

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
