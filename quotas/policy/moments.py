"""Times that somebody gives: between years in which every zone and every sum of them can be told."""

from datetime import datetime

FIRST_YEAR = 2000
LAST_YEAR = 2199
WITHIN = f"write a year from {FIRST_YEAR} to {LAST_YEAR}"


def is_within(moment: datetime) -> bool:
    """By the year as it is written: at the edge of the calendar no zone can be reckoned with."""
    return FIRST_YEAR <= moment.year <= LAST_YEAR
