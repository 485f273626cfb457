"""Patterns of texts in requests, for the OpenAPI document: what the fields of `api.inputs` accept.

PostgreSQL cannot store NUL, so no text may have one.
"""

from __future__ import annotations

from typing import Final

TEXT: Final = r"^[^\u0000]*$"
SAID: Final = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"  # not only spaces
# Also the marks that turn the direction of a text, and those of no width.
_CONTROL: Final = (
    r"\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff"
)
LINE: Final = rf"^[^{_CONTROL}]*$"
SAID_IN_A_LINE: Final = rf"^[^{_CONTROL}]*[^\s{_CONTROL}][^{_CONTROL}]*$"
# RFC 3339, from the first year to the last that a time may have; see quotas.policies.problems.
MOMENT: Final = (
    r"^2[01][0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])$"
)
CLOCK: Final = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
TIMEZONE: Final = r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}$"
CURSOR: Final = r"^[A-Za-z0-9_-]+(:[A-Za-z0-9_-]+){2,3}$"

# One of several. Control characters are named because regular expressions disagree on which of them are white space.
ANY_NAME: Final = r"[^\s\u0000-\u001F\u007F-\u00A0,]+"


def names(choices: tuple[str, ...]) -> str:
    """Names, separated by commas."""
    one = f"({'|'.join(choices)})" if choices else ANY_NAME
    return f"^{one}(,{one})*$"
