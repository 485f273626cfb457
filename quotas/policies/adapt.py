"""How a limit follows the health of its endpoint: the field `adapt`. Pure: knows no database.

As people write it: `{floor: 30%, ceiling: 100%, slow: 300ms, errors: 5%, pin: 42%}`, or as one text in forms and
spreadsheets: `floor 30%, slow 300ms`. Shares are kept in 1/1000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from headroom_edge.algorithms.base import (
    EXACT_MAX,
    Algorithm,
    ParameterError,
    format_duration,
    parse_duration_us,
    shown,
)
from headroom_edge.algorithms.bucket import Gcra, TokenBucket

WHOLE: Final = 1_000
LEAST: Final = 10  # 1 %
SLOW_US: Final = (1_000, 600_000_000)
USUAL: Final = {"floor": "30%", "ceiling": "100%", "errors": "5%"}
FIELDS: Final = ("floor", "ceiling", "slow", "errors", "pin")
LONGEST_TEXT: Final = 200
ADAPTING: Final = (TokenBucket.name, Gcra.name)
_SHARE: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]))?%", re.ASCII)
_SHARE_SCHEMA: Final = {"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9])?%$"}

_PARTS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "floor": {**_SHARE_SCHEMA, "default": USUAL["floor"], "description": "the least share of the limit"},
        "ceiling": {**_SHARE_SCHEMA, "default": USUAL["ceiling"], "description": "the largest share of the limit"},
        "slow": {
            "type": "string",
            "pattern": "^[1-9][0-9]{0,11}(ms|s|m)$",
            "description": "an answer that takes longer is bad, as a 5xx is",
        },
        "errors": {**_SHARE_SCHEMA, "default": USUAL["errors"], "description": "more bad answers than this: cut"},
        "pin": {**_SHARE_SCHEMA, "description": "stay at this share, whatever the health"},
    },
    "required": ["slow"],
    "additionalProperties": False,
}
SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [_PARTS, {"type": "string", "pattern": "slow", "maxLength": LONGEST_TEXT}],
    "description": "follow the health of the endpoint, between floor and ceiling; as text: slow 300ms, floor 30%",
}


@dataclass(frozen=True, slots=True)
class Adapt:
    floor: int
    ceiling: int
    slow_us: int
    errors: int
    pin: int | None = None

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Raises ParameterError for the first part that cannot work."""
        if isinstance(value, str):
            value = _parts(value)
        if not isinstance(value, Mapping):
            raise _error(f"adapt must be parts such as floor, slow and errors, not {shown(value)}")
        unknown = next((name for name in value if name not in FIELDS), None)
        if unknown is not None:
            raise _error(f"adapt has no part {shown(unknown)}; use {', '.join(FIELDS)}")
        given = {**USUAL, **{name: part for name, part in value.items() if part is not None}}
        floor, ceiling, errors = (_share(given, name) for name in ("floor", "ceiling", "errors"))
        found = cls(floor, ceiling, _slow(given), errors, _share(given, "pin") if "pin" in given else None)
        return found._checked()

    def _checked(self) -> Self:
        if self.floor < LEAST:
            raise _error(f"adapt.floor must be from 1% to 100%, not {percent(self.floor)}")
        if self.ceiling < self.floor:
            raise _error(f"adapt.ceiling must be from the floor of {percent(self.floor)} to 100%")
        if not 0 < self.errors < WHOLE:
            raise _error(f"adapt.errors must be from 0.1% to 99.9%, not {percent(self.errors)}")
        if self.pin is not None and not self.floor <= self.pin <= self.ceiling:
            bounds = f"{percent(self.floor)} to {percent(self.ceiling)}"
            raise _error(f"adapt.pin must be from floor to ceiling ({bounds}), not {percent(self.pin)}")
        return self

    def describe(self) -> dict[str, str]:
        parts = {
            "floor": percent(self.floor),
            "ceiling": percent(self.ceiling),
            "slow": format_duration(self.slow_us),
            "errors": percent(self.errors),
        }
        return parts if self.pin is None else {**parts, "pin": percent(self.pin)}

    @property
    def text(self) -> str:
        return ", ".join(f"{name} {part}" for name, part in self.describe().items())

    def pinned(self, pin: int | None) -> Adapt:
        return replace(self, pin=pin)._checked()

    @property
    def least(self) -> int:
        """The smallest factor that can be in force."""
        return self.pin if self.pin is not None else self.floor

    @property
    def most(self) -> int:
        return self.pin if self.pin is not None else self.ceiling

    def words(self) -> str:
        if self.pin is not None:
            return f"pinned at {percent_words(self.pin)}"
        bounds = f"between {percent_words(self.floor)} and {percent_words(self.ceiling)}"
        slow = format_duration(self.slow_us)
        return f"adapts {bounds}, cut if over {percent_words(self.errors)} of answers fail or take over {slow}"


def problem_of(algorithm: Algorithm) -> ParameterError | None:
    """Why this algorithm cannot adapt; None if it can."""
    if not isinstance(algorithm, TokenBucket | Gcra):
        return _error(f"adapt cannot be used with {algorithm.name}; use token_bucket or gcra, or remove adapt")
    if algorithm.size * algorithm.P * WHOLE > EXACT_MAX:
        return _error("burst × per is too large to adapt exactly; lower burst, shorten per, or remove adapt")
    return None


def scope_problem(endpoint: str) -> ParameterError:
    return _error(f"adapt follows the health of one endpoint, so it cannot be used on {endpoint}; name an endpoint")


def percent(share: int) -> str:
    whole, rest = divmod(share, WHOLE // 100)
    return f"{whole}.{rest}%" if rest else f"{whole}%"


def percent_words(share: int) -> str:
    return percent(share).replace("%", " %")


def share_of(text: str) -> int:
    """In 1/1000. Raises ValueError unless it is from 0% to 100%."""
    found = _SHARE.fullmatch(text)
    share = int(found[1]) * 10 + int(found[2] or 0) if found else WHOLE + 1
    if share > WHOLE:
        raise ValueError(f"{text[:20]!r} is not a share; write one such as 30% or 62.5%, at most 100%")
    return share


def _parts(text: str) -> dict[str, str]:
    """`slow 300ms, floor 30%` as parts."""
    pairs = [pair.split() for pair in text[:LONGEST_TEXT].replace(":", " ").split(",") if pair.strip()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise _error(f"adapt must be text such as slow 300ms, floor 30%, errors 5%, not {shown(text)}")
    return dict(pairs)


def _share(given: Mapping[str, Any], name: str) -> int:
    value = given[name]
    try:
        return share_of(value) if isinstance(value, str) else share_of("")
    except ValueError:
        message = f"adapt.{name} must be a share of at most 100%, such as 30% or 62.5%, not {shown(value)}"
        raise _error(message) from None


def _slow(given: Mapping[str, Any]) -> int:
    if "slow" not in given:
        raise _error("adapt.slow is missing; add how long an answer may take, such as 300ms")
    value = given["slow"]
    try:
        slow_us = parse_duration_us(value) if isinstance(value, str) else 0
    except ValueError:
        slow_us = 0
    if not SLOW_US[0] <= slow_us <= SLOW_US[1]:
        raise _error(f"adapt.slow must be a duration from 1ms to 10m, not {shown(value)}")
    return slow_us


def _error(message: str) -> ParameterError:
    return ParameterError("adapt", message, "adapt")
