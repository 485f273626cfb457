"""How a service function refuses, and the checks that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TypeVar
from unicodedata import category

from django.utils import timezone

from headroom_edge.algorithms.base import DAY_US, ParameterError, parse_duration_us
from quotas.policies.problems import WITHIN, Problem, is_fit, is_within

LONGEST_REASON = 500
LONGEST_AUTHOR = 150
LONGEST_SPAN_DAYS = 36_500  # the sum with any moment of this century is a moment

_CONTROL = frozenset({"Cc", "Zl", "Zp"})  # Unicode categories: control, line separator, paragraph separator
# Marks that turn the direction of what follows, and those of no width: a text with them can look like another one.
_DISGUISES = frozenset("\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff")

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
    """What validation returned, or its problems as a refusal."""
    if isinstance(parsed, list):
        raise Refused(parsed)
    return parsed


def read(parse: Callable[[V], T], value: V) -> T:
    """One value as `parse` reads it; its error becomes a refusal."""
    try:
        return parse(value)
    except ParameterError as error:
        raise Refused([Problem(error.field, error.code, error.message)]) from None


def check_moment(field: str, moment: datetime) -> None:
    if timezone.is_naive(moment):
        raise refuse(field, "timezone", f"{field} has no time zone; write it like 2030-01-31T18:00:00Z")
    if not is_within(moment):
        raise refuse(field, "range", f"{field} is in the year {moment.year}; {WITHIN}")


def span_of(field: str, text: str) -> timedelta:
    """A duration such as 24h; refused if no moment is that far away."""
    span_us = parse_duration_us(text)
    if span_us > LONGEST_SPAN_DAYS * DAY_US:
        raise refuse(field, "range", f"{field} is too long; use at most {LONGEST_SPAN_DAYS}d")
    return timedelta(microseconds=span_us)


def one_line(field: str, text: str, longest: int) -> str:
    """A label or a name; refused if it is too long, or has a character that ends the line or is not shown."""
    _check_text(field, text, longest)
    if not_shown := next((one for one in text if category(one) in _CONTROL), None):
        raise refuse(field, "text", f"{field} contains the control character {not_shown!r}; write it in one line")
    if hidden := next((one for one in text if one in _DISGUISES), None):
        raise refuse(field, "text", f"{field} contains the invisible mark U+{ord(hidden):04X}; remove it")
    return text


def author_and_reason(author: str, reason: str) -> tuple[str, str]:
    """Both without surrounding space; refused if one is missing, too long or unfit for the database."""
    author, reason = _there("author", author), _there("reason", reason)
    _check_text("reason", reason, LONGEST_REASON)
    return one_line("author", author, LONGEST_AUTHOR), reason


def _there(field: str, text: str) -> str:
    if not (text := text.strip()):
        raise refuse(field, "missing", f"{field} is missing; every change says who made it and why")
    return text


def _check_text(field: str, text: str, longest: int) -> None:
    if not is_fit(text):
        raise refuse(field, "text", f"{field} contains a NUL or an incomplete character; remove it")
    if len(text) > longest:
        raise refuse(field, "too_long", f"{field} has {len(text)} characters; use at most {longest}")
