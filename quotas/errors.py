"""The one way in which a service function says no."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeVar

from django.utils import timezone

from headroom_edge.algorithms.base import ParameterError
from quotas.policies.problems import WITHIN, Problem, is_within

T = TypeVar("T")
V = TypeVar("V")


class Refused(ValueError):  # noqa: N818 - it is an answer, not a fault
    """Nothing was written. Each problem names its field and says what to change."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def refuse(field: str, code: str, message: str) -> Refused:
    return Refused([Problem(field, code, message)])


def accepted(parsed: T | list[Problem]) -> T:
    """What validation gives, or its refusal."""
    if isinstance(parsed, list):
        raise Refused(parsed)
    return parsed


def read(parse: Callable[[V], T], value: V) -> T:
    """One value by a rule of validation."""
    try:
        return parse(value)
    except ParameterError as error:
        raise Refused([Problem(error.field, error.code, error.message)]) from None


def check_moment(field: str, moment: datetime) -> None:
    if timezone.is_naive(moment):
        raise refuse(field, "timezone", f"{field} has no time zone; write it like 2030-01-31T18:00:00Z")
    if not is_within(moment):
        raise refuse(field, "range", f"{field} is in the year {moment.year}; {WITHIN}")
