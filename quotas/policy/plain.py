"""What can be kept and shown: whole characters without NUL, and numbers that are finite."""

import re
from collections.abc import Iterator, Mapping
from math import isfinite

ENDLESS = "a number is too large to be one; write a smaller one"
# PostgreSQL keeps no NUL, and half of a surrogate pair is no character in any encoding.
_UNFIT = re.compile("[\x00\ud800-\udfff]")


def is_fit(text: str) -> bool:
    return not _UNFIT.search(text)


def is_endless(value: object) -> bool:
    """Whether a number in it is one that JSON can write and nothing can count: 1e400."""
    return any(isinstance(one, float) and not isfinite(one) for one in _parts(value))


def fault_in(value: object) -> str | None:
    """Why it cannot be kept; names count as values do."""
    if any(isinstance(one, str) and not is_fit(one) for one in _parts(value)):
        return "a text has a NUL or half a character (\\u0000, \\ud800 to \\udfff) in it; leave that out"
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
