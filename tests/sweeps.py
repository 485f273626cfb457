"""Values for tests, of which `make test` runs some and the sweep all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

EVERY = 100  # examples, where a test does not say how many


def first_of(values: Iterable[Any]) -> list[ParameterSet]:
    """The first stands for all."""
    return [pytest.param(value, marks=[pytest.mark.sweep] if number else []) for number, value in enumerate(values)]


def each_once(first: Sequence[Any], second: Sequence[Any]) -> list[ParameterSet]:
    """All pairs; those stand for all that have each value once."""
    chosen = {(n % len(first), n % len(second)) for n in range(max(len(first), len(second)))}
    return [
        pytest.param(one, other, marks=[] if (place, beside) in chosen else [pytest.mark.sweep])
        for place, one in enumerate(first)
        for beside, other in enumerate(second)
    ]


def examples(number: int) -> int:
    """Of a property: the same part of them in `make test` as of others, all in the sweep."""
    return number * settings().max_examples // EVERY
